# SPDX-License-Identifier: MIT
"""A page trace's file: a header of 64 bytes, then records of three little-endian 64-bit words, or packed (`packed`).

    word 0   time << 12 | flags            time: ns since the start; flags: bits 0-3 below, bits 8-11 the type
    word 1   page << 12 | tid bits 0-11    page: number, address >> 12
    word 2   tid bits 12-27 << 48 | ip     ip: bits 0-47, sign-extended

The kernel's include/uapi/linux/page_trace.h says what the types mean. A LOST record's `page` is the number of visits
that were lost before it, a TASK record's the parent's tid.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import RunError

from .anew import KERNEL, SAME, Marks, Tid, replaced
from .packed import Block, Coded, blocks, joined, scan
from .wrote import Told, later_writes, within

MAGIC = b"KRPTRACE"
#: Of files whose records are words, and of packed ones.
PLAIN, PACKED = 1, 2
RECORD_BYTES = 24
PAGE_SHIFT = 12
MAX_WINDOW = 64
WRITE = 1
VISIT, CODE, LOST, TASK, EXEC, EXIT, WROTE = range(7)
#: Of a header: there are WROTE records.
TELLS_WRITES = 4

HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("record_bytes", "<u4"),
        ("window", "<u4"),
        ("flags", "<u4"),
        ("pid", "<i4"),
        ("page_shift", "<u4"),
        ("start_ns", "<u8"),
        ("zeros", "V24"),
    ]
)
#: Records that are decoded at once when nothing else is said: 1.5 MB of file. With 2**20 of them, every pass over a
#: column leaves the processor's cache: at the walk of `bench`, pages took 1.6 times as long as with 2**17, reuse
#: distances 1.3 times; and with 2**17 pages of a strided program take 1.2 times as long as with these.
CHUNK = 1 << 16
#: Columns are made of pieces that stay in the processor's cache.
_PIECE = 1 << 15
_UNUSED_BITS = 0xF0
#: Columns that are bits of the flags.
_MARKS = {"write": WRITE, "kernel": KERNEL, "same": SAME}

Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Header:
    """What the launcher wrote first: the window, flags of PAGE_TRACE_START, the process, the start in ns of
    CLOCK_MONOTONIC; and whether the records are packed.
    """

    window: int
    flags: int
    pid: int
    start_ns: int
    packed: bool


@dataclass(frozen=True)
class Records:
    """n records in the order in which they were written; all arrays have shape (n,).

    time_ns  int64   since the start of the trace
    page     uint64  page number; of LOST records a count, of TASK records a tid
    write    bool    the visit begins with a write; of a trace with WROTE records: it writes
    kernel   bool    by the kernel on the task's behalf
    same     bool    by the instruction of the visit before
    ip       uint64  instruction pointer
    tid      uint32
    type     uint8   VISIT, CODE, LOST, TASK, EXEC, EXIT; of a whole file WROTE too, which is told by `write` here
    """

    time_ns: npt.NDArray[np.int64]
    page: Words
    write: Flags
    kernel: Flags
    same: Flags
    ip: Words
    tid: npt.NDArray[np.uint32]
    type: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return int(self.type.size)

    def where(self, mask: Flags) -> Records:
        """The records that `mask`, shape (n,), selects; a column is copied when it is asked for."""
        return _Selected(self, np.flatnonzero(mask))

    def with_columns(self, **made: Callable[[], Words]) -> Records:
        """The same records with other columns, which are made when they are asked for."""
        return _Changed(self, made)

    def coded(self, column: str) -> Coded | None:
        """The column `page` or `ip` by places in the blocks' words, where the file has it so."""
        return None


class _Late(Records):
    """Columns that are not there yet are made when they are asked for."""

    def __getattr__(self, column: str) -> npt.NDArray[np.generic]:
        if column.startswith("_"):
            raise AttributeError(column)
        values = vars(self)[column] = self._made(column)
        return values

    def _made(self, column: str) -> npt.NDArray[np.generic]:
        raise NotImplementedError


