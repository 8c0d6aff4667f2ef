# SPDX-License-Identifier: MIT
"""What a program of this host needs in a guest: itself, its libraries, its interpreter, the files that it is told of.

Everything is copied to the place that it has here, below a folder that will be the program's root.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from harness.artefacts.store import Store
from harness.errors import RunError, UsageError
from harness.image.build import LEFT_OUT
from harness.kernel.arch import ARCHES, ArchName
from harness.packages import debs
from harness.packages.deb import unpack
from harness.packages.libraries import install_libraries, within
from harness.packages.lock import load
from harness.program.firstrun import Use, exists

PATH = ("usr/local/bin", "usr/bin", "bin", "usr/local/sbin", "usr/sbin", "sbin")
#: Arguments that are these, or below them, are the guest's own.
GUESTS = ("/dev", "/proc", "/sys", "/run")
#: What an archive can say, in seconds since 1970.
MOST_TIME = (1 << 32) - 1
#: Bytes of all files together: a guest has them in its memory.
MOST_BYTES = 4 << 30
SCRIPT_DEPTH = 4
#: Debian's architectures by processor, as uname has it.
HOSTS = {"x86_64": ("amd64", "i386"), "aarch64": ("arm64",)}
#: Bytes of a file that a program asks about and does not open: a larger one is brought empty.
MOST_UNOPENED = 16 << 20
#: Names of a folder that are brought.
MOST_LISTED = 10_000


class GuestFiles:
    """A root that is filled for programs of one architecture; `notes` tell of what was found where."""

    def __init__(self, root: Path, arch: ArchName) -> None:
        self.root = root
        self.arch = arch
        self._bytes = 0
        self._whole = False  # a user's own root is in it
        self.notes: list[str] = []
        self.times: dict[str, int] = {}  # of files, in seconds since 1970, by their names below the root
        for name in ("tmp", "root", "etc"):
            (root / name).mkdir(parents=True)

    @property
    def foreign(self) -> bool:
        """Whether this host's processor runs none of its programs."""
        return ARCHES[self.arch].debian not in HOSTS.get(platform.machine(), ())

    @property
    def mebibytes(self) -> int:
        """Of all files, rounded up."""
        files = (path.lstat().st_size for path in self.root.rglob("*") if path.is_file() and not path.is_symlink())
        return -(-sum(files) >> 20)

    def take(self, store: Store, names: Sequence[str], folder: Path) -> None:
        """Bring what `--in` names: packages with all that they depend on, .deb files, a whole root, programs, files."""
        known = {entry.package for entry in load().packages if entry.needs is not None}
        packages = []
        for name in names:
            path = folder / name
            if name.endswith(".deb"):
                if not path.is_file():
                    raise UsageError("--in: is not there", where=name)
                unpack(path, self.root, _wanted)
            elif "/" not in name and name in known:
                packages.append(name)
            elif _is_root(path):
                _clear(path, self.root)
                shutil.copytree(path, self.root, symlinks=True, dirs_exist_ok=True)
                self._whole = True
            elif path.is_file() and os.access(path, os.X_OK):
                self._bring_program(path, 0)
            elif path.exists():
                self.bring(path)
            else:
                self._take_program(name)
        if packages:
            artefact = debs.fetch(store, ARCHES[self.arch].debian, packages, dependencies=True)
            for name in sorted(artefact.files):
                unpack(artefact.path / name, self.root, _wanted)
            self.notes.append(f"packages: {', '.join(f'{n} {v}' for n, v in artefact.info['versions'].items())}")

    def _take_program(self, name: str) -> None:
        found = shutil.which(name) if "/" not in name else None
        if found is None:
            hint = "a package of tools.lock, or a path"
            raise UsageError(f"--in {name}: neither a package, a program, nor a file here", hint=hint)
        self._bring_program(Path(found), 0)

    def found(self, uses: Mapping[Path, Use]) -> None:
        """Bring what a program was seen to use: files that it opened, or only asked about, and the names in folders."""
        size, files = 0, 0
        for path in sorted(uses):
            target, real = self._place(path), Path(os.path.realpath(path))
            if os.path.lexists(target) or not os.access(path, os.R_OK):
                continue
            if path.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            place = self._place(real)
            if not os.path.lexists(place):
                if uses[path] == Use.ASKED and real.stat().st_size > MOST_UNOPENED:
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.touch()
                else:
                    self.bring(real)
                    size += real.stat().st_size
                    files += 1
            if place != target:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(os.path.relpath(place, target.parent))
        for path, use in sorted(uses.items()):
            if use == Use.LISTED and os.access(path, os.R_OK):
                self._list(path)
        self.notes.append(f"files that it uses here: {files}, {-(-size >> 20)} MiB")

    def _list(self, folder: Path) -> None:
        """The names in a folder, for a program that read them: what it did not look at is empty."""
        with os.scandir(folder) as entries:
            for entry in list(entries)[:MOST_LISTED]:
                target = self._place(Path(entry.path))
                if os.path.lexists(target):
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                if entry.is_symlink():
                    target.symlink_to(Path(entry.path).readlink())
                elif entry.is_dir():
                    target.mkdir()
                elif entry.is_file():
                    target.touch()

    def program(self, word: str, folder: Path) -> str:
        """The word by which the program starts in the guest. UsageError when there is none, or it cannot run there."""
        if "/" in word:
            path = folder / word
            if self._whole and os.path.lexists(self._place(path)):
                return word
            if not path.exists():
                raise UsageError("is not there", where=word, hint="a program's path, or its name")
            self._bring_program(path, 0)
            return word
        for place in PATH:
            target = self.root / place / word
            if os.path.lexists(target):
                if target.is_file() and not target.is_symlink():
                    self._libraries_of(target)
                return f"/{place}/{word}"
        on_path = shutil.which(word)
        if on_path is None:
            if (folder / word).is_file():
                raise UsageError(f"no program called {word} on PATH", hint=f"./{word} is one here")
            raise UsageError(f"no program called {word} on PATH", hint="a path with a /, or --in PACKAGE")
        self._bring_program(Path(on_path), 0)
        self.notes.append(f"program: {on_path} of this host")
        return str(Path(on_path).absolute())

    def arguments(self, words: Sequence[str], folder: Path) -> None:
        """Bring the files and folders that are named among a program's arguments, as they are or behind a `=`."""
        for word in words:
            for text in {word, word.partition("=")[2]}:
                path = Path(os.path.normpath(folder / text)) if text else None
                if path is None or str(path).startswith(GUESTS) or str(path) == "/" or not exists(path):
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
            if target.is_symlink():  # written through it, this host's own files would be other ones
                target.unlink()
            if path.is_dir():
                self._count(sum(_sizes(path)), path)
                _clear(path, target)
                shutil.copytree(path, target, dirs_exist_ok=True, ignore_dangling_symlinks=True)
            elif path.is_file():
                self._count(path.stat().st_size, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
                target.chmod(0o755 if os.access(path, os.X_OK) else 0o644)
                # Python takes what it has compiled before if its source has the same time.
                self.times[str(target.relative_to(self.root))] = min(int(path.stat().st_mtime), MOST_TIME)
            else:
                raise UsageError("is neither file nor folder, or is not there", where=str(path))
        except shutil.Error as error:
            told = error.args[0]
            source, reason = (told[0][0], told[0][2]) if isinstance(told, list) else (path, told)
            raise UsageError(f"cannot be copied: {reason}", where=str(source)) from error
        except OSError as error:
            raise UsageError(f"cannot be copied: {error.strerror}", where=str(error.filename or path)) from error

    def finish(self, folder: Path) -> None:
        """The folder that the program begins in, and who is who."""
        self._place(folder).mkdir(parents=True, exist_ok=True)
        for name, text in (("passwd", "root:x:0:0:root:/root:/bin/sh\n"), ("group", "root:x:0:\n")):
            target = self._place(Path("/etc", name))
            if not os.path.lexists(target):
                target.write_text(text)

    def _place(self, path: Path) -> Path:
        """Where a path of this host is in the root: links of the root's own on the way lead nowhere else."""
        whole = Path(os.path.normpath(path.absolute()))
        folder = within(self.root, str(whole.parent))
        if folder is None:
            raise UsageError("its links lead in a circle", where=str(path))
        return folder / whole.name

    def _count(self, size: int, path: Path) -> None:
        self._bytes += size
        if self._bytes > MOST_BYTES:
            raise UsageError(f"is too large: a guest takes {MOST_BYTES >> 30} GiB of files in all", where=str(path))

    def _bring_program(self, path: Path, depth: int) -> None:
        if path.is_dir():
            raise UsageError("is a folder, not a program", where=str(path), hint="--in FOLDER -- FOLDER/PROGRAM")
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
        needed = ARCHES[self.arch].machine
        if machine != needed:
            raise UsageError(f"is a program for {machine}, and the kernel's is {needed}", where=str(path))
        self._libraries_of(target)

    def _libraries_of(self, target: Path) -> None:
        homes, triplet = [self.root, Path("/")], ARCHES[self.arch].triplet
        nowhere = "neither this host nor a package"
        try:
            install_libraries(target, homes, self.root, triplet, _host_folders(), nowhere)
        except RunError as error:
            place = f"/{target.relative_to(self.root)}"
            raise UsageError(error.message, where=place, hint="LD_LIBRARY_PATH, or --in") from error


def _clear(source: Path, target: Path) -> None:
    """Take away the links below `target` in whose places `source` has something: what is copied would follow them."""
    for folder, folders, files in os.walk(target):
        for name in (*folders, *files):
            link = Path(folder, name)
            if link.is_symlink() and os.path.lexists(source / link.relative_to(target)):
                link.unlink()


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


def _is_root(path: Path) -> bool:
    return path.is_dir() and (path / "etc").is_dir() and ((path / "bin").exists() or (path / "usr/bin").is_dir())


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.stat().st_size
