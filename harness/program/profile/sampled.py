# SPDX-License-Identifier: MIT
"""What `perf record` would have said of a program, beside what it executed: the kernel's samples, by function.

The records are those of perf_event_open(2), as the kernel wrote them: its own timer, 4,000 times a second.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from harness.errors import RunError
from harness.measure.raw import read_bytes
from harness.measure.symbols import SymbolMap
from harness.program.profile.calls import KERNEL, OUTSIDE, Calls
from harness.program.profile.code import VDSO, Files, Place

LOST, EXIT, FORK, SAMPLE, MMAP2 = 2, 4, 7, 9, 10
_KERNEL_MODE, _MODE = 1, 7
_HEADER = struct.Struct("<IHH")
_SAMPLE, _FORK, _MMAP, _LOST = (struct.Struct(text) for text in ("<QII", "<IIII", "<IIQQQ", "<QQ"))
#: Of an MMAP2 record, in front of the file's name: device, inode or build id, protection, flags.
_BEFORE_NAME = _MMAP.size + 32
UNKNOWN = Place("(unknown)", "[no file]")


@dataclass
class _Space:
    """The mappings of code that a process has: begin to end, offset in the file, name; the newest of a place holds."""

    begins: list[int] = field(default_factory=list)
    maps: list[tuple[int, int, str]] = field(default_factory=list)

    def add(self, begin: int, length: int, offset: int, name: str) -> None:
        at = bisect_right(self.begins, begin)
        if at and self.begins[at - 1] == begin:
            self.maps[at - 1] = (begin + length, offset, name)
            return
        self.begins.insert(at, begin)
        self.maps.insert(at, (begin + length, offset, name))

    def find(self, address: int) -> tuple[str, int] | None:
        """The file and the offset in it."""
        at = bisect_right(self.begins, address) - 1
        if at < 0 or address >= self.maps[at][0]:
            return None
        _, offset, name = self.maps[at]
        return name, address - self.begins[at] + offset


@dataclass(frozen=True)
class Sampled:
    """Samples by function, and how many found no room."""

    functions: Counter[tuple[str, str]]
    lost: int


def read_samples(path: Path, symbols: SymbolMap, files: Files) -> Sampled:
    """Read the records; RunError where they are damaged."""
    counts: Counter[tuple[str, str]] = Counter()
    spaces: dict[int, _Space] = {}
    lost = 0
    for kind, mode, body in _records(path):
        if kind == SAMPLE:
            address, pid, _ = _SAMPLE.unpack_from(body)
            if mode == _KERNEL_MODE:
                place = _kernel(symbols, address)
            else:
                place = _user(spaces.get(pid, _Space()).find(address), files)
            counts[place.name, place.file] += 1
        elif kind == MMAP2:
            pid, _, begin, length, offset = _MMAP.unpack_from(body)
            name = body[_BEFORE_NAME:].split(b"\0", 1)[0].decode(errors="replace")
            spaces.setdefault(pid, _Space()).add(begin, length, offset, name)
        elif kind == FORK:
            pid, parent, _, _ = _FORK.unpack_from(body)
            if pid != parent and parent in spaces:
                spaces[pid] = _Space([*spaces[parent].begins], [*spaces[parent].maps])
        elif kind == LOST:
            lost += _LOST.unpack_from(body)[1]
    return Sampled(counts, lost)


def _records(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Kind, mode of the CPU, and what follows the header."""
    data, at = read_bytes(path), 0
    while at < len(data):
        if at + _HEADER.size > len(data):
            raise RunError("ends inside a record", where=f"{path}, byte {at}")
        kind, misc, size = _HEADER.unpack_from(data, at)
        if size < _HEADER.size or at + size > len(data):
            raise RunError("has a damaged record", where=f"{path}, byte {at}")
        yield kind, misc & _MODE, data[at + _HEADER.size : at + size]
        at += size


def _kernel(symbols: SymbolMap, address: int) -> Place:
    index = int(symbols.at([address])[0])
    return Place(str(symbols.name[index]) if index >= 0 else OUTSIDE, KERNEL)


def _user(found: tuple[str, int] | None, files: Files) -> Place:
    if found is None:
        return UNKNOWN
    name, offset = found
    return Place(VDSO, VDSO) if name == VDSO else files.function(name, offset) or UNKNOWN


def compared(calls: Calls, sampled: Sampled) -> pd.DataFrame:
    """A row for each function of the program's threads: its exact share of their instructions, and the samples' share.

    Columns: function, file, instructions, share, samples, sampled, off (in points of a hundred); the last two are NaN
    where there is no sample at all.
    """
    exact: Counter[tuple[str, str]] = Counter()
    for call, _, _ in calls.of_program():
        if call.own:
            exact[(call.place.name, call.place.file) if call.place else (call.label, KERNEL)] += call.own
    whole, taken = max(sum(exact.values()), 1), sum(sampled.functions.values())
    rows = []
    for key in exact.keys() | sampled.functions.keys():
        share, seen = exact[key] / whole, sampled.functions[key] / taken if taken else math.nan
        rows.append((*key, exact[key], share, sampled.functions[key], seen, round((seen - share) * 100, 2)))
    columns = ["function", "file", "instructions", "share", "samples", "sampled", "off"]
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values(["instructions", "function", "file"], ascending=[False, True, True]).reset_index(drop=True)


def told(table: pd.DataFrame, sampled: Sampled) -> list[str]:
    """How far the samples are off, in a few lines."""
    samples = int(table["samples"].sum())
    if not samples:
        return ["perf record -F 4000 would have taken no sample: the program is too short."]
    unseen = table[(table["samples"] == 0) & (table["instructions"] > 0)]
    worst = table.iloc[int(table["off"].abs().to_numpy().argmax())]
    off, functions = table["off"].abs().sum() / 2, int((table["instructions"] > 0).sum())
    text = (
        f"perf record -F 4000 takes {samples:,} samples of it and is off by {off:.1f} % of all instructions; most for"
        f" {worst['function']}: {worst['sampled']:.1%} for {worst['share']:.1%}. {len(unseen):,} of {functions:,}"
        f" functions have no sample: {unseen['share'].sum():.1%} of the instructions."
    )
    return [text, f"{sampled.lost:,} samples were lost."] if sampled.lost else [text]
