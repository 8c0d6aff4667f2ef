# SPDX-License-Identifier: MIT
"""The kernels that there are, as a table: what each is, and the machine that it is made for."""

from __future__ import annotations

import pandas as pd
from rich.table import Table

from harness.kernel.load import kernel_names, load_kernel
from harness.kernel.packaged import PREFIX, Packaged, packaged_kernels, series_of
from harness.report.terminal import frame_table

PACKAGED_HEAD = """\
# Debian's own kernels

Made by `./inv docs` from `kernels.lock`. `./inv selftest --kernel debian:newest` tries one of each row: that it boots,
that two boots are equal bit for bit, and that the oracle counts what is known.

| version | flavour | builds | the newest | the newest that modules can be built for |
|---|---|---|---|---|"""


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
        releases.setdefault(series_of(kernel.version), []).append(kernel.release)
    return [
        (f"{PREFIX}{version}", f"{len(names)} builds of Debian's own, none to compile\n{names[0]} to {names[-1]}")
        for version, names in releases.items()
    ]


def packaged_page() -> str:
    """A page with Debian's own kernels by version, flavour and machine: how many builds, and the newest."""
    builds: dict[tuple[str, str], list[Packaged]] = {}
    for kernel in packaged_kernels():
        builds.setdefault((series_of(kernel.version), f"{kernel.flavour}, {kernel.machine}"), []).append(kernel)
    rows = []
    for (series, flavour), some in builds.items():
        named = [f"`{PREFIX}{kernel.release}`" for kernel in some]
        with_modules = [name for name, kernel in zip(named, some, strict=True) if kernel.headers()]
        rows.append(
            f"| {series} | {flavour} | {len(some)} | {named[-1]} | {with_modules[-1] if with_modules else ''} |"
        )
    return "\n".join([PACKAGED_HEAD, *rows, ""])
