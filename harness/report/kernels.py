# SPDX-License-Identifier: MIT
"""The kernels that there are, as a table: what each is, and the machine that it is made for."""

from __future__ import annotations

import pandas as pd
from rich.table import Table

from harness.kernel.load import kernel_names, load_kernel
from harness.kernel.packaged import PREFIX, packaged_kernels
from harness.report.terminal import frame_table


def kernels_table() -> Table:
    """One row per kernel of the project, and one per version of Debian's own."""
    rows = []
    for name in kernel_names():
        recipe = load_kernel(name)
        spec, hardware = recipe.spec, recipe.spec.hardware
        machine = f"{hardware.type}, {hardware.memory_mib} MiB, {'several CPUs' if hardware.smp else 'one CPU'}"
        patches = f"; patches: {', '.join(spec.patches)}" if spec.patches else ""
        rows.append((name, f"{spec.description}\n{recipe.version}, {spec.arch}; {machine}{patches}".lstrip()))
    rows += _packaged()
    return frame_table("Kernels", pd.DataFrame(rows, columns=["kernel", "what"]), most=None)


def _packaged() -> list[tuple[str, str]]:
    releases: dict[str, list[str]] = {}
    for kernel in packaged_kernels():
        releases.setdefault(".".join(kernel.version.split(".")[:2]), []).append(kernel.release)
    return [
        (f"{PREFIX}{version}", f"{len(names)} builds of Debian's own, none to compile\n{names[0]} to {names[-1]}")
        for version, names in releases.items()
    ]
