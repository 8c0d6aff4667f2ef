# SPDX-License-Identifier: MIT
"""What pages and instructions are called: mappings, objects, functions, source lines.

Mappings are those that a program had at its end. Pages that it had given back by then are told by where they lie.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from harness.measure.binary import Binary

from ..trace.maps import Mapping as OneMapping
from ..trace.maps import Maps
from ..trace.records import PAGE_SHIFT, Words
from .spaces import IP_BITS, IP_MASK, PAGE_BITS, PAGE_MASK

#: Pages that lie no further apart were one mapping, where that is not known any more.
NEAR = 64
GONE = "given back before the end"
KERNEL = "the kernel"


@dataclass(frozen=True)
class Region:
    """Pages `first` up to, not with, `last`, with spaces in their upper bits, and what they are called."""

    first: int
    last: int
    name: str


@dataclass(frozen=True)
class Place:
    """Where an instruction is: function, and file with line; what is not known is empty. `text` is for people."""

    function: str
    line: str
    text: str


class Memory:
    """One program's mappings, zeroed data apart, and the objects in them. `binary`: the file of a path."""

    def __init__(self, mappings: Sequence[OneMapping], binary: Callable[[str], Binary]) -> None:
        self._binary = binary
        self._maps = list(mappings)
        self._maps = [part for mapping in mappings for part in self._parts(mapping)]
        self._first = [mapping.first for mapping in self._maps]

    def mapping(self, page: int) -> OneMapping | None:
        """That of a page, without a space in its upper bits."""
        at = bisect_right(self._first, page) - 1
        return self._maps[at] if at >= 0 and page < self._maps[at].last else None

    def object_on(self, page: int) -> tuple[str, int] | None:
        """The object that has most of a page, and how many of its bytes."""
        begin = page << PAGE_SHIFT
        end = begin + (1 << PAGE_SHIFT)
        best, most = None, 0
        at = bisect_right(self._starts, end - 1) - 1
        while at >= 0 and self._starts[at] > begin - (1 << 40):
            first, last, name = self._objects[at]
            overlap = min(last, end) - max(first, begin)
            if overlap > most:
                best, most = name, overlap
            if first <= begin or (begin - first > 1 << 30):
                break
            at -= 1
        return (best, most) if best is not None else None

    @cached_property
    def _objects(self) -> list[tuple[int, int, str]]:
        """Objects of all files: first and last address, and name; by address."""
        every: list[tuple[int, int, str]] = []
        for path in dict.fromkeys(mapping.name for mapping in self._maps if mapping.name.startswith("/")):
            base, binary = self._base(path), self._binary(path)
            if base is not None:
                every += [(base + one.first, base + one.last, one.name) for one in binary.objects]
        return sorted(every)

    @cached_property
    def _starts(self) -> list[int]:
        return [one[0] for one in self._objects]

    def _parts(self, mapping: OneMapping) -> list[OneMapping]:
        """Zeroed data apart from the heap behind it, which the kernel shows as one mapping."""
        for before in self._maps:
            if before.last == mapping.first and before.writable and before.name.startswith("/"):
                base, end = self._base(before.name), self._binary(before.name).end
                if mapping.name in ("", "[heap]") and base is not None:
                    last = min(-(-(base + end) >> PAGE_SHIFT), mapping.last)
                    name = f"[{posixpath.basename(before.name)}: zeroed data]"
                    parts = (replace(mapping, last=last, name=name), replace(mapping, first=last))
                    return [part for part in parts if part.first < part.last]
        return [mapping]

    def _base(self, path: str) -> int | None:
        """What the file's own addresses are moved by."""
        for mapping in self._maps:
            own = self._binary(path).address_of(mapping.offset << PAGE_SHIFT) if mapping.name == path else None
            if own is not None:
                return (mapping.first << PAGE_SHIFT) - (own & -(1 << PAGE_SHIFT))
        return None