class _Selected(_Late):
    _whole: Records
    _at: npt.NDArray[np.intp]

    def __init__(self, whole: Records, at: npt.NDArray[np.intp]) -> None:
        vars(self).update(_whole=whole, _at=at)  # it is frozen

    def _made(self, column: str) -> npt.NDArray[np.generic]:
        values: npt.NDArray[np.generic] = getattr(self._whole, column)[self._at]
        return values

    def coded(self, column: str) -> Coded | None:
        coded = self._whole.coded(column)
        return coded and coded.at(self._at)


class _Changed(_Late):
    _whole: Records
    _changed: Mapping[str, Callable[[], Words]]

    def __init__(self, whole: Records, changed: Mapping[str, Callable[[], Words]]) -> None:
        vars(self).update(_whole=whole, _changed=changed)

    def _made(self, column: str) -> npt.NDArray[np.generic]:
        made = self._changed.get(column)
        return made() if made else np.asarray(getattr(self._whole, column))

    def coded(self, column: str) -> Coded | None:
        return None if column in self._changed else self._whole.coded(column)


class _Written(_Late):
    """The visits at `places` write."""

    _whole: Records
    _places: npt.NDArray[np.int64]

    def __init__(self, whole: Records, places: npt.NDArray[np.int64]) -> None:
        vars(self).update(_whole=whole, _places=places)

    def _made(self, column: str) -> npt.NDArray[np.generic]:
        values: npt.NDArray[np.generic] = getattr(self._whole, column)
        if column == "write":
            values = values.copy()
            values[self._places] = True
        return values

    def coded(self, column: str) -> Coded | None:
        return self._whole.coded(column)


class _Decoded(_Late):
    """Times, pages and threads are there; the rest follows from `marks`, shape (n,), and `ips`, which makes theirs."""

    _marks: Marks
    _ips: Callable[[], Words]

    def __init__(
        self, times: npt.NDArray[np.int64], pages: Words, tids: npt.NDArray[np.uint32], marks: Marks,
        ips: Callable[[], Words],
    ) -> None:  # fmt: skip
        vars(self).update(time_ns=times, page=pages, tid=tids, type=marks >> 4, _marks=marks, _ips=ips)

    def _made(self, column: str) -> npt.NDArray[np.generic]:
        return self._ips() if column == "ip" else _marked(self._marks, column)


class _Unpacked(_Late):
    """Of blocks, whose parts of the pages and of the instruction pointers stand one behind the other."""

    _marks: Marks
    _parts: dict[str, list[Coded]]

    def __init__(
        self, times: npt.NDArray[np.int64], tids: npt.NDArray[np.uint32], marks: Marks, parts: dict[str, list[Coded]]
    ) -> None:
        vars(self).update(time_ns=times, tid=tids, type=marks >> 4, _marks=marks, _parts=parts)

    def _made(self, column: str) -> npt.NDArray[np.generic]:
        if column not in self._parts:
            return _marked(self._marks, column)
        coded = self.coded(column)
        return coded.words() if coded else np.concatenate([part.words() for part in self._parts[column]])

    def coded(self, column: str) -> Coded | None:
        return joined(self._parts[column])


def _marked(marks: Marks, column: str) -> Flags:
    return (marks & _MARKS[column]).astype(bool)


def decode(words: Words) -> Records:
    """Columns of words of shape (n, 3), which stay as they are. Nothing is checked: `Trace.chunks` does."""
    n = len(words)
    times, pages = np.empty(n, np.int64), np.empty(n, np.uint64)
    tids, marks = np.empty(n, np.uint32), np.empty(n, np.uint8)
    for first in range(0, n, _PIECE):
        part = slice(first, min(n, first + _PIECE))
        head, place, origin = words[part, 0], words[part, 1], words[part, 2]
        np.right_shift(head, 12, out=times.view(np.uint64)[part])
        np.right_shift(place, 12, out=pages[part])
        marks[part] = _marks(head)
        tids[part] = _tids(place, origin)
    return _Decoded(times, pages, tids, marks, functools.partial(_ips, words))


def _marks(head: Words) -> Marks:
    """Bits 0-3 of the flags, and above them the type, of first words."""
    low = head.astype(np.uint16)
    return (low & 0xF | low >> 4 & 0xF0).astype(np.uint8)


def _tids(place: Words, origin: Words) -> npt.NDArray[np.uint32]:
    """Threads of second and third words."""
    return ((place & 0xFFF) | (origin >> 48 << 12)).astype(np.uint32)


