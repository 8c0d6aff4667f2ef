# SPDX-License-Identifier: MIT
"""What a KVM host boots from: Debian's own kernel, and an initramfs with busybox and the modules that it needs."""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.artefacts.store import Artefact, Store, hash_file
from harness.errors import RunError
from harness.packages import debs
from harness.packages.buildtool import build_environment, tool
from harness.packages.deb import field
from harness.packages.toolslist import KVM_HOST
from harness.packages.tree import tools
from harness.progress import step

RECIPE_VERSION = 2
#: Loaded in this order, each after what it depends on. `kvm-amd`: QEMU's TCG emulates AMD's virtualisation alone.
MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay", "kvm-amd")
#: Ours, against faults of TCG: see its source. It looks at functions of kvm-amd, so it is loaded last.
OWN = "svm_tcg"
SOURCES = Path(__file__).with_name("guest")


def build_kvm_host(store: Store) -> Artefact:
    """The artefact with `vmlinuz` and `initrd.cpio`; `info["kernel"]` is the kernel's release.

    RunError when a package cannot be had, or has another form than Debian's.
    """
    meta = debs.fetch(store, "amd64", KVM_HOST[:1], dependencies=False)
    named = _followed(meta, r"linux-image-\d[^ ,]*")
    if len(named) != 1:
        raise RunError(f"{KVM_HOST[0]} came without a kernel", where=str(meta.path))
    packages = debs.fetch(store, "amd64", (*named, *KVM_HOST[1:]), dependencies=False)
    own = debs.fetch(store, "amd64", (named[0].replace("image", "headers", 1),), dependencies=False)
    common = _followed(own, r"linux-headers-[^ ,]+-common|linux-kbuild-[^ ,]+")
    headers = (own, debs.fetch(store, "amd64", common, dependencies=False))
    inputs: dict[str, Any] = {
        "recipe": RECIPE_VERSION,
        "debs": {name: hashed for part in (packages, *headers) for name, hashed in part.files.items()},
        "modules": list(MODULES),
        "sources": {name: hash_file(SOURCES / name) for name in ("init", "agent", f"{OWN}.c")},
    }
    return store.obtain("kvm-host", "kvm-host", inputs, lambda folder: _build(store, packages, headers, folder))


def _followed(debs_of_one: Artefact, fitting: str) -> list[str]:
    """The packages that a fetched one depends on by a fitting name."""
    depends = field(debs_of_one.path / next(iter(debs_of_one.files)), "Depends")
    return re.findall(rf"(?:^|, )({fitting})(?= |,|$)", depends)


def _build(store: Store, packages: Artefact, headers: Sequence[Artefact], folder: Path) -> dict[str, Any]:
    with store.scratch("kvm-host") as scratch, step("building the KVM host"):
        unpacked, root = scratch / "debs", scratch / "root"
        debs.unpack(packages, unpacked)
        kernels = sorted(unpacked.glob("boot/vmlinuz-*"))
        if len(kernels) != 1:
            raise RunError(f"{KVM_HOST[0]} has {len(kernels)} kernels", where=str(packages.path))
        release = kernels[0].name.removeprefix("vmlinuz-")
        shutil.copyfile(kernels[0], folder / "vmlinuz")
        (root / "bin").mkdir(parents=True)
        shutil.copy2(next(unpacked.glob("**/bin/busybox")), root / "bin/busybox")
        for name in ("init", "agent"):
            shutil.copyfile(SOURCES / name, root / name)
            (root / name).chmod(0o755)
        _install_modules(unpacked, release, root / "modules")
        _install_own(store, headers, release, scratch, root / "modules")
        _pack(root, folder / "initrd.cpio")
    return {"kernel": release, "versions": packages.info["versions"]}


def _install_modules(unpacked: Path, release: str, target: Path) -> None:
    """MODULES with all that they need, uncompressed, and the order in which they load."""
    tree = unpacked / "lib/modules" / release
    if not tree.is_dir():  # Debian 13 has moved it
        tree.parent.mkdir(parents=True, exist_ok=True)
        (unpacked / "usr/lib/modules" / release).rename(tree)
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # where ordinary users do not look
    used = tools()
    done = subprocess.run(
        used.run_words(["depmod", "-b", unpacked, release]),
        capture_output=True,
        text=True,
        env=used.environment(build_environment({"PATH": path})),
        check=False,
    )
    if done.returncode != 0:
        raise RunError(f"depmod failed: {done.stderr.strip()}", where=str(tree))
    target.mkdir()
    order: list[str] = []
    for path in load_order((tree / "modules.dep").read_text(), (tree / "modules.builtin").read_text()):
        data = (tree / path).read_bytes()
        order.append(f"{_plain(path)}.ko")
        (target / order[-1]).write_bytes(lzma.decompress(data) if path.endswith(".xz") else data)
    (target / "order").write_text("".join(f"{file}\n" for file in order))


def _install_own(store: Store, headers: Sequence[Artefact], release: str, scratch: Path, target: Path) -> None:
    """Our own module, compiled for this kernel, as the last one to load."""
    root, source = scratch / "headers", scratch / OWN
    for part in headers:
        debs.unpack(part, root)
    tree = root / "usr/src" / f"linux-headers-{release}"
    makefile = tree / "Makefile"  # one line, with the path of an installed package
    makefile.write_text(makefile.read_text().replace("include /usr/src/", f"include {root}/usr/src/"))
    source.mkdir()
    shutil.copyfile(SOURCES / f"{OWN}.c", source / f"{OWN}.c")
    (source / "Kbuild").write_text(f"obj-m := {OWN}.o\n")
    command: list[str | Path] = ["make", "-C", tree, f"M={source}", "CC=gcc", "KCFLAGS=-Werror", "modules"]
    log = store.root / "logs" / "kvm-host.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    tool(command, log=log, what=f"building {OWN}.ko")
    shutil.copyfile(source / f"{OWN}.ko", target / f"{OWN}.ko")
    with (target / "order").open("a") as order:
        order.write(f"{OWN}.ko\n")


def load_order(dependencies: str, built_in: str) -> list[str]:
    """Paths of MODULES and of all that they need, each once and after its own needs; built-in ones have none.

    Of a kernel's modules.dep and modules.builtin. RunError naming a module that it does not have.
    """
    needs = {}
    for line in dependencies.splitlines():
        path, _, others = line.partition(":")
        needs[_plain(path)] = [path, *others.split()]
    there = {_plain(path) for path in built_in.split()}
    order: dict[str, None] = {}
    for module in MODULES:
        name = module.replace("-", "_")
        if name not in needs and name not in there:
            raise RunError(f"Debian's kernel has no module {module}")
        order |= dict.fromkeys(reversed(needs.get(name, [])))
    return list(order)


def _plain(path: str) -> str:
    return path.rpartition("/")[2].partition(".ko")[0].replace("-", "_")


def _pack(root: Path, target: Path) -> None:
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))
    with target.open("wb") as sink:
        used = tools()
        done = subprocess.run(
            used.run_words(["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0", "--reproducible"], root),
            cwd=root,
            input="\n".join(names).encode(),
            stdout=sink,
            stderr=subprocess.PIPE,
            env=used.environment(build_environment()),
            check=False,
        )
    if done.returncode != 0:
        raise RunError(f"cpio failed: {done.stderr.decode(errors='replace').strip()}")
