# SPDX-License-Identifier: MIT
"""Names in ELF files: functions, objects, and the source lines of instructions, as far as a file has them."""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from elftools.common.exceptions import DWARFError, ELFError
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

PAGE = 4096
#: Bytes of one of the linker's stubs on x86.
STUB = 16


@dataclass(frozen=True)
class Symbol:
    """A function or object: addresses `first` up to, not with, `last`, as the file has them."""

    first: int
    last: int
    name: str


class Binary:
    """One ELF file; a file that is none, or is absent, has no names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._segments: list[tuple[int, int, int]] = []
        self.end = 0  #: of what is loaded, zeroed data included, as the file's own address
        self.functions: list[Symbol] = []
        self.objects: list[Symbol] = []
        self._unnamed: list[Symbol] = []
        try:
            with path.open("rb") as file:
                self._read(ELFFile(file))
        except (OSError, ELFError):
            return

    def _read(self, elf: ELFFile) -> None:
        for segment in elf.iter_segments("PT_LOAD"):
            self._segments.append((segment["p_offset"], segment["p_filesz"], segment["p_vaddr"]))
            self.end = max(self.end, segment["p_vaddr"] + segment["p_memsz"])
        named: dict[str, dict[tuple[int, int], str]] = {"STT_FUNC": {}, "STT_OBJECT": {}}
        for section in elf.iter_sections():
            if not isinstance(section, SymbolTableSection):
                continue
            for symbol in section.iter_symbols():
                kind = named.get(symbol["st_info"]["type"])
                if kind is not None and symbol["st_shndx"] != "SHN_UNDEF" and symbol.name:
                    kind.setdefault((symbol["st_value"], symbol["st_size"]), symbol.name.partition("@")[0])
        self.functions = _sorted(named["STT_FUNC"])
        self._unnamed = _unwound(elf)
        self.objects = [symbol for symbol in _sorted(named["STT_OBJECT"]) if symbol.last > symbol.first]

    def address_of(self, offset: int) -> int | None:
        """The file's own address for the byte at `offset`; None where nothing of it is loaded."""
        for begin, size, address in self._segments:
            # The loader maps whole pages.
            if begin & -PAGE <= offset < begin + size:
                return address + offset - begin
        return None

    def offset_of(self, address: int) -> int | None:
        """Where in the file the byte at one of its own addresses is; None where it is not in the file."""
        for begin, size, first in self._segments:
            if first <= address < first + size:
                return begin + address - first
        return None

    def function(self, address: int) -> str | None:
        """The function that an address of the file lies in: its name, or `function 0x…` where it has none."""
        symbol = self.symbol(address)
        return symbol.name if symbol else None

    def symbol(self, address: int) -> Symbol | None:
        """As `function`, with its addresses."""
        for symbols, starts in ((self.functions, self._starts), (self._unnamed, self._unnamed_starts)):
            at = bisect_right(starts, address) - 1
            if at >= 0 and address < max(symbols[at].last, symbols[at].first + 1):
                return symbols[at]
        return None

    def code(self, address: int) -> bytes:
        """The bytes of the function at an address of the file; none where there is none."""
        symbol = self.symbol(address)
        for begin, size, first in self._segments if symbol else ():
            if symbol and first <= symbol.first and symbol.last <= first + size:
                with self.path.open("rb") as file:
                    file.seek(begin + symbol.first - first)
                    return file.read(symbol.last - symbol.first)
        return b""

    def stub(self, address: int) -> str | None:
        """The function that a stub of the linker's, at an address of the file, jumps to; None where none is there."""
        for first, last, names in self._stubs:
            if first <= address < last:
                at = (address - first) // STUB
                return names[at] if at < len(names) else None
        return None

    @cached_property
    def _stubs(self) -> list[tuple[int, int, list[str]]]:
        try:
            with self.path.open("rb") as file:
                return list(_linker_stubs(ELFFile(file)))
        except (OSError, ELFError):
            return []

    @cached_property
    def _starts(self) -> list[int]:
        return [symbol.first for symbol in self.functions]

    @cached_property
    def _unnamed_starts(self) -> list[int]:
        return [symbol.first for symbol in self._unnamed]

    def lines(self, addresses: Iterable[int]) -> dict[int, str]:
        """`file.c:31` by address, for those that the file's line table knows."""
        wanted = sorted(set(addresses))
        try:
            with self.path.open("rb") as file:
                elf = ELFFile(file)
                if not wanted or not elf.has_dwarf_info():
                    return {}
                return _lines(elf.get_dwarf_info(), wanted)
        except (OSError, ELFError, DWARFError, KeyError, ValueError, AssertionError):
            return {}  # names are a help: a table that cannot be read costs the lines, and no more


