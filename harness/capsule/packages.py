# SPDX-License-Identifier: MIT
"""The Debian packages that a set was made of, as the lock of its commit names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from harness.artefacts.store import Store
from harness.capsule.archive import Member
from harness.errors import UsageError
from harness.kernel.arch import ARCHES, ArchName
from harness.packages.fetch import fetch
from harness.packages.lock import NAME, Entry, Lock, load, lock_for
from harness.sets.resultset import EXPERIMENT, ResultSet

#: What `tools` of a manifest begins with where QEMU and compiler were those of the lock.
TREE = "tree "


def used_packages(store: Store, result: ResultSet, checkout: Path) -> list[Member]:
    """The .deb files of tools, guests and kernel sources of a set, each in the version that it was made of.

    `checkout`: the project at the set's commit. UsageError where they are not locked. RunError when one cannot be had.
    """
    if not result.manifest.tools.startswith(TREE):
        raise UsageError(
            "was made with the host's own QEMU and compiler, which are in no lock",
            where=str(result.path),
            hint="run it again without the host's own tools, and make a capsule of the new set",
        )
    own = result.path / EXPERIMENT
    lock = lock_for(own, load(checkout / NAME))
    entries = {entry.sha256: entry for entry in _entries(result, lock)}
    paths = fetch(store, list(entries.values()))
    return [Member(f"packages/{entry.file}", paths[sha256]) for sha256, entry in entries.items()]


def _entries(result: ResultSet, lock: Lock) -> Iterator[Entry]:
    manifest = result.manifest
    for cross in sorted({ARCHES[cast(ArchName, kernel.arch)].cross for kernel in manifest.kernels.values()} | {""}):
        yield from lock.tool_entries(cross)
    sources: Mapping[str, Entry] = {entry.sha256: entry for entry in lock.packages}
    for name, kernel in manifest.kernels.items():
        for file, sha256 in kernel.source.get("archive", {}).items():
            if sha256 not in sources:
                raise UsageError(f"kernel {name}: {file} is not in the {NAME} of its commit", where=str(result.path))
            yield sources[sha256]
    for name, image in manifest.images.items():
        arch = ARCHES[cast(ArchName, manifest.kernels[name].arch)].debian
        for package, version in image.packages.items():
            entry = lock.entry(arch, package)
            if entry.version != version:
                raise UsageError(
                    f"image {name}: {package} {version} is not in the {NAME} of its commit", where=str(result.path)
                )
            yield entry
