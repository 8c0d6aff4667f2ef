# SPDX-License-Identifier: MIT
"""A kernel of the user's own, by a path: a bzImage, a package, a build folder. The rest of it is found beside it."""

from __future__ import annotations

import glob
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.artefacts.store import Artefact, Store, hash_file
from harness.errors import UsageError
from harness.kernel.modules import copy_drivers, drivers_among
from harness.kernel.packaged import wanted_file
from harness.packages.deb import MAGIC as DEB_MAGIC
from harness.packages.deb import unpack

#: Raised when the artefact has other files, or others in them, than before.
RECIPE_VERSION = 2
ELF_MAGIC = b"\x7fELF"
#: Documentation/arch/x86/boot.rst: the header's magic, the place of the version's text, and of xloadflags.
HEADER, HEADER_AT, VERSION_AT, XLOADFLAGS_AT, KERNEL_64 = b"HdrS", 0x202, 0x20E, 0x236, 1
BUILT = Path("arch/x86/boot/bzImage")
HEAD_BYTES = 0x10000
#: A System.map of fewer bytes says that it is somewhere else.
STUB_BYTES = 4096
WHAT = "a bzImage, a linux-image .deb, a build folder, or a source tree"


@dataclass(frozen=True)
class Given:
    """Files of a kernel: what boots, and what of the rest is there. `release` and `bits` are by its own header."""

    image: Path
    release: str
    bits: int
    config: Path | None
    symbols: Path | None
    modules: Path | None


def is_tree(path: Path) -> bool:
    """Whether this is a folder with a kernel's source that was not built in."""
    return (path / "Kconfig").is_file() and (path / "Makefile").is_file() and not (path / BUILT).is_file()


def find_given(path: Path) -> Given:
    """The kernel at a path. UsageError for what is none, with what it is."""
    if not path.exists():
        raise UsageError("is not there", where=str(path), hint=WHAT)
    if path.is_dir():
        if not (path / BUILT).is_file():
            raise UsageError(f"has no {BUILT}, and no source of a kernel", where=str(path), hint=WHAT)
        return _described(path / BUILT, path / ".config", path / "System.map", path)
    head = _head(path)
    if head.startswith(ELF_MAGIC):
        image = next((one for one in (path.parent / BUILT, path.parent / "bzImage") if one.is_file()), None)
        if image is None:
            raise UsageError("is a vmlinux, which QEMU boots by its bzImage alone", where=str(path), hint=WHAT)
        return find_given(image)
    build = path.parents[3] if path.resolve().parts[-4:] == BUILT.parts else None
    if build is not None:
        return _described(path, build / ".config", build / "System.map", build)
    end = path.name.partition("-")[2]
    release = _release(head) or end
    beside = [path.with_name(f"{name}-{end}" if end else name) for name in ("config", "System.map")]
    modules = next((one for one in (Path("/lib/modules") / release, path.parent / "modules") if one.is_dir()), None)
    return _described(path, beside[0], beside[1], modules)


def _head(path: Path) -> bytes:
    """The first bytes of a file, which hold a bzImage's header and the text of its version."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error


def _described(image: Path, config: Path, symbols: Path, modules: Path | None) -> Given:
    head = _head(image)
    if head[HEADER_AT : HEADER_AT + 4] != HEADER:
        raise UsageError("is no kernel for x86", where=str(image), hint=WHAT)
    flags = int.from_bytes(head[XLOADFLAGS_AT : XLOADFLAGS_AT + 2], "little")
    whole = symbols.is_file() and symbols.stat().st_size > STUB_BYTES
    readable = config.is_file() and os.access(config, os.R_OK)
    return Given(
        image,
        _release(head) or "unknown",
        64 if flags & KERNEL_64 else 32,
        config if readable else None,
        symbols if whole and os.access(symbols, os.R_OK) else None,
        modules,
    )


def _release(head: bytes) -> str:
    """As `uname -r` says it: the first word of the text that the header points to."""
    at = int.from_bytes(head[VERSION_AT : VERSION_AT + 2], "little") + 0x200
    text = head[at : at + 200].partition(b"\0")[0].decode(errors="replace").split()
    return text[0] if text and re.fullmatch(r"[\w.+~-]{1,64}", text[0]) else ""


def given_kernel(store: Store, path: Path) -> Artefact:
    """What is at the path, as an artefact: bzImage, and of config, System.map and drivers/ what there is.

    UsageError for what is no kernel, RunError for a package that is damaged.
    """
    return _of_packages(store, path) if is_package(path) else _of_files(store, find_given(path))


def _of_files(store: Store, found: Given) -> Artefact:
    drivers = drivers_among(found.modules.rglob("*.ko*")) if found.modules is not None else {}
    files = {"bzImage": found.image, "config": found.config, "System.map": found.symbols}
    there = {name: file for name, file in files.items() if file is not None}
    inputs = {
        "recipe": RECIPE_VERSION,
        "files": {name: hash_file(file) for name, file in there.items()},
        "drivers": [hash_file(file) for file in drivers.values()],
    }

    def build(folder: Path) -> dict[str, Any]:
        for name, file in there.items():
            shutil.copyfile(file, folder / name)
        return {"release": found.release, "drivers": copy_drivers(drivers, folder)}

    return store.obtain("given", found.release, inputs, build)


def is_package(path: Path) -> bool:
    """Whether this is a .deb file."""
    try:
        with path.open("rb") as file:
            return file.read(len(DEB_MAGIC)) == DEB_MAGIC
    except OSError:
        return False


def package_release(path: Path) -> str:
    """The release of the kernel in a package, by its name; UsageError where that is another's."""
    match = re.fullmatch(r"linux-(?:image|binary)-(?:unsigned-)?(\d[^_]*?)(?:-unsigned)?_.*\.deb", path.name)
    if match is None:
        raise UsageError("is no package of a kernel by its name", where=str(path), hint="linux-image-RELEASE_….deb")
    return match[1]


def _of_packages(store: Store, path: Path) -> Artefact:
    """One package, and those beside it that the kernel of this release was split into."""
    release = package_release(path)
    parts = sorted(path.parent.glob(f"linux-*-{glob.escape(release)}_*.deb"))
    parts = [one for one in parts if re.match(r"linux-(binary|modules|base)-", one.name)]
    packages = list(dict.fromkeys([path, *parts]))
    inputs = {"recipe": RECIPE_VERSION, "packages": [hash_file(one) for one in packages]}

    def build(folder: Path) -> dict[str, Any]:
        with store.scratch("package") as scratch:
            for one in packages:
                unpack(one, scratch, lambda name: wanted_file(name, release))
            if not (scratch / "boot/vmlinuz").is_file():
                hint = "of a kernel in several packages all must lie beside each other"
                raise UsageError("has no kernel", where=str(path), hint=hint)
            shutil.copyfile(scratch / "boot/vmlinuz", folder / "bzImage")
            if (scratch / "boot/config").is_file():
                shutil.copyfile(scratch / "boot/config", folder / "config")
            drivers = drivers_among((scratch / "modules").rglob("*.ko*"))
            return {"release": release, "drivers": copy_drivers(drivers, folder)}

    return store.obtain("given", release, inputs, build)
