# SPDX-License-Identifier: MIT
"""What a program of this host needs in a guest: itself, its libraries, its interpreter, the files that it is told of.

Everything is copied to the place that it has here, below a folder that will be the program's root.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from harness.artefacts.store import Store
from harness.errors import RunError, UsageError
from harness.image.build import LEFT_OUT
from harness.kernel.arch import ARCHES, ArchName
from harness.packages import debs
from harness.packages.deb import unpack
from harness.packages.libraries import install_libraries

PATH = ("usr/local/bin", "usr/bin", "bin", "usr/local/sbin", "usr/sbin", "sbin")
#: Arguments that are these, or below them, are the guest's own.
GUESTS = ("/dev", "/proc", "/sys", "/run")
#: Bytes of all files together: a guest has them in its memory.
MOST_BYTES = 4 << 30
SCRIPT_DEPTH = 4


class GuestFiles:
    """A root that is filled for programs of one architecture; `notes` tell of what was found where."""

    def __init__(self, root: Path, arch: ArchName) -> None:
        self.root = root
        self._arch = arch
        self._bytes = 0
        self.notes: list[str] = []
        for name in ("tmp", "root", "etc"):
            (root / name).mkdir(parents=True)

    @property
    def mebibytes(self) -> int:
        """Of all files, rounded up."""
        files = (path.lstat().st_size for path in self.root.rglob("*") if path.is_file() and not path.is_symlink())
        return -(-sum(files) >> 20)

    def packages(self, store: Store, names: Sequence[str]) -> None:
        """Unpack these packages: names, with all that they depend on, and .deb files."""
        locked = [name for name in names if not name.endswith(".deb")]
        if locked:
            artefact = debs.fetch(store, ARCHES[self._arch].debian, locked, dependencies=True)
            for name in sorted(artefact.files):
                unpack(artefact.path / name, self.root, _wanted)
            self.notes.append(f"packages: {', '.join(f'{n} {v}' for n, v in artefact.info['versions'].items())}")
        for name in names:
            if name.endswith(".deb"):
                if not Path(name).is_file():
                    raise UsageError("--package: is not there", where=name)
                unpack(Path(name), self.root, _wanted)

    def program(self, word: str, folder: Path) -> str:
        """The word by which the program starts in the guest. UsageError when there is none, or it cannot run there."""
        if "/" in word:
            path = folder / word
            if not path.exists():
                raise UsageError("is not there", where=word, hint="a program's path, or its name")
            self._bring_program(path, 0)
            return word
        for place in PATH:
            if (self.root / place / word).is_file():
                self._libraries_of(self.root / place / word)
                return f"/{place}/{word}"
        on_path = shutil.which(word)
        if on_path is None:
            if (folder / word).is_file():
                raise UsageError(f"no program called {word} on PATH", hint=f"./{word} is one here")
            raise UsageError(f"no program called {word} on PATH", hint="a path with a /, or --package NAME")
        self._bring_program(Path(on_path), 0)
        self.notes.append(f"program: {on_path} of this host")
        return str(Path(on_path).absolute())

    def arguments(self, words: Sequence[str], folder: Path) -> None:
        """Bring the files and folders that are named among a program's arguments, as they are or behind a `=`."""
        for word in words:
            for text in {word, word.partition("=")[2]}:
                path = Path(os.path.normpath(folder / text)) if text else None
                if path is None or str(path).startswith(GUESTS) or str(path) == "/" or not _exists(path):
                    continue
                if folder == path or path in folder.parents:
                    continue  # `.` and what is above: too much is there that the program has nothing to do with
                if path.is_file() and os.access(path, os.X_OK) and _is_elf(path):
                    self._bring_program(path, 0)
                else:
                    self.bring(path)

    def bring(self, path: Path) -> None:
        """Copy a file, or a folder with all that is in it, links followed. UsageError for too much, or none."""
        target = self._place(path)
        try:
            if path.is_dir():
                self._count(sum(_sizes(path)), path)
                shutil.copytree(path, target, dirs_exist_ok=True, ignore_dangling_symlinks=True)
            elif path.is_file():
                self._count(path.stat().st_size, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
                target.chmod(0o755 if os.access(path, os.X_OK) else 0o644)
            else:
                raise UsageError("is neither file nor folder, or is not there", where=str(path))
        except shutil.Error as error:
            source, _, reason = error.args[0][0]
            raise UsageError(f"cannot be copied: {reason}", where=str(source)) from error
        except OSError as error:
            raise UsageError(f"cannot be copied: {error.strerror}", where=str(error.filename or path)) from error

    def finish(self, folder: Path) -> None:
        """The folder that the program begins in, and who is who."""
        self._place(folder).mkdir(parents=True, exist_ok=True)
        for name, text in (("passwd", "root:x:0:0:root:/root:/bin/sh\n"), ("group", "root:x:0:\n")):
            if not (self.root / "etc" / name).exists():
                (self.root / "etc" / name).write_text(text)

    def _place(self, path: Path) -> Path:
        return self.root / str(Path(os.path.normpath(path.absolute()))).lstrip("/")

    def _count(self, size: int, path: Path) -> None:
        self._bytes += size
        if self._bytes > MOST_BYTES:
            raise UsageError(f"is too large: a guest takes {MOST_BYTES >> 30} GiB of files in all", where=str(path))

    def _bring_program(self, path: Path, depth: int) -> None:
        if path.is_dir():
            raise UsageError("is a folder, not a program", where=str(path), hint="--copy-in FOLDER -- FOLDER/PROGRAM")
        if not os.access(path, os.X_OK):
            raise UsageError("is not executable", where=str(path), hint=f"chmod +x {path}")
        self.bring(path)
        target = self._place(path)
        with path.open("rb") as file:
            first = file.readline(4096)
        if first.startswith(b"#!"):
            interpreter = first[2:].split()
            if interpreter and depth < SCRIPT_DEPTH:
                for word in interpreter[: 2 if interpreter[0].endswith(b"/env") else 1]:
                    found = shutil.which(word.decode(errors="replace"))
                    if found is None:
                        raise UsageError(
                            f"its interpreter {word.decode(errors='replace')} is not here", where=str(path)
                        )
                    self._bring_program(Path(found), depth + 1)
            return
        machine = _machine_of(path)
        if machine is None:
            raise UsageError("is no program: neither ELF nor a script", where=str(path))
        needed = ARCHES[self._arch].machine
        if machine != needed:
            raise UsageError(f"is a program for {machine}, and the kernel's is {needed}", where=str(path))
        self._libraries_of(target)

    def _libraries_of(self, target: Path) -> None:
        homes, triplet = [self.root, Path("/")], ARCHES[self._arch].triplet
        nowhere = "neither this host nor a package"
        try:
            install_libraries(target, homes, self.root, triplet, _host_folders(), nowhere)
        except RunError as error:
            place = f"/{target.relative_to(self.root)}"
            raise UsageError(error.message, where=place, hint="LD_LIBRARY_PATH, or --copy-in") from error


def _wanted(name: str) -> str | None:
    return None if name.startswith(LEFT_OUT) else name


def _host_folders() -> list[str]:
    """Where the host's loader looks beside its own folders, without a leading /."""
    folders = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for path in sorted(Path("/etc/ld.so.conf.d").glob("*.conf")):
        folders += [line.strip() for line in path.read_text(errors="replace").splitlines() if line.startswith("/")]
    return [str(Path(folder).absolute()).lstrip("/") for folder in folders]


def _machine_of(path: Path) -> str | None:
    with path.open("rb") as file:
        try:
            return str(ELFFile(file)["e_machine"])
        except ELFError:
            return None


def _is_elf(path: Path) -> bool:
    try:
        return _machine_of(path) is not None
    except OSError:
        return False


def _exists(path: Path) -> bool:
    try:
        return path.is_file() or path.is_dir()
    except OSError:  # a word may be anything, and too long for a name
        return False


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.stat().st_size
