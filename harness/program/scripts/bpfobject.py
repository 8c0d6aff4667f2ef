# SPDX-License-Identifier: MIT
"""A compiled BPF object (`clang -target bpf`): its programs by the probe that their section names, and its maps."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from harness.errors import UsageError
from harness.program.scripts.asked import Asked
from harness.program.scripts.btf import Types

#: Kinds of probes by the word that a section begins with (libbpf's section_defs).
_KINDS = {
    "kprobe": "kprobe", "kretprobe": "kretprobe", "uprobe": "uprobe", "uretprobe": "uretprobe", "usdt": "usdt",
    "tp": "tracepoint", "tracepoint": "tracepoint", "raw_tp": "rawtracepoint", "raw_tracepoint": "rawtracepoint",
    "tp_btf": "rawtracepoint", "fentry": "kfunc", "fexit": "kretfunc", "ksyscall": "kprobe", "kretsyscall": "kretprobe",
}  # fmt: skip
_SLEEPING = ".s"
#: Kinds of maps by number (enum bpf_map_type), as the model has them; and what others are priced as.
_MAPS = {1: "hash", 2: "array", 4: "perf", 5: "percpu", 6: "array", 7: "stack", 9: "hash", 10: "percpu", 27: "ring"}
_NEAR = {6: "an array of each CPU is priced as an array", 9: "an LRU hash is priced as a hash",
         10: "an LRU hash of each CPU is priced as a hash of each CPU"}  # fmt: skip
_EXECUTABLE, _BPF = 4, "EM_BPF"
_FAULTS = (ELFError, ValueError, LookupError, struct.error, AttributeError, TypeError, RecursionError, ArithmeticError)


def read(path: Path) -> Asked:
    """Its programs. UsageError for what is no such object, or has no program at a probe."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
    try:
        elf = ELFFile(BytesIO(data))
        if elf["e_machine"] != _BPF:
            raise UsageError("is no compiled BPF object", where=str(path), hint="clang -O2 -g -target bpf -c")
        return _read(elf, path)
    except _FAULTS as error:
        raise UsageError(f"is no compiled BPF object: {error}", where=str(path)) from error


def _read(elf: ELFFile, path: Path) -> Asked:
    asked = Asked(f"what made {path.name}")
    for section, function, own in contents(elf, asked):
        probe, why = _probe(section)
        if why:
            asked.unpriced.append((f"{function} ({section})", why))
        else:
            asked.programs.append((probe, own))
            if section.startswith("tp_btf"):
                asked.note(f"{probe}: priced as a raw trace point: its arguments with types take the same way")
    if not asked.programs and not asked.unpriced:
        raise UsageError("is no compiled BPF object: it has no program", where=str(path))
    return asked


def contents(elf: ELFFile, asked: Asked) -> Iterator[tuple[str, str, bytes]]:
    """Section, name and code of each program of an object, with its maps' numbers; the maps are added to `asked`."""
    numbers: dict[tuple[int, int], int] = {}
    for place, at, name, kind, key in _maps(elf):
        numbers[place, at] = len(asked.maps)
        asked.maps.append((name, _MAPS.get(kind, f"kind {kind}"), key))
        if kind in _NEAR:
            asked.note(f"the map {name}: {_NEAR[kind]}")
    symbols: Any = elf.get_section_by_name(".symtab")
    relocations = {one["sh_info"]: one for one in elf.iter_sections() if isinstance(one, RelocationSection)}
    for index, section in enumerate(elf.iter_sections()):
        if section["sh_type"] != "SHT_PROGBITS" or not section["sh_flags"] & _EXECUTABLE or section.name == ".text":
            continue
        code = _with_maps(section.data(), relocations.get(index), symbols, numbers)
        for function, own in _functions(symbols, index, code):
            yield section.name, function, own


def _probe(section: str) -> tuple[str, str]:
    """The probe by bpftrace's name; or why it has no price."""
    word, _, rest = section.lstrip("?").partition("/")
    kind = word.removesuffix(_SLEEPING)
    if word == "perf_event":
        return "", "how often it samples is not in the object"
    if kind not in _KINDS:
        return "", f"a program of the kind {word} is at no probe that has a price"
    if not rest:
        return "", "the object does not say where it is attached"
    if kind in ("ksyscall", "kretsyscall"):
        rest = f"__x64_sys_{rest}"
    if _KINDS[kind] == "tracepoint":
        rest = rest.replace("/", ":", 1)
    return f"{_KINDS[kind]}:{rest}", ""


def _functions(symbols: Any, index: int, code: bytes) -> Iterator[tuple[str, bytes]]:
    """The programs of a section, which has one or several."""
    found = [
        (symbol["st_value"], symbol["st_size"], symbol.name)
        for symbol in (symbols.iter_symbols() if symbols else ())
        if symbol["st_shndx"] == index and symbol["st_info"]["type"] == "STT_FUNC"
    ]
    for at, size, name in sorted(found) or ([(0, len(code), "a program")] if code else []):
        yield name, code[at : at + size]


def _with_maps(code: bytes, relocations: Any, symbols: Any, numbers: Mapping[tuple[int, int], int]) -> bytes:
    """The code with the number of a map where its address is to come."""
    made = bytearray(code)
    for one in relocations.iter_relocations() if relocations is not None else ():
        at, symbol = one["r_offset"], symbols.get_symbol(one["r_info_sym"])
        (addend,) = struct.unpack_from("<i", made, at + 4)
        # A section's own symbol has the place within it in the instruction.
        place = symbol["st_value"] + (addend if symbol["st_info"]["type"] == "STT_SECTION" else 0)
        number = numbers.get((symbol["st_shndx"], place)) if isinstance(symbol["st_shndx"], int) else None
        if number is not None:
            struct.pack_into("<i", made, at + 4, number)
    return bytes(made)


def _maps(elf: ELFFile) -> Iterator[tuple[int, int, str, int, int]]:
    """Section, place in it, name, kind and bytes of a key of each, in their order."""
    symbols: Any = elf.get_section_by_name(".symtab")
    types = elf.get_section_by_name(".BTF")
    known = Types(types.data()) if types is not None else None
    for index, section in enumerate(elf.iter_sections()):
        if section.name not in (".maps", "maps"):
            continue
        own = {
            symbol["st_value"]: symbol.name
            for symbol in symbols.iter_symbols()
            if symbol["st_shndx"] == index and symbol["st_info"]["type"] == "STT_OBJECT"
        }
        for at, name in sorted(own.items()):
            if section.name == "maps":
                kind, key = struct.unpack_from("<II", section.data(), at)
            else:
                found = known.map_of(name) if known is not None else None
                if found is None:
                    raise ValueError(f"what the map {name} is, only its types say; compile it with -g")
                kind, key = found
            yield index, at, name, kind, key
