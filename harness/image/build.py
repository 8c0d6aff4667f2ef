# SPDX-License-Identifier: MIT
"""The guest's initramfs: Debian's busybox and dropbear, the project's init, an experiment's programs."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.artefacts.store import Artefact, Store, hash_file, hash_tree, usable
from harness.image.cpio import write_cpio
from harness.image.programs import (
    CFLAGS,
    build_modules,
    build_programs,
    module_sources,
    overlay_for,
    source_files,
    with_overlay,
)
from harness.kernel.arch import ARCHES, ArchName
from harness.kernel.build import toolchain
from harness.kernel.headers import can_have_modules, headers_of, module_make
from harness.kernel.spec import KernelRecipe
from harness.packages import debs
from harness.packages.choice import Package
from harness.packages.chosen import Chosen, choose, install_chosen, key_of, versions_of
from harness.packages.libraries import install_libraries
from harness.paths import IMAGES
from harness.progress import step

#: Raised when the way of building changes in a manner that changes its output.
RECIPE_VERSION = 2
BUSYBOX = "busybox-static"
BASE_PACKAGES = (BUSYBOX, "dropbear-bin")
BASE_BINARIES = ("usr/sbin/dropbear",)
LEFT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/info")
GUEST_PATH = "/krepro/bin:/bin:/usr/sbin:/usr/bin"
DIRECTORIES = ("dev", "proc", "sys", "run", "tmp", "root", "root/.ssh", "etc", "etc/dropbear", "mnt", "krepro", "var")


@dataclass(frozen=True)
class ImageRecipe:
    """What goes into one image: a kernel's modules, folders of guest sources, extra Debian packages.

    A package is a name, for all of it with its dependencies, or some of its files. `named_in` is the user's file
    that has them, for errors. `without_modules`: without any where none can be built for the kernel.
    """

    kernel: KernelRecipe
    sources: tuple[Path, ...] = ()
    packages: tuple[str | Package, ...] = ()
    named_in: Path | None = None
    without_modules: bool = False

    @property
    def whole(self) -> list[str]:
        return [package for package in self.packages if isinstance(package, str)]

    @property
    def chosen(self) -> list[Package]:
        return [package for package in self.packages if isinstance(package, Package)]


def build_image(store: Store, recipe: ImageRecipe, kernel: Artefact) -> Artefact:
    """The image artefact: `image.cpio`, uncompressed because TCG inflates slowly.

    Raises UsageError for guest sources that do not compile and for files that a package does not have, RunError when
    a package cannot be had.
    """
    arch = recipe.kernel.spec.arch
    named = [*BASE_PACKAGES, *recipe.whole]
    beside = recipe.named_in.parent if recipe.named_in else None
    packages = debs.fetch(store, ARCHES[arch].debian, named, dependencies=True, beside=beside)
    chosen = choose(store, ARCHES[arch].debian, recipe.chosen, packages, beside)
    folders = [IMAGES / "guest", *recipe.sources]
    overlay = overlay_for(recipe.kernel.spec)
    modules = [] if recipe.without_modules and not can_have_modules(recipe.kernel) else module_sources(folders)
    headers = headers_of(recipe.kernel, str(modules[0])) if modules else []
    inputs: dict[str, Any] = {
        "recipe": RECIPE_VERSION,
        "arch": arch,
        "debs": dict(packages.files),
        "packages": recipe.whole,
        "sources": [
            {"name": path.relative_to(folder).as_posix(), "sha256": hash_file(path)}
            for folder in folders
            for path in source_files([folder])
        ],
        "init": hashlib.sha256(init_of(arch).encode()).hexdigest(),
        "cflags": list(CFLAGS),
        "compiler": toolchain(arch),
        # Modules are bound to one build of the kernel; an image without any serves every kernel of its architecture.
        "kernel": kernel.key if modules else None,
    }
    if headers:
        inputs["headers"] = {entry.file: entry.sha256 for entry in headers}
    if chosen:  # not an empty field: the keys of images without any stay as they were
        inputs["files"] = key_of(chosen)
    if overlay is not None:
        inputs["overlay"] = hash_tree(overlay)
        inputs["flags"] = list(ARCHES[arch].flags)

    def build(folder: Path) -> dict[str, Any]:
        _build(store, recipe, kernel, packages, chosen, folders, modules, folder)
        versions = {**packages.info["versions"], **versions_of(chosen)}
        return {"versions": versions, "bytes": (folder / "image.cpio").stat().st_size}

    return store.obtain("image", recipe.kernel.spec.name, inputs, build)


def _build(
    store: Store,
    recipe: ImageRecipe,
    kernel: Artefact,
    packages: Artefact,
    chosen: Sequence[Chosen],
    folders: Sequence[Path],
    modules: Sequence[Path],
    folder: Path,
) -> None:
    arch = recipe.kernel.spec.arch
    (store.root / "logs").mkdir(exist_ok=True)
    log = store.root / "logs" / f"image-{recipe.kernel.spec.name}.log"
    with store.scratch("image") as scratch, step(f"building image for {recipe.kernel.spec.name}"), usable(store.root):
        unpacked, root = scratch / "debs", scratch / "root"
        debs.unpack(packages, unpacked)
        for name in DIRECTORIES:
            (root / name).mkdir(parents=True, exist_ok=True)
        _install_packages(unpacked, root, recipe.whole)
        install_chosen(chosen, unpacked, scratch / "chosen", root, ARCHES[arch].triplet, recipe.named_in)
        _install_base(unpacked, root, ARCHES[arch].triplet, _runnable_busybox(store, arch, unpacked, scratch))
        build_programs(arch, with_overlay(folders, overlay_for(recipe.kernel.spec)), root / "krepro/bin", log)
        if modules:
            modules_for(store, recipe.kernel, kernel, modules, root / "krepro/modules", log)
        (root / "init").write_text(init_of(arch))
        (root / "init").chmod(0o755)
        (root / "etc/passwd").write_text("root::0:0:root:/root:/bin/sh\n")
        (root / "etc/group").write_text("root:x:0:\n")
        (root / "etc/shells").write_text("/bin/sh\n")
        (root / "etc/profile").write_text(f"export PATH={GUEST_PATH}\n")
        write_cpio(root, folder / "image.cpio")


def modules_for(
    store: Store, recipe: KernelRecipe, kernel: Artefact, sources: Sequence[Path], target: Path, log: Path
) -> None:
    """Build folders of modules for a kernel of the store, and put their .ko files into `target`.

    RunError when the kernel can have no more modules; UsageError when one cannot be built.
    """
    with module_make(store, recipe, kernel) as make:
        build_modules(store, recipe.spec.arch, make, sources, target, log)


def init_of(arch: ArchName) -> str:
    """The guest's first process for an architecture: images/init, with other words where the machine is another."""
    text = (IMAGES / "init").read_text()
    for word, other in ARCHES[arch].init:
        text = text.replace(word, other)
    return text


