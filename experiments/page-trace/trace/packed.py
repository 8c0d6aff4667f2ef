# SPDX-License-Identifier: MIT
"""A packed page trace: blocks of columns, as guest/pagetrace/output.c writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from harness.errors import RunError

BLOCK = np.dtype(
    [
        ("bytes", "<u4"),
        ("records", "<u4"),
        ("pages", "<u4"),
        ("ips", "<u4"),
        ("times", "<u4"),
        ("flags", "<u4"),
        ("tid", "<u4"),
        ("zero", "<u4"),
        ("time_ns", "<u8"),
    ]
)
MOST_RECORDS, ENTRIES = 1 << 15, 1 << 16
LONG = 0xFFFF
ANEW, THREADS, WIDE_PAGES, WIDE_IPS = 1, 2, 4, 8

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Marks = npt.NDArray[np.uint8]
#: Of all records, or of each one.
Tid = np.uint32 | npt.NDArray[np.uint32]


def scan(path: Path, begin: int) -> int:
    """How many records the blocks from byte `begin` on hold; RunError when the last one is cut short."""
    records = 0
    with path.open("rb") as file:
        size, at = path.stat().st_size, begin
        while at < size:
            file.seek(at)
            head = _head(file, at, path)
            at += BLOCK.itemsize + int(head["bytes"])
            if at > size:
                raise RunError(f"is cut short: {at - size} bytes of its last block are missing", where=str(path))
            records += int(head["records"])
    return records


class Block:
    """n records of one block. Columns are made when they are asked for, of those records that `these` selects.

    marks  uint8   bits 0-3 of a record's flags, above them its type
    tid    uint32  one for all, or shape (n,)
    where          the file, and where in it the block begins
    """

    def __init__(self, head: np.void, raw: bytes, known: Known, where: str) -> None:
        """`known`: pages and instructions so far; this block's are appended."""
        flags, n = int(head["flags"]), int(head["records"])
        columns = _Columns(raw)
        if flags & ANEW:
            known.page, known.ip = Entries(), Entries()
        known.page.append(columns.take("<u8", int(head["pages"])).astype(np.uint64))
        known.ip.append(_extended(columns.take("<u8", int(head["ips"]))))
        self._page, self._ip = known.page, known.ip
        self._known = known.page.words.size, known.ip.words.size
        self._times = columns.take("<u8", int(head["times"]))
        self.tid: Tid = columns.take("<u4", n) if flags & THREADS else np.uint32(head["tid"])
        self._delta = columns.take("<u2", n)
        self._pages = columns.take("<u2" if flags & WIDE_PAGES else "u1", n)
        self._ips = columns.take("<u2" if flags & WIDE_IPS else "u1", n)
        self.marks: Marks = columns.take("u1", n)
        self._begin_ns, self.where = int(head["time_ns"]), where

    def __len__(self) -> int:
        return self.marks.size

    def check(self) -> None:
        """RunError where a record has the number of a page or instruction that is not known."""
        for number, known in zip((self._pages, self._ips), self._known, strict=True):
            if int(number.max()) >= known:
                text = f"has number {int(number.max())} of {known} pages or instructions"
                raise RunError(text, where=self.where)

    @cached_property
    def times(self) -> Ints:
        """ns since the start, shape (n,)."""
        delta: npt.NDArray[np.integer] = self._delta
        if self._times.size or self._delta.max() == LONG:
            far = self._delta == LONG
            if np.count_nonzero(far) != self._times.size:
                raise RunError("its long times are not those that its records have", where=self.where)
            delta = self._delta.astype(np.int64)
            delta[far] = self._times
        times = np.cumsum(delta, dtype=np.int64)
        times += self._begin_ns
        return times

    def tids(self, these: slice) -> Tid:
        """Threads: one for all, or of each."""
        return self.tid[these] if isinstance(self.tid, np.ndarray) else self.tid

    def pages(self, these: slice) -> Coded:
        """Page numbers, or what else a record has in their place."""
        return Coded(self._pages[these], self._page)

    def ips(self, these: slice) -> Coded:
        """Instruction pointers."""
        return Coded(self._ips[these], self._ip)


class Entries:
    """Words that blocks name by their places here; more are appended, until a block begins anew."""

    def __init__(self) -> None:
        self.words: Words = np.empty(0, np.uint64)

    def append(self, more: Words) -> None:
        if more.size:
            self.words = np.concatenate([self.words, more])


@dataclass(frozen=True)
class Coded:
    """A column of words by their places in `entries`: code, shape (n,)."""

    code: npt.NDArray[np.integer]
    entries: Entries

    def at(self, places: npt.NDArray[np.intp] | slice) -> Coded:
        """The same, of some places alone."""
        return Coded(self.code[places], self.entries)

    def words(self) -> Words:
        """The column itself."""
        # `Block.check` has seen the places; in other modes the result is copied once more.
        found: Words = self.entries.words.take(self.code, mode="clip")
        return found


def joined(parts: Sequence[Coded]) -> Coded | None:
    """One column behind the other; None where their words are not the same ones'."""
    if any(part.entries is not parts[0].entries for part in parts):
        return None
    return Coded(np.concatenate([part.code for part in parts]), parts[0].entries)


@dataclass
class Known:
    """Pages and instructions so far."""

    page: Entries = field(default_factory=Entries)
    ip: Entries = field(default_factory=Entries)


def blocks(path: Path, begin: int) -> Iterator[Block]:
    """The blocks from byte `begin` on."""
    known = Known()
    with path.open("rb") as file:
        size, at = path.stat().st_size, begin
        file.seek(begin)
        while at < size:
            head = _head(file, at, path)
            columns = file.read(int(head["bytes"]))
            if len(columns) < int(head["bytes"]):
                raise RunError("became shorter while it was read", where=str(path))
            yield Block(head, columns, known, f"{path}, byte {at}")
            at += BLOCK.itemsize + len(columns)


def _head(file: BinaryIO, at: int, path: Path) -> np.void:
    raw = file.read(BLOCK.itemsize)
    if len(raw) < BLOCK.itemsize:
        raise RunError(f"is cut short: a block's header of {len(raw)} bytes", where=f"{path}, byte {at}")
    head = np.frombuffer(raw, dtype=BLOCK)[0]
    records, flags = int(head["records"]), int(head["flags"])
    if not 1 <= records <= MOST_RECORDS or head["zero"] or int(head["bytes"]) != _bytes(head) or flags > 15:
        raise RunError("no block of a packed trace begins here", where=f"{path}, byte {at}")
    return np.void(head) if not isinstance(head, np.void) else head


def _bytes(head: np.void) -> int:
    flags = int(head["flags"])
    each = 5 + bool(flags & WIDE_PAGES) + bool(flags & WIDE_IPS) + 4 * bool(flags & THREADS)
    return 8 * (int(head["pages"]) + int(head["ips"]) + int(head["times"])) + each * int(head["records"])


class _Columns:
    """Takes one column after the other from a block's bytes."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def take(self, kind: str, n: int) -> npt.NDArray[np.unsignedinteger]:
        column: npt.NDArray[np.unsignedinteger] = np.frombuffer(self._raw, kind, n, self._at)
        self._at += column.nbytes
        return column


def _extended(ip: npt.NDArray[np.unsignedinteger]) -> Words:
    """Bit 47 copied into the bits above it."""
    return ((ip.astype(np.uint64) << np.uint64(16)).view(np.int64) >> 16).view(np.uint64)
