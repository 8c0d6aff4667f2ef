# SPDX-License-Identifier: MIT
"""Debian packages as material: fetched through apt for any architecture, never installed on the host.

A private apt state below the store keeps the host's dpkg database and its list of architectures untouched,
and needs no root.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.build.run import build_environment, tool
from harness.build.store import Artefact, Store
from harness.errors import RunError, UsageError
from harness.progress import step, warn

UPDATE_TRIES = 3


def fetch(store: Store, arch: str, packages: Sequence[str], *, dependencies: bool) -> Artefact:
    """The .deb files of `packages` (and all they depend on) for a Debian architecture.

    The first fetch decides the versions; they are in `info["versions"]`, and users of the files put the files'
    hashes into their own keys. RunError when apt cannot find or get them.
    """
    inputs = {"arch": arch, "packages": sorted(packages), "dependencies": dependencies}
    name = f"{packages[0]}-{arch}"
    return store.obtain("debs", name, inputs, lambda folder: _download(store, arch, packages, dependencies, folder))


def unpack(debs: Artefact, target: Path) -> None:
    """Unpack every .deb of `debs` into `target`, in the order of their names."""
    target.mkdir(parents=True, exist_ok=True)
    for name in sorted(debs.files):
        unpack_file(debs.path / name, target)


def unpack_file(deb: Path, target: Path) -> None:
    """Unpack one .deb into the folder `target`."""
    done = subprocess.run(["dpkg-deb", "-x", deb, target], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunError(f"dpkg-deb cannot unpack {deb.name}: {done.stderr.strip()}", where=str(deb.parent))


def deb_of(debs: Artefact, package: str) -> str:
    """File name of the .deb of `package`; RunError when these packages are without it."""
    for name in sorted(debs.files):
        if name.startswith(f"{package}_"):  # no package's own name has a _
            return name
    raise RunError(f"apt gave no package called {package}", where=str(debs.path))


def _download(
    store: Store, arch: str, packages: Sequence[str], dependencies: bool, folder: Path
) -> dict[str, dict[str, str]]:
    if shutil.which("apt-get") is None:
        raise UsageError("apt-get is not on this host", hint="kernels and images are made of Debian packages")
    with step(f"fetching {', '.join(packages)} ({arch})"):
        options = _private_apt(store, arch)
        log = folder / "apt.log"
        _update(options, log)
        got = folder / "got"
        if dependencies:
            options += ["-o", f"Dir::Cache::archives={got}"]
            (got / "partial").mkdir(parents=True)
            command = ["apt-get", *options, "-y", "--download-only", "install", *packages]
            tool(command, log=log, what="apt-get install --download-only")
        else:
            got.mkdir()
            tool(["apt-get", *options, "download", *packages], log=log, cwd=got, what="apt-get download")
        for deb in sorted(got.glob("*.deb")):
            # Epoch colons are percent-encoded by apt in file names, and by nothing else.
            deb.rename(folder / deb.name.replace("%3a", "+"))
        shutil.rmtree(got)
        log.unlink()
    return {"versions": dict(map(_identify, sorted(folder.glob("*.deb"))))}


def _private_apt(store: Store, arch: str) -> list[str]:
    home = store.root / "apt" / arch
    for part in ("state/lists/partial", "cache/archives/partial"):
        (home / part).mkdir(parents=True, exist_ok=True)
    (home / "status").touch()
    settings = {
        "APT::Architecture": arch,
        "APT::Architectures::": arch,
        "Dir::State": home / "state",
        "Dir::State::status": home / "status",
        "Dir::Cache": home / "cache",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "1",
    }
    return ["-qq", *(word for key, value in settings.items() for word in ("-o", f"{key}={value}"))]


def _update(options: Sequence[str], log: Path) -> None:
    """Refresh the package lists; a mirror in the middle of a sync is tried again, then used as it is."""
    for attempt in range(UPDATE_TRIES):
        try:
            tool(["apt-get", *options, "update"], log=log, what="apt-get update")
        except RunError as error:
            if attempt == UPDATE_TRIES - 1:
                warn(f"{error.message}; using the existing package lists")
        else:
            return


def field(deb: Path, name: str) -> str:
    """One field of a .deb's control file, such as Depends; empty when it has none."""
    done = subprocess.run(
        ["dpkg-deb", "-f", deb, name], capture_output=True, text=True, check=True, env=build_environment()
    )
    return done.stdout.strip()


def _identify(deb: Path) -> tuple[str, str]:
    return field(deb, "Package"), field(deb, "Version")
