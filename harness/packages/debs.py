# SPDX-License-Identifier: MIT
"""Debian packages as material: locked by version and sha256, fetched and unpacked without apt, never installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from harness.artefacts.store import Artefact, Store
from harness.errors import RunError
from harness.packages.deb import unpack as unpack_file
from harness.packages.fetch import fetch as fetch_entries
from harness.packages.lock import Entry, lock_for


def fetch(
    store: Store, arch: str, packages: Sequence[str], *, dependencies: bool, beside: Path | None = None
) -> Artefact:
    """The .deb files of `packages` (and all they depend on) for a Debian architecture, in the locked versions.

    `beside`: an experiment's folder, which may have a lock of its own. `info["versions"]` has the versions, and users
    of the files put the files' hashes into their own keys. UsageError when a package is not locked, RunError when it
    is nowhere to be had.
    """
    lock = lock_for(beside)
    entries = lock.closure(arch, packages) if dependencies else [lock.entry(arch, name) for name in packages]
    return artefact_of(store, f"{packages[0]}-{arch}", entries)


def artefact_of(store: Store, name: str, entries: Sequence[Entry]) -> Artefact:
    """The .deb files of these entries, by their names."""

    def build(folder: Path) -> dict[str, dict[str, str]]:
        paths = fetch_entries(store, entries)
        for entry in entries:
            _link(paths[entry.sha256], folder / entry.file)
        return {"versions": {entry.package: entry.version for entry in entries}}

    return store.obtain("debs", name, {"files": {entry.file: entry.sha256 for entry in entries}}, build)


def unpack(debs: Artefact, target: Path) -> None:
    """Unpack every .deb of `debs` into `target`, in the order of their names."""
    target.mkdir(parents=True, exist_ok=True)
    for name in sorted(debs.files):
        unpack_file(debs.path / name, target)


def deb_of(debs: Artefact, package: str) -> str:
    """File name of the .deb of `package`; RunError when these packages are without it."""
    for name in sorted(debs.files):
        if name.startswith(f"{package}_"):  # no package's own name has a _
            return name
    raise RunError(f"there is no package called {package}", where=str(debs.path))


def _link(file: Path, name: Path) -> None:
    try:
        os.link(file, name)
    except OSError:
        shutil.copyfile(file, name)
