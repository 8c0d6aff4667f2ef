"""The shared libraries that a program in an image needs, from unpacked Debian packages."""

from __future__ import annotations

import shutil
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from harness.errors import RunError

LIBRARY_DIRS = ("lib/{}", "usr/lib/{}", "lib", "usr/lib", "lib64")
#: As many links on one way as Linux follows.
MAX_LINKS = 40


def install_libraries(binary: Path, unpacked: Path, root: Path, triplet: str) -> None:
    """Copy the interpreter and all libraries that `binary` needs, each to where the packages have it.

    RunError naming the first that no package has.
    """
    for name in _needed(binary):
        place, found = _find_library(unpacked, name, triplet)
        target = root / place
        if target.exists() or target.is_symlink():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(found, target)
        target.chmod(0o755)
        install_libraries(target, unpacked, root, triplet)


def inside(home: Path, name: str) -> Path | None:
    """The file that `name` is for a system whose root is `home`, links followed; None when there is none.

    Packages have absolute links: opened as they are, they would lead to the host's files.
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
    path = home.joinpath(*done)
    return path if path.is_file() else None


def _needed(binary: Path) -> list[str]:
    with binary.open("rb") as stream:
        try:
            elf = ELFFile(stream)
        except ELFError:
            return []
        names = [
            str(segment.get_interp_name())  # type: ignore[attr-defined]
            for segment in elf.iter_segments("PT_INTERP")
        ]
        for section in elf.iter_sections():
            if isinstance(section, DynamicSection):
                names += [str(tag.needed) for tag in section.iter_tags("DT_NEEDED")]  # type: ignore[attr-defined]
    return names


def _find_library(unpacked: Path, name: str, triplet: str) -> tuple[str, Path]:
    """Where a library belongs, relative to the guest's root, and the file that it is."""
    folders = [folder.format(triplet) for folder in LIBRARY_DIRS]
    for place in [name.lstrip("/")] if name.startswith("/") else [f"{folder}/{name}" for folder in folders]:
        found = inside(unpacked, place)
        if found is not None:
            return place, found
    raise RunError(f"no package of the image has the library {name}")
