# SPDX-License-Identifier: MIT
"""Which file, and which function in it, user code is of: its pages are looked for in the files that the guest had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from harness.kernel.lines import lines_of
from harness.measure.binary import PAGE, Binary

#: Code of no file: the kernel's own page for every process, and what a program wrote itself.
VDSO, NO_FILE = "[vdso]", "[no file]"
_EXECUTABLE = 1
_MAGIC = b"\x7fELF"


@dataclass(frozen=True)
class Place:
    """A function of user code: its name, and its file; `address` is the file's own, None where it is in no file."""

    name: str
    file: str
    address: int | None = None


class UserCode:
    """The code of one image: `pages` are its bytes by address, `files` the pages of the files that it may be of.

    `name`: the image's own.
    """

    def __init__(self, pages: Mapping[int, bytes], files: Files, name: str) -> None:
        self._name = name
        self._files = files
        self._base: dict[int, tuple[Path, int]] = {}  # of each page: its file, and its offset there
        self._first = {page for page, data in pages.items() if data.startswith(_MAGIC)}
        found = {page: files.holding(data) for page, data in pages.items()}
        votes = Counter((path, page - offset) for page, places in found.items() for path, offset in places)
        for page, places in found.items():
            if places:
                path, offset = max(places, key=lambda place: (votes[place[0], page - place[1]], str(place[0])))
                self._base[page] = (path, offset)
        self._known: dict[int, Place] = {}

    def at(self, address: int) -> Place:
        """The function that an address lies in."""
        if address not in self._known:
            self._known[address] = self._look(address)
        return self._known[address]

    def _look(self, address: int) -> Place:
        page = address & -PAGE
        if page not in self._base:
            vdso = page in self._first or page - PAGE in self._first
            return Place("[vdso]", VDSO) if vdso else Place(f"{self._name}:{page:#x}", NO_FILE)
        path, offset = self._base[page]
        return self._files.place(path, offset + address - page)


class Files:
    """The executable pages of all ELF files below a folder, by their bytes; read when they are first asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._places: dict[bytes, list[tuple[Path, int]]] | None = None
        self._binaries: dict[Path, Binary] = {}
        self._found: dict[tuple[Path, int], Place] = {}

    def name(self, path: Path) -> str:
        """The file as the guest knew it."""
        return f"/{path.relative_to(self._root)}"

    def place(self, path: Path, offset: int) -> Place:
        """The function that an offset in a file lies in."""
        if (path, offset) not in self._found:  # programs that are run again and again are asked for again and again
            self._found[path, offset] = self._place(path, offset)
        return self._found[path, offset]

    def _place(self, path: Path, offset: int) -> Place:
        binary, file = self.binary(path), self.name(path)
        own = binary.address_of(offset)
        if own is None:
            return Place(f"{file}+{offset & -PAGE:#x}", file)
        stub = binary.stub(own)
        if stub is not None:
            return Place(stub, file)
        symbol = binary.symbol(own)
        if symbol is None or symbol.name.startswith("function "):  # each file may have one at this address
            first = symbol.first if symbol else own & -PAGE
            return Place(f"{Path(file).name}:{first:#x}", file, first)
        return Place(symbol.name, file, symbol.first)

    def function(self, name: str, offset: int) -> Place | None:
        """The same by the name that the guest had for a file; None where there is no such ELF file here."""
        path = self._root / name.lstrip("/")
        return self.place(path, offset) if path.is_file() and _is_elf(path) else None

    def binary(self, path: Path) -> Binary:
        if path not in self._binaries:
            self._binaries[path] = Binary(path)
        return self._binaries[path]

    def has(self, name: str, file: str) -> bool:
        """Whether a file here has a function of this name."""
        return any(one.name == name for one in self.binary(self._root / file.lstrip("/")).functions)

    def code(self, place: Place) -> bytes:
        """The bytes of a function of a file here; none where it is in no file, or ends nowhere."""
        if place.address is None:
            return b""
        return self.binary(self._root / place.file.lstrip("/")).code(place.address)

    def sources(self, places: Iterable[Place], folder: Path) -> dict[Place, str]:
        """FILE:LINE of the functions of files here that have debug information, below `folder` without that."""
        by_file: dict[Path, list[Place]] = {}
        for place in places:
            if place.address is not None:
                by_file.setdefault(self._root / place.file.lstrip("/"), []).append(place)
        found: dict[Place, str] = {}
        for path, wanted in sorted(by_file.items()):
            if path.is_file() and _has_lines(path):
                lines = lines_of(path, [place.address or 0 for place in wanted])
                found |= {p: line.removeprefix(f"{folder}/") for p, line in zip(wanted, lines, strict=True) if line}
        return found

    def holding(self, data: bytes) -> list[tuple[Path, int]]:
        """Files with such a page, and its offset in each; the end of a file may lie in it, with zeros behind."""
        if self._places is None:
            self._places = {}
            for path in sorted(self._root.rglob("*")):
                if path.is_file() and not path.is_symlink():
                    for offset, page in _executable(path):
                        self._places.setdefault(page, []).append((path, offset))
        return self._places.get(data, [])


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _has_lines(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return ELFFile(file).get_section_by_name(".debug_line") is not None
    except (OSError, ELFError):
        return False


def _executable(path: Path) -> Iterator[tuple[int, bytes]]:
    """The pages of a file that are mapped to be executed, whole ones."""
    try:
        with path.open("rb") as file:
            if file.read(4) != _MAGIC:
                return
            for segment in ELFFile(file).iter_segments("PT_LOAD"):
                if not segment["p_flags"] & _EXECUTABLE:
                    continue
                begin, end = segment["p_offset"] & -PAGE, segment["p_offset"] + segment["p_filesz"]
                for offset in range(begin, end, PAGE):
                    file.seek(offset)
                    yield offset, file.read(PAGE).ljust(PAGE, b"\0")
    except (OSError, ELFError):
        return
