# SPDX-License-Identifier: MIT
"""Some files of Debian packages, without the packages' dependencies."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.artefacts.store import Artefact, Store
from harness.errors import RunError, UsageError
from harness.packages import debs
from harness.packages.choice import Package
from harness.packages.deb import unpack
from harness.packages.libraries import inside, install_libraries


@dataclass(frozen=True)
class Chosen:
    """Files of one package, and the .deb that has them."""

    package: Package
    deb: Path
    sha256: str
    version: str


def choose(
    store: Store, arch: str, packages: Sequence[Package], whole: Artefact, beside: Path | None = None
) -> list[Chosen]:
    """Each package's .deb for a Debian architecture.

    It is that of `whole` where that has the package, so that an image never has two versions of one; else it is
    fetched. `beside`: an experiment's folder, which may have a lock of its own. RunError when it cannot be had.
    """
    found = []
    for package in packages:
        name = package.name
        there = name in whole.info["versions"]
        source = whole if there else debs.fetch(store, arch, [name], dependencies=False, beside=beside)
        deb = debs.deb_of(source, name)
        found.append(Chosen(package, source.path / deb, source.files[deb], source.info["versions"][name]))
    return found


def key_of(chosen: Sequence[Chosen]) -> dict[str, Any]:
    """What an image's key says of the choice: per package its .deb's sha256 and the files, in one order."""
    return {one.package.name: {"deb": one.sha256, "files": sorted(set(one.package.files))} for one in chosen}


def versions_of(chosen: Sequence[Chosen]) -> Mapping[str, str]:
    """Version by package."""
    return {one.package.name: one.version for one in chosen}


def install_chosen(
    chosen: Sequence[Chosen], whole: Path, scratch: Path, root: Path, triplet: str, named_in: Path | None
) -> None:
    """Copy the files into `root`, each to where its package has it, with the libraries that they need.

    Libraries come from the unpacked packages in `whole` and from the chosen ones, unpacked into `scratch`. A link
    becomes the file that it leads to. UsageError naming package and file when a package does not have the file, or
    no package has a library that it needs; `named_in` is where the user named it.
    """
    homes = {one.package.name: scratch / one.package.name for one in chosen}
    for one in chosen:
        homes[one.package.name].mkdir(parents=True)
        unpack(one.deb, homes[one.package.name])
    where = str(named_in) if named_in else None
    for one in chosen:
        for name in one.package.files:
            found = inside(homes[one.package.name], name)
            if found is None:
                raise UsageError(
                    f"field packages: package {one.package.name} has no file {name}",
                    where=where,
                    hint=f"dpkg-deb -c {one.deb} lists what it has",
                )
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)  # a whole package may have put a link there, and a copy would follow it
            shutil.copy2(found, target)
            try:
                install_libraries(target, [whole, *homes.values()], root, triplet)
            except RunError as error:
                raise UsageError(
                    f"field packages: {name} of package {one.package.name} cannot run: {error.message}",
                    where=where,
                    hint="name the package that has it too, whole or with that file",
                ) from error