def _runnable_busybox(store: Store, arch: ArchName, unpacked: Path, scratch: Path) -> Path:
    """A busybox that this host can run, for the names that it goes by: the same version's, where the guest's cannot."""
    if not ARCHES[arch].cross:
        return unpacked / "bin/busybox"
    debs.unpack(debs.fetch(store, "amd64", [BUSYBOX], dependencies=False), scratch / "runnable")
    return scratch / "runnable/bin/busybox"


def _install_base(unpacked: Path, root: Path, triplet: str, runnable: Path) -> None:
    busybox = root / "bin/busybox"
    busybox.parent.mkdir(exist_ok=True)
    shutil.copy2(unpacked / "bin/busybox", busybox)
    applets = subprocess.run([runnable, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for applet in applets:
        if applet != "busybox" and not (root / "bin" / applet).exists():
            (root / "bin" / applet).symlink_to("busybox")
    for name in BASE_BINARIES:
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(unpacked / name, target)
        install_libraries(target, [unpacked], root, triplet)


def _install_packages(unpacked: Path, root: Path, wanted: Sequence[str]) -> None:
    """Whole extra packages with everything they depend on, less documentation."""
    if not wanted:
        return
    for path in sorted(unpacked.rglob("*")):
        relative = path.relative_to(unpacked).as_posix()
        if relative.startswith(LEFT_OUT) or (path.is_dir() and not path.is_symlink()):
            continue
        target = root / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target, follow_symlinks=False)


def build_layouts(store: Store, recipe: KernelRecipe, kernel: Artefact, source: Path) -> Path:
    """The .ko file of the module's folder `source`, whose debug information tells of `kernel`.

    RunError when the kernel can have no more modules; UsageError when it does not compile.
    """
    inputs: dict[str, Any] = {
        "sources": hash_tree(source),
        "kernel": kernel.key,
        "compiler": toolchain(recipe.spec.arch),
    }

    def build(folder: Path) -> None:
        log = store.root / "logs" / f"layouts-{recipe.spec.name}.log"
        log.parent.mkdir(exist_ok=True)
        with step(f"reading the structs of {recipe.spec.name}"):
            modules_for(store, recipe, kernel, [source], folder, log)

    return store.obtain("layouts", recipe.spec.name, inputs, build).file(f"{source.name}.ko")
