# SPDX-License-Identifier: MIT
"""What pages and instructions are called: mappings, objects, functions, source lines.

Mappings are those that the program had at its end. Pages that it had given back by then are told by where they lie.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from harness.measure.binary import Binary

from ..trace.maps import Mapping, Maps
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


class Names:
    """Names for one trace. `main`: the space that `maps` tells of; `root`: where the files of `program` are."""

    def __init__(self, maps: Maps, main: int, root: Path, program: str) -> None:
        self._main, self._root, self._program = main, root, posixpath.basename(program)
        self._binaries: dict[str, Binary] = {}
        self._maps = maps.mappings
        self._maps = [part for mapping in maps.mappings for part in self._parts(mapping)]
        self._first = [mapping.first for mapping in self._maps]

    # -- pages ---------------------------------------------------------------------------------------------

    def regions(self, pages: Words) -> list[Region]:
        """The regions that `pages`, sorted and distinct, lie in, in the order of their addresses."""
        found: list[Region] = []
        numbers = {"anonymous memory": 0, GONE: 0}
        for page in pages.tolist():
            if found and page < found[-1].last:
                continue
            space, inside = page >> PAGE_BITS, page & int(PAGE_MASK)
            mapping = self._mapping(inside) if space == self._main else None
            if mapping is not None:
                name = self._name(mapping)
                base = space << PAGE_BITS
                region = Region(base + mapping.first, base + mapping.last, name)
            else:
                region = Region(page, page + 1, GONE if space == self._main else f"program {space + 1}: memory")
                if found and found[-1].name.startswith(region.name) and page - found[-1].last < NEAR:
                    found[-1] = Region(found[-1].first, page + 1, found[-1].name)
                    continue
            if region.name in numbers:
                numbers[region.name] += 1
                region = Region(region.first, region.last, f"{region.name} {numbers[region.name]}")
            found.append(region)
        return found

    def writable(self, page: int) -> bool:
        """Whether the program may have written to a page; where its mapping is not known any more, it may."""
        mapping = self._mapping(page & int(PAGE_MASK)) if page >> PAGE_BITS == self._main else None
        return mapping is None or mapping.writable

    def _parts(self, mapping: Mapping) -> list[Mapping]:
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

    def _mapping(self, page: int) -> Mapping | None:
        at = bisect_right(self._first, page) - 1
        return self._maps[at] if at >= 0 and page < self._maps[at].last else None

    def _name(self, mapping: Mapping) -> str:
        if mapping.name.startswith("["):
            return mapping.name.strip("[]") if ": " in mapping.name else mapping.name
        if not mapping.name:
            return "anonymous memory"
        kind = "code" if mapping.executable else "data" if mapping.writable else "constants"
        binary = self._binary(mapping.name)
        if not binary.functions and not binary.objects and binary.address_of(0) is None:
            kind = "file"
        return f"{posixpath.basename(mapping.name)}: {kind}"

    @cached_property
    def _objects(self) -> list[tuple[int, int, str]]:
        """Objects of all files: first and last address, and name; by address."""
        every: list[tuple[int, int, str]] = []
        for path in dict.fromkeys(mapping.name for mapping in self._maps if mapping.name.startswith("/")):
            base, binary = self._base(path), self._binary(path)
            if base is not None:
                every += [(base + one.first, base + one.last, one.name) for one in binary.objects]
        return sorted(every)

    def objects(self, pages: Words) -> dict[int, tuple[str, int]]:
        """Of those pages that objects with a name lie on: the one that has most of the page, and its bytes there."""
        starts = [one[0] for one in self._objects]
        names = {}
        for page in pages.tolist():
            if page >> PAGE_BITS != self._main:
                continue
            begin = (page & int(PAGE_MASK)) << PAGE_SHIFT
            end = begin + (1 << PAGE_SHIFT)
            best, most = None, 0
            at = bisect_right(starts, end - 1) - 1
            while at >= 0 and starts[at] > begin - (1 << 40):
                first, last, name = self._objects[at]
                overlap = min(last, end) - max(first, begin)
                if overlap > most:
                    best, most = name, overlap
                if first <= begin or (begin - first > 1 << 30):
                    break
                at -= 1
            if best is not None:
                names[page] = best, most
        return names

    # -- instructions --------------------------------------------------------------------------------------

    def places(self, ips: Iterable[int]) -> dict[int, Place]:
        """Where these instructions are, spaces in their upper bits."""
        found: dict[int, Place] = {}
        inside: dict[str, dict[int, list[int]]] = {}
        for ip in ips:
            space, address = ip >> IP_BITS, ip & int(IP_MASK)
            if ip == 0:
                found[ip] = Place(KERNEL, "", KERNEL)
                continue
            mapping = self._mapping(address >> PAGE_SHIFT) if space == self._main else None
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

    def _base(self, path: str) -> int | None:
        """What the file's own addresses are moved by."""
        for mapping in self._maps:
            own = self._binary(path).address_of(mapping.offset << PAGE_SHIFT) if mapping.name == path else None
            if own is not None:
                return (mapping.first << PAGE_SHIFT) - (own & -(1 << PAGE_SHIFT))
        return None


def rows_of(regions: list[Region], pages: Words) -> list[tuple[int, int, str]]:
    """First row, rows and name of each region, where each of `pages`, sorted and distinct, has a row."""
    first = np.searchsorted(pages, np.array([one.first for one in regions], dtype=np.uint64))
    last = np.searchsorted(pages, np.array([one.last for one in regions], dtype=np.uint64))
    return [(int(a), int(b - a), one.name) for a, b, one in zip(first, last, regions, strict=True)]
