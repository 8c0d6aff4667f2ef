# SPDX-License-Identifier: MIT
"""Where functions of one of Debian's own kernels stand in its source: its package of debug information tells."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.artefacts.store import Store
from harness.errors import RunError, UsageError
from harness.kernel.packaged import Packaged, find_packaged
from harness.kernel.spec import KernelRecipe
from harness.packages.deb import unpack
from harness.packages.fetch import fetch
from harness.packages.lock import Entry
from harness.packages.tree import tools
from harness.progress import step

#: What Debian's build folder puts before the name of a file.
BUILT_IN = re.compile(r"^(?:.*/)?debian/build/[^/]+/|^\./")


def debug_package(recipe: KernelRecipe) -> tuple[Packaged, Entry]:
    """The kernel, and its package of debug information; UsageError where there is none."""
    source = recipe.spec.source
    kernel = find_packaged(source.package) if source.package is not None else None
    entry = kernel.debug() if kernel is not None else None
    if kernel is None or entry is None:
        hint = "such as debian:6.1 or debian:6.12, in place of an older build"
        raise UsageError(f"no debug information of kernel {recipe.spec.name} is locked", hint=hint)
    return kernel, entry


def debug_file(store: Store, recipe: KernelRecipe) -> Path:
    """The kernel's vmlinux with debug information, unpacked in the store."""
    kernel, entry = debug_package(recipe)

    def build(folder: Path) -> None:
        path = fetch(store, [entry])[entry.sha256]
        places = (f"usr/lib/debug/boot/vmlinux-{kernel.release}", f"usr/lib/debug/lib/modules/{kernel.release}/vmlinux")
        with store.scratch("debug") as scratch:
            with step(f"unpacking the debug information of {kernel.name}"):
                unpack(path, scratch, lambda name: name if name in places else None)
            # Which of the two is a link to the other is another in each version.
            found = [scratch / place for place in places if (scratch / place).is_file()]
            if not found:
                raise RunError(f"{entry.package} has no vmlinux of {kernel.release}")
            found[0].resolve().rename(folder / "vmlinux")

    return store.obtain("debug", kernel.release, {"package": entry.sha256}, build).file("vmlinux")


def lines_of(vmlinux: Path, addresses: Sequence[int]) -> list[str]:
    """FILE:LINE of each address, as binutils' addr2line tells it; empty where nothing is known."""
    with tempfile.NamedTemporaryFile("w", prefix="krepro-addresses-") as file, step("looking up lines of source"):
        file.write("\n".join(f"{address:#x}" for address in addresses))
        file.flush()
        told = tools().run(["addr2line", "-e", vmlinux, f"@{file.name}"]).stdout.splitlines()
    if len(told) != len(addresses):
        raise RunError(f"addr2line told {len(told)} of {len(addresses)} lines", where=str(vmlinux))
    return [source_line(text) for text in told]


def source_line(text: str) -> str:
    """A line as addr2line has it, by its place in the kernel's tree; empty where it has none."""
    place, _, line = text.partition(" (")[0].rpartition(":")
    return f"{BUILT_IN.sub('', place)}:{line}" if line.isdecimal() and line != "0" else ""
