# SPDX-License-Identifier: MIT
"""A kernel's modules: which of them a guest needs for QEMU's devices, and in which order they are loaded."""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.errors import RunError

DEPENDS = re.compile(rb"\0depends=([\w,-]*)\0")
SIGNED, DESCRIPTION = b"~Module signature appended~\n", 12
#: Drivers of what the machines of ours have (harness.machine.spec), where a kernel has them as modules.
DRIVERS = ("qemu_fw_cfg", "virtio_pci", "virtio_console", "virtio_blk", "virtio_net")


def drivers_among(modules: Iterable[Path]) -> dict[str, Path]:
    """Those of DRIVERS that are among these files, and what they need, by name, in the order in which they load."""
    found = {module_name(path): path for path in modules}
    return {name: found[name] for name in loading_order(DRIVERS, found)}


def copy_drivers(drivers: Mapping[str, Path], folder: Path) -> list[str]:
    """Put them into `folder`/drivers, unpacked, their names in order; without a number what they are called."""
    (folder / "drivers").mkdir()
    for number, (name, path) in enumerate(drivers.items()):
        (folder / "drivers" / f"{number:02d}-{name}.ko").write_bytes(without_signature(read_module(path)))
    return list(drivers)


def without_signature(module: bytes) -> bytes:
    """A module's ELF file alone: an emulated CPU checks a signature for half a second, and nothing here needs it.

    Behind it stand its description, whose last word is its size, and a mark (include/linux/module_signature.h).
    """
    if not module.endswith(SIGNED):
        return module
    end = len(module) - len(SIGNED)
    return module[: end - DESCRIPTION - int.from_bytes(module[end - 4 : end], "big")]


def module_name(path: Path) -> str:
    """As the kernel says it."""
    return path.name.partition(".ko")[0].replace("-", "_")


def read_module(path: Path) -> bytes:
    """A module's ELF file; Debian 13 packs them with xz."""
    data = path.read_bytes()
    try:
        return lzma.decompress(data) if path.suffix == ".xz" else data
    except lzma.LZMAError as error:
        raise RunError(f"is damaged: {error}", where=str(path)) from error


def loading_order(wanted: Sequence[str], modules: Mapping[str, Path]) -> list[str]:
    """Those wanted that are there, each after all that it needs (its .modinfo)."""
    order: dict[str, None] = {}

    def add(name: str) -> None:
        if name in order or name not in modules:
            return
        for other in needs(read_module(modules[name]), str(modules[name])):
            add(other)
        order[name] = None

    for name in wanted:
        add(name)
    return list(order)


def needs(module: bytes, where: str) -> list[str]:
    """Names of the modules that one depends on: a text of its section .modinfo, which ends in a zero as all there."""
    found = DEPENDS.search(module) if module.startswith(b"\x7fELF") else None
    if found is None:
        raise RunError("is no module of a kernel", where=where)
    return [name.replace("-", "_") for name in found[1].decode().split(",") if name]