def _ips(words: Words) -> Words:
    # Shifted up and back as a signed number: bit 47 is copied into the bits above it.
    return ((words[:, 2] << np.uint64(16)).view(np.int64) >> 16).view(np.uint64)


class Trace:
    """One trace file. It is read piece by piece, not mapped: a mapping would count into the process's memory."""

    def __init__(self, path: Path) -> None:
        """RunError when the file is absent, is none of these, or was cut short."""
        self.path = path
        try:
            with path.open("rb") as file:
                raw = file.read(HEADER.itemsize)
            size = path.stat().st_size
        except OSError as error:
            raise RunError(f"cannot be read: {error.strerror}", where=str(path)) from error
        self.header = _header(raw, path)
        self.packed = self.header.packed
        self._last = WROTE if self.header.flags & TELLS_WRITES else EXIT
        if self.packed:
            self.records = scan(path, HEADER.itemsize)
            return
        self.records, rest = divmod(size - HEADER.itemsize, RECORD_BYTES)
        if rest:
            raise RunError(f"is cut short: {rest} bytes after record {self.records}", where=str(path))

    def last_ns(self) -> int:
        """Time of the last record, in ns since the start; 0 when there is none."""
        if not self.records:
            return 0
        if self.packed:
            return max(int(records.time_ns[-1]) for records in self._unpacked(CHUNK))
        with self.path.open("rb") as file:
            file.seek(HEADER.itemsize + (self.records - 1) * RECORD_BYTES)
            return int.from_bytes(file.read(8), "little") >> 12

    @property
    def replaced(self) -> npt.NDArray[np.int64]:
        """Positions of visits that were none: their instruction was begun anew (see `anew`). Reads the whole file."""
        return self._scanned[0]

    @property
    def written_visits(self) -> int:
        """Visits that the file holds, those `replaced` included: what the kernel counts as `records`."""
        return self._scanned[1]

    @cached_property
    def _scanned(self) -> tuple[npt.NDArray[np.int64], int]:
        visits = 0

        def counted() -> Iterator[tuple[Marks, Tid]]:
            nonlocal visits
            for marks, tid in self._threads():
                visits += int(np.count_nonzero(marks < 1 << 4))
                yield marks, tid

        return replaced(counted()), visits

    @cached_property
    def _later_writes(self) -> npt.NDArray[np.int64]:
        """Positions of visits that write, but do not begin with that. Reads the whole file, where it tells them."""
        return later_writes(self._pages()) if self._last == WROTE else np.empty(0, dtype=np.int64)

    def _pages(self) -> Iterator[Told]:
        for first, records in self._every(CHUNK):
            at = np.flatnonzero((records.type == VISIT) | (records.type == WROTE))
            yield Told(first + at, records.tid[at], records.page[at], records.type[at] == WROTE, records.write[at])

    def _threads(self) -> Iterator[tuple[Marks, Tid]]:
        """Flags, types and threads alone, piece by piece."""
        if self.packed:
            for block in blocks(self.path, HEADER.itemsize):
                yield block.marks, block.tid
            return
        for _, words in self._words(CHUNK):
            yield _marks(words[:, 0]), _tids(words[:, 1], words[:, 2])

    def chunks(self, records: int = CHUNK) -> Iterator[Records]:
        """All records but those `replaced`, at most `records` at a time. RunError names the record that is damaged."""
        for first, decoded in self._every(records):
            gone = within(self.replaced, first, len(decoded))
            told, kept = decoded, None
            if self._last == WROTE:
                told = _Written(decoded, within(self._later_writes, first, len(decoded)))
                kept = decoded.type != WROTE
            if gone.size:
                kept = np.ones(len(decoded), dtype=bool) if kept is None else kept
                kept[gone] = False
            yield told if kept is None else told.where(kept)

    def _every(self, records: int) -> Iterator[tuple[int, Records]]:
        """All records as they stand in the file, with the position of the first."""
        first = 0
        for decoded in self._unpacked(records) if self.packed else self._decoded(records):
            yield first, decoded
            first += len(decoded)

    def _decoded(self, records: int) -> Iterator[Records]:
        for first, words in self._words(records):
            decoded = decode(words)
            _check(words, decoded, first, self.path, self._last)
            yield decoded

    def _words(self, records: int) -> Iterator[tuple[int, Words]]:
        """The file's words, each time in a new array, with the number of the first record."""
        with self.path.open("rb", buffering=0) as file:
            file.seek(HEADER.itemsize)
            for first in range(0, self.records, records):
                part = np.empty((min(records, self.records - first), 3), dtype="<u8")
                _fill(file, part, self.path)
                yield first, part

    def _unpacked(self, records: int) -> Iterator[Records]:
        """As many at a time as `records`, each time in new arrays."""
        left = self.records
        room = _Room(min(records, left))
        for block in blocks(self.path, HEADER.itemsize):
            block.check()
            if block.marks.max() >= self._last + 1 << 4:
                at = int(np.flatnonzero(block.marks >= self._last + 1 << 4)[0])
                raise RunError(f"record {at} of a block is damaged: type {block.marks[at] >> 4}", where=block.where)
            taken = 0
            while taken < len(block) and left:
                taken += room.take(block, taken)
                if room.full:
                    yield room.records()
                    left -= room.held
                    room = _Room(min(records, left))


