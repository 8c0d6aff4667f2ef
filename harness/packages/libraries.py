# SPDX-License-Identifier: MIT
"""The shared libraries that a program in an image needs, from unpacked Debian packages."""

from __future__ import annotations

import posixpath
import shutil
from collections.abc import Sequence
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from harness.errors import RunError

LIBRARY_DIRS = ("lib/{}", "usr/lib/{}", "lib", "usr/lib", "lib64")
#: As many links on one way as Linux follows.
MAX_LINKS = 40


def install_libraries(
    binary: Path,
    homes: Sequence[Path],
    root: Path,
    triplet: str,
    more: Sequence[str] = (),
    nowhere: str = "no package of the image",
) -> None:
    """Copy the interpreter and all libraries that `binary` needs, each to where the packages have it.

    `homes` are folders of unpacked packages, asked in this order; `binary` is below `root`. `more`: folders where
    libraries may be, before those that every system has, without a leading /.
    RunError naming the first that none of them has; `nowhere` says what they are.
    """
    own = binary.parent.relative_to(root).as_posix()
    names, ways = _needed(binary)
    folders = [way.replace("$ORIGIN", own).replace("${ORIGIN}", own) for way in ways if way]
    folders += [*more, *(folder.format(triplet) for folder in LIBRARY_DIRS)]
    for name in names:
        place, found = _find_library(homes, name, folders, nowhere)
        folder = within(root, posixpath.dirname(place))
        if folder is None:
            raise RunError(f"links lead in a circle: {place}")
        target = folder / posixpath.basename(place)
        if target.exists() or target.is_symlink():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(found, target)
        target.chmod(0o755)
        install_libraries(target, homes, root, triplet, more, nowhere)


def inside(home: Path, name: str) -> Path | None:
    """The file that `name` is for a system whose root is `home`, links followed; None when there is none.

    Packages have absolute links: opened as they are, they would lead to the host's files.
    """
    path = within(home, name)
    return path if path is not None and path.is_file() else None


def within(home: Path, name: str) -> Path | None:
    """The place that `name` has in a system whose root is `home`, whether or not something is there; no link leads
    out of that. None where links lead in a circle.
    """
    done: list[str] = []
    todo = name.split("/")[::-1]
    links = 0
    while todo:
        part = todo.pop()
        if part == "..":
            done = done[:-1]
        elif part not in ("", "."):
            path = home.joinpath(*done, part)
            if not path.is_symlink():
                done.append(part)
                continue
            links += 1
            if links > MAX_LINKS:
                return None
            goal = str(path.readlink())
            done = [] if goal.startswith("/") else done
            todo += goal.split("/")[::-1]
    return home.joinpath(*done)


def _needed(binary: Path) -> tuple[list[str], list[str]]:
    """Interpreter and libraries that an ELF file names, and the folders that it wants them from; none of others."""
    with binary.open("rb") as stream:
        try:
            elf = ELFFile(stream)
        except ELFError:
            return [], []
        names = [
            str(segment.get_interp_name())  # type: ignore[attr-defined]
            for segment in elf.iter_segments("PT_INTERP")
        ]
        ways: list[str] = []
        for section in elf.iter_sections():
            if isinstance(section, DynamicSection):
                names += [str(tag.needed) for tag in section.iter_tags("DT_NEEDED")]  # type: ignore[attr-defined]
                for tag in section.iter_tags("DT_RUNPATH"):
                    ways += str(tag.runpath).split(":")  # type: ignore[attr-defined]
        return names, ways


def _find_library(homes: Sequence[Path], name: str, folders: Sequence[str], nowhere: str) -> tuple[str, Path]:
    """Where a library belongs, relative to the guest's root, and the file that it is."""
    paths = [name] if name.startswith("/") else [f"{folder}/{name}" for folder in folders]
    places = [posixpath.normpath(f"/{path.lstrip('/')}")[1:] for path in paths]  # a .. does not lead above the root
    for home in homes:  # what a package has in its last folder is before what the host has in its first
        for place in places:
            found = inside(home, place)
            if found is not None:
                return place, found
    raise RunError(f"{nowhere} has the library {name}")