class Names:
    """Names for one trace. `maps` by space, `main`: that of the program itself; `root`: where its files are.

    `program`: its name, whose functions need no file's name beside them.
    """

    def __init__(self, maps: Mapping[int, Maps], main: int, root: Path, program: str) -> None:
        self._main, self._root, self._program = main, root, posixpath.basename(program)
        self._binaries: dict[str, Binary] = {}
        self._memories = {space: Memory(of.mappings, self._binary) for space, of in maps.items()}

    # -- pages ---------------------------------------------------------------------------------------------

    def regions(self, pages: Words) -> list[Region]:
        """The regions that `pages`, sorted and distinct, lie in, in the order of their addresses."""
        found: list[Region] = []
        numbers = {"anonymous memory": 0, GONE: 0}
        for page in pages.tolist():
            if found and page < found[-1].last:
                continue
            space = page >> PAGE_BITS
            mapping = self._mapping(page)
            if mapping is not None:
                name = self._whose(space, self._name(mapping))
                base = space << PAGE_BITS
                region = Region(base + mapping.first, base + mapping.last, name)
            else:
                region = Region(page, page + 1, self._whose(space, GONE if space in self._memories else "memory"))
                if found and found[-1].name.startswith(region.name) and page - found[-1].last < NEAR:
                    found[-1] = Region(found[-1].first, page + 1, found[-1].name)
                    continue
            if region.name in numbers:
                numbers[region.name] += 1
                region = Region(region.first, region.last, f"{region.name} {numbers[region.name]}")
            found.append(region)
        return found

    def _whose(self, space: int, name: str) -> str:
        return name if space == self._main else f"program {space + 1}: {name}"

    def library(self, page: int) -> bool:
        """Whether a page is a library's, or the loader's: not what who wrote the program can lay out otherwise."""
        mapping = self._mapping(page)
        name = mapping.name if mapping is not None else ""
        if ": zeroed data]" in name:
            return not name.startswith(f"[{self._program}: ")
        if not name.startswith("/") or posixpath.basename(name) == self._program:
            return False
        return self._binary(name).address_of(0) is not None

    def _mapping(self, page: int) -> OneMapping | None:
        memory = self._memories.get(page >> PAGE_BITS)
        return memory.mapping(page & int(PAGE_MASK)) if memory is not None else None

    def _name(self, mapping: OneMapping) -> str:
        if mapping.name.startswith("["):
            return mapping.name.strip("[]") if ": " in mapping.name else mapping.name
        if not mapping.name:
            return "anonymous memory"
        kind = "code" if mapping.executable else "data" if mapping.writable else "constants"
        binary = self._binary(mapping.name)
        if not binary.functions and not binary.objects and binary.address_of(0) is None:
            kind = "file"
        return f"{posixpath.basename(mapping.name)}: {kind}"

    def objects(self, pages: Words) -> dict[int, tuple[str, int]]:
        """Of those pages that objects with a name lie on: the one that has most of the page, and its bytes there."""
        names = {}
        for page in pages.tolist():
            memory = self._memories.get(page >> PAGE_BITS)
            found = memory.object_on(page & int(PAGE_MASK)) if memory is not None else None
            if found is not None:
                names[page] = found
        return names

    # -- instructions --------------------------------------------------------------------------------------

    def places(self, ips: Iterable[int]) -> dict[int, Place]:
        """Where these instructions are, spaces in their upper bits."""
        found: dict[int, Place] = {}
        inside: dict[str, dict[int, list[int]]] = {}
        for ip in ips:
            space, address = ip >> IP_BITS, ip & int(IP_MASK)
            memory = self._memories.get(space)
            if ip == 0:
                found[ip] = Place(KERNEL, "", KERNEL)
                continue
            mapping = memory.mapping(address >> PAGE_SHIFT) if memory is not None else None
            if mapping is None:
                found[ip] = Place("", "", f"{address:#x}" + (f" of program {space + 1}" if space != self._main else ""))
                continue
            own = None
            if mapping.name.startswith("/"):
                own = self._binary(mapping.name).address_of(address - (mapping.first - mapping.offset << PAGE_SHIFT))
            if own is None:
                found[ip] = Place("", "", f"{mapping.name or 'memory'}+{address - (mapping.first << PAGE_SHIFT):#x}")
                continue
            inside.setdefault(mapping.name, {}).setdefault(own, []).append(ip)
        for path, addresses in inside.items():
            binary = self._binary(path)
            lines = binary.lines(addresses)
            for own, those in addresses.items():
                function, line = binary.function(own) or "", lines.get(own, "")
                base = posixpath.basename(path)
                plain = f"{function} ({base})" if function and base != self._program else function or f"{base}+{own:#x}"
                text = f"{line} ({function})" if line and function else line or plain
                found.update(dict.fromkeys(those, Place(plain, line, text)))
        return found

    def _binary(self, path: str) -> Binary:
        if path not in self._binaries:
            self._binaries[path] = Binary(self._root / path.lstrip("/"))
        return self._binaries[path]


def rows_of(regions: list[Region], pages: Words) -> list[tuple[int, int, str]]:
    """First row, rows and name of each region, where each of `pages`, sorted and distinct, has a row."""
    first = np.searchsorted(pages, np.array([one.first for one in regions], dtype=np.uint64))
    last = np.searchsorted(pages, np.array([one.last for one in regions], dtype=np.uint64))
    return [(int(a), int(b - a), one.name) for a, b, one in zip(first, last, regions, strict=True)]