class _Room:
    """Where blocks are unpacked, for n records."""

    def __init__(self, n: int) -> None:
        self.held = 0
        self._times, self._tids, self._marks = np.empty(n, np.int64), np.empty(n, np.uint32), np.empty(n, np.uint8)
        self._pages: list[Coded] = []
        self._ips: list[Coded] = []

    @property
    def full(self) -> bool:
        return self.held == self._marks.size

    def take(self, block: Block, first: int) -> int:
        """Unpack this block from its record `first` on, as far as there is room; how many records that were."""
        n = min(len(block) - first, self._marks.size - self.held)
        here, there = slice(self.held, self.held + n), slice(first, first + n)
        self._times[here] = block.times[there]
        self._tids[here] = block.tids(there)
        self._marks[here] = block.marks[there]
        self._pages.append(block.pages(there))
        self._ips.append(block.ips(there))
        self.held += n
        return n

    def records(self) -> Records:
        return _Unpacked(self._times, self._tids, self._marks, {"page": self._pages, "ip": self._ips})


def _header(raw: bytes, path: Path) -> Header:
    if len(raw) < HEADER.itemsize:
        raise RunError(f"is cut short: a header of {len(raw)} bytes", where=str(path))
    fields = np.frombuffer(raw, dtype=HEADER)[0]
    packed = bool(fields["version"] == PACKED)
    wrong: dict[str, Any] = {
        "magic": raw[:8] != MAGIC,
        "version": fields["version"] not in (PLAIN, PACKED),
        "record_bytes": fields["record_bytes"] != (0 if packed else RECORD_BYTES),
        "page_shift": fields["page_shift"] != PAGE_SHIFT,
        "window": not 1 <= fields["window"] <= MAX_WINDOW,
        "zeros": any(raw[40:]),
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise RunError(f"is no page trace of version {PLAIN} or {PACKED}: its {name} is wrong", where=str(path))
    return Header(int(fields["window"]), int(fields["flags"]), int(fields["pid"]), int(fields["start_ns"]), packed)


def _fill(file: Any, part: Words, path: Path) -> None:
    """Read until `part` is full: a raw file may return less."""
    view = part.data.cast("B")
    filled = 0
    while filled < len(view):
        got = file.readinto(view[filled:])
        if not got:
            raise RunError("became shorter while it was read", where=str(path))
        filled += got


def _check(words: Words, records: Records, first: int, path: Path, last: int) -> None:
    # All at once; which record it was is looked for only when there is one.
    if int(np.bitwise_or.reduce(words[:, 0])) & _UNUSED_BITS or (len(records) and records.type.max() > last):
        bad = (words[:, 0] & _UNUSED_BITS != 0) | (records.type > last)
        at = int(np.flatnonzero(bad)[0])
        raise RunError(
            f"record {first + at} is damaged: flags {int(words[at, 0]) & 0xFFF:#05x}",
            where=f"{path}, byte {HEADER.itemsize + (first + at) * RECORD_BYTES}",
        )
