# SPDX-License-Identifier: MIT
"""The work of `lock`: what the project, or one experiment, asks for; whether a lock has it; a new lock."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from harness.artefacts.store import Store
from harness.errors import UsageError
from harness.experiment.model import load_experiment
from harness.image.build import BASE_PACKAGES
from harness.kernel.arch import ARCHES
from harness.kernel.load import kernel_names, load_kernel, packaged_kernels_file
from harness.kernel.packaged import HEADERS, IMAGE, IMAGE_PACKAGE, KERNELS_LOCK
from harness.kernel.source import source_entry
from harness.kernel.versions import SOURCE
from harness.packages.choice import Package
from harness.packages.lock import NAME, PROJECT, Lock, load, lock_for
from harness.packages.renewal import Wanted, changes, renew, renew_kernels
from harness.packages.toolslist import CROSS, KVM_HOST, LEFT_OUT, TOOLS
from harness.paths import EXPERIMENTS, PATCHES, ROOT

#: Of Debian's kernel for a KVM host: itself, its headers, and what modules for it are built with.
KERNEL_PARTS = re.compile(r"linux-(image|headers|kbuild)-\d")
#: What Debian's headers for the compiler of the tools tree need.
COMPILER = re.compile(r"(linux-compiler-)?gcc-12(-x86)?")
KVM_HOST_ROOTS = (KVM_HOST[0], "linux-headers-amd64")


class _Asked:
    """Packages asked for, by architecture."""

    def __init__(self) -> None:
        self.whole: dict[str, list[str]] = {}
        self.alone: dict[str, list[str]] = {}
        self.sources: dict[str, None] = {}

    def experiment(self, folder: Path) -> None:
        """What an experiment's guests and its own kernels ask for."""
        experiment = load_experiment(folder)
        arches = set()
        for kernel in dict.fromkeys(arm.kernel for arm in experiment.arms.values()):
            arches.add(self.kernel(kernel, folder))
        for arch in sorted(arches):
            for package in experiment.packages:
                chosen = isinstance(package, Package)
                name = package.name if isinstance(package, Package) else package
                (self.alone if chosen else self.whole).setdefault(arch, []).append(name)

    def kernel(self, name: str, beside: Path | None) -> str:
        """What a kernel and the images for it ask for; its Debian architecture."""
        spec = load_kernel(name, beside).spec
        if spec.source.debian is not None:
            self.sources[spec.source.debian] = None
        arch = ARCHES[spec.arch].debian
        self.whole.setdefault(arch, []).extend(BASE_PACKAGES)
        return arch


def _asked(folder: Path | None) -> _Asked:
    asked = _Asked()
    if folder is not None:
        asked.experiment(folder)
        return asked
    for name in kernel_names():
        asked.kernel(name, None)
    for path in sorted(EXPERIMENTS.glob("*/experiment.yaml")):
        asked.experiment(path.parent)
    asked.alone.setdefault("amd64", []).extend(KVM_HOST)
    asked.sources |= dict.fromkeys(f"{SOURCE}{path.name}" for path in PATCHES.glob("*/[0-9]*.*[0-9]"))
    return asked


def check(folder: Path | None) -> str:
    """How many packages are locked, in words; UsageError naming one that is asked for and is not."""
    lock = lock_for(folder)
    asked = _asked(folder)
    for arch, names in asked.whole.items():
        lock.closure(arch, names)
    for arch, names in asked.alone.items():
        for name in names:
            lock.entry(arch, name)
    for name in asked.sources:
        source_entry(name, folder)
    entries = lock.tool_entries()
    for name in TOOLS:
        if name not in lock.tools:
            raise UsageError(f"{NAME} has no tool {name}", hint="./inv lock --update")
    for cross, wanted in CROSS.items():
        if missing := set(wanted) - set(lock.cross.get(cross, ())):
            raise UsageError(f"{NAME} has no tool {min(missing)} for guests of {cross}", hint="./inv lock --update")
    size = sum(entry.size for entry in entries) / 1e6
    return f"{len(lock.packages)} packages are locked, {len(entries)} of them are the tools tree ({size:.0f} MB)"


def update(store: Store, folder: Path | None) -> list[str]:
    """Write a new lock, the project's or that of one experiment; what changed, in lines."""
    path = PROJECT if folder is None or _inside(folder) else folder / NAME
    asked = _asked(None if path == PROJECT else folder)
    whole = {arch: sorted(set(names)) for arch, names in asked.whole.items()}
    alone = {arch: sorted(set(names)) for arch, names in asked.alone.items()}
    old = load(path) if path.exists() else None
    if path == PROJECT:
        followed = {"amd64": (KVM_HOST_ROOTS, KERNEL_PARTS)}
        new = renew(store, Wanted(whole, alone, followed, [*asked.sources], TOOLS, LEFT_OUT, CROSS))
    else:
        new = renew(store, Wanted(whole, alone, sources=[*asked.sources]))
    lines = _written(path, old, new)
    if path == PROJECT:
        suites = packaged_kernels_file().suites
        images = dict.fromkeys(("amd64", "i386"), IMAGE_PACKAGE)
        others = [name for name in asked.sources if not new.has(name)]  # of releases whose packages make no bits here
        kernels = renew_kernels(store, suites, images, (IMAGE, HEADERS, COMPILER), others)
        lines += _written(KERNELS_LOCK, load(KERNELS_LOCK) if KERNELS_LOCK.exists() else None, kernels)
    return lines


def _written(path: Path, old: Lock | None, new: Lock) -> list[str]:
    """Write a lock where its packages are others; what changed, in lines."""
    lines = changes(old, new)
    if lines:  # else only the moment of the archive would be another
        path.write_text(new.dump())
    return [*lines, f"{path}: {_counted(new, lines)}"]


def _inside(folder: Path) -> bool:
    return folder.resolve().is_relative_to(ROOT / "experiments")


def _counted(lock: Lock, lines: Sequence[str]) -> str:
    return f"{len(lock.packages)} packages, {len(lines)} changes"