def _sorted(named: dict[tuple[int, int], str]) -> list[Symbol]:
    return [Symbol(first, first + size, name) for (first, size), name in sorted(named.items())]


def _unwound(elf: ELFFile) -> list[Symbol]:
    """Functions by the table for unwinding, which a stripped file has too."""
    places = _searched(elf)
    if places is None:
        places = _parsed(elf)
    return _sorted({place: f"function {place[0]:#x}" for place in places})


def _searched(elf: ELFFile) -> list[tuple[int, int]] | None:
    """First address and size of each function, by the sorted table that unwinders search; None if it is unusual.

    `.eh_frame_hdr` has the address of each function and of its entry in `.eh_frame`, where the size stands behind it:
    https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/ehframechpt.html
    """
    sections = [section for name in (".eh_frame_hdr", ".eh_frame") if (section := elf.get_section_by_name(name))]
    if len(sections) < 2 or not elf.little_endian:
        return None
    (head, at), (frames, begin) = ((section.data(), section["sh_addr"]) for section in sections)
    if len(head) < 12 or head[:4] != bytes([1, 0x1B, 0x03, 0x3B]):
        return None
    table = np.frombuffer(head[12:], "<i4")[: 2 * int.from_bytes(head[8:12], "little")].reshape(-1, 2).astype(np.int64)
    first, entry = table[:, 0] + at, table[:, 1] + at - begin
    if not len(table) or entry.min() < 0 or entry.max() + 16 > len(frames):
        return None
    raw = np.frombuffer(frames, np.uint8)
    told, size = (raw[entry[:, None] + np.arange(by, by + 4)].copy().view("<i4")[:, 0] for by in (8, 12))
    if (told + begin + entry + 8 != first).any():
        return None
    return list(zip(first.tolist(), size.astype(np.uint32).tolist(), strict=True))


def _parsed(elf: ELFFile) -> list[tuple[int, int]]:
    """The same, entry by entry."""
    try:
        if not elf.has_dwarf_info() and elf.get_section_by_name(".eh_frame") is None:
            return []
        dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
        entries = dwarf.EH_CFI_entries() if dwarf.has_EH_CFI() else []
    except (DWARFError, ELFError, KeyError, ValueError, AssertionError):
        return []
    headers = [entry.header for entry in entries if isinstance(entry, FDE)]
    return [(header["initial_location"], header["address_range"]) for header in headers]


def _linker_stubs(elf: ELFFile) -> Iterator[tuple[int, int, list[str]]]:
    """Each section of stubs: its addresses, and the names that they jump to, in the order of the relocations."""
    names: list[str] = []
    for section in elf.iter_sections():
        if not isinstance(section, RelocationSection) or section.name not in (".rela.plt", ".rel.plt"):
            continue
        symbols: Any = elf.get_section(section["sh_link"])
        if isinstance(symbols, SymbolTableSection):
            names = [f"{symbols.get_symbol(at['r_info_sym']).name}@plt" for at in section.iter_relocations()]
    for section in elf.iter_sections():
        if section.name in (".plt", ".plt.sec"):
            first = ["plt"] if section.name == ".plt" else []
            yield section["sh_addr"], section["sh_addr"] + section["sh_size"], first + names


def _lines(dwarf: Any, wanted: list[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        if program is None:
            continue
        before = None
        for entry in program.get_entries():
            state = entry.state
            if state is None:
                continue
            if before is not None and before.line:
                at = bisect_right(wanted, before.address - 1)
                while at < len(wanted) and wanted[at] < state.address:
                    found.setdefault(wanted[at], f"{_file(program, before.file)}:{before.line}")
                    at += 1
            before = None if state.end_sequence else state
        if len(found) == len(wanted):
            break
    return found


def _file(program: Any, number: int) -> str:
    entries = program["file_entry"]
    entry = entries[number if program["version"] >= 5 else number - 1]
    return str(posixpath.basename(entry.name.decode(errors="replace")))
