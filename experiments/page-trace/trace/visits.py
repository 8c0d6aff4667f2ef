# SPDX-License-Identifier: MIT
"""Records into visits: a thread's consecutive records of one page are one visit.

A visit lasts until the thread's next one, its exec or its exit. What a visit lasted is known only then, so a row tells
of the visit that begins and of the one that it ends. Rows stay in the order of the records, whatever thread they
belong to. A LOST record breaks all threads: what was lost is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from .index import stable_order
from .packed import Coded
from .records import CODE, LOST, VISIT, Flags, Records, Words

#: No page: nothing is known of the thread before, or it was not there.
NO_PAGE = np.uint64(0xFFFF_FFFF_FFFF_FFFF)

Ints = npt.NDArray[np.int64]
#: `slice(None)` where it is all of them.
Places = npt.NDArray[np.intp] | slice
Ended = tuple[Words, Ints, Ints, npt.NDArray[np.uint32]]


class _Left(Protocol):
    """Of n visits, shape (n,): the page that the thread left, and how long it had been there."""

    @property
    def left(self) -> Words: ...

    @property
    def left_ns(self) -> Ints: ...


class Visits:
    """n visits in the order in which they began; arrays of shape (n,), made when they are asked for.

    start_ns  int64   since the start of the trace
    page      uint64  page number
    write     bool    it begins with a write
    kernel    bool    it begins with an access by the kernel
    ip        uint64  of the access that began it
    tid       uint32
    left      uint64  page of the thread's visit before, which ends here; NO_PAGE: none, or unknown after a loss
    left_ns   int64   how long that one was, 0 where there is none

    And of the m visits that an exec or an exit ended, arrays of shape (m,):
    ended     uint64  page number
    ended_ns  int64   how long it was
    ended_start_ns  int64
    ended_tid       uint32
    """

    def __init__(self, records: Records, at: Places, left: _Left, ended: Ended | None = None) -> None:
        """Those that begin at the places `at` of `records`."""
        self._records, self._at, self._left = records, at, left
        self.page = records.page[at]
        self.ended, self.ended_ns, self.ended_start_ns, self.ended_tid = ended or _NO_ENDS

    def __len__(self) -> int:
        return int(self.page.size)

    @cached_property
    def start_ns(self) -> Ints:
        return self._records.time_ns[self._at]

    @cached_property
    def write(self) -> Flags:
        return self._records.write[self._at]

    @cached_property
    def kernel(self) -> Flags:
        return self._records.kernel[self._at]

    @cached_property
    def ip(self) -> Words:
        return self._records.ip[self._at]

    @cached_property
    def tid(self) -> npt.NDArray[np.uint32]:
        return self._records.tid[self._at]

    def coded(self, column: str) -> Coded | None:
        """As of `Records`."""
        coded = self._records.coded(column)
        return coded and coded.at(self._at)

    @property
    def left(self) -> Words:
        return self._left.left

    @property
    def left_ns(self) -> Ints:
        return self._left.left_ns


@dataclass
class _Thread:
    """Where a thread is: page, since when, and how many losses there had been."""

    page: np.uint64
    since: int
    epoch: int


class VisitStream:
    """Makes visits of chunks of records; keeps a few numbers per thread."""

    def __init__(self) -> None:
        self._threads: dict[int, _Thread] = {}
        self._epoch = 0

    def feed(self, records: Records) -> Visits:
        """The visits that begin in the next chunk of the trace."""
        epoch: Ints | int = self._epoch
        kind, page = records.type, None
        if kind.any():
            lost = kind == LOST
            counted = self._epoch + np.cumsum(lost, dtype=np.int64)
            self._epoch = int(counted[-1])
            kept = ~lost & (kind != CODE)
            records, epoch = records.where(kept), counted[kept]
            page = np.where(records.type == VISIT, records.page, NO_PAGE)
        if not len(records):
            return _nothing()
        whole = records.page if page is None else page
        at: Places
        left: _Left
        if (records.tid == records.tid[0]).all():
            at, left = self._thread(int(records.tid[0]), records.time_ns, whole, epoch)
        else:
            at, left = self._threaded(records, whole, np.broadcast_to(np.asarray(epoch), whole.shape))
        return Visits(records, at, left) if page is None else _without_page(records, page, at, left)

    def unfinished(self) -> tuple[Words, Ints]:
        """Pages that threads are still at, and since when."""
        still = [thread for thread in self._threads.values() if thread.page != NO_PAGE]
        return (
            np.array([thread.page for thread in still], dtype=np.uint64),
            np.array([thread.since for thread in still], dtype=np.int64),
        )

    def _threaded(self, records: Records, page: Words, epoch: Ints) -> tuple[Places, _Told]:
        codes, tids = pd.factorize(records.tid)
        order = stable_order(codes, tids.size)
        bounds = np.cumsum(np.bincount(codes))[:-1]
        parts = []
        for tid, places in zip(tids.tolist(), np.split(order, bounds), strict=True):
            at, of = self._thread(int(tid), records.time_ns[places], page[places], epoch[places])
            parts.append((places[at], of.left, of.left_ns))
        at, left, left_ns = (np.concatenate(column) for column in zip(*parts, strict=True))
        back = np.full(page.size, -1)
        back[at] = np.arange(at.size)
        back = back[back >= 0]
        return at[back], _Told(left[back], left_ns[back])

    def _thread(self, tid: int, time: Ints, page: Words, epoch: Ints | int) -> tuple[Places, _OfThread]:
        """Where one thread's visits (or NO_PAGE) begin, and what it left there."""
        first_epoch, last_epoch = (epoch, epoch) if isinstance(epoch, int) else (int(epoch[0]), int(epoch[-1]))
        known = self._threads.get(tid) or _Thread(NO_PAGE, 0, first_epoch)
        begins = np.empty(page.size, dtype=bool)
        begins[0] = page[0] != known.page or first_epoch != known.epoch
        np.not_equal(page[1:], page[:-1], out=begins[1:])
        broken = None
        if first_epoch != last_epoch or first_epoch != known.epoch:
            epochs = np.broadcast_to(np.asarray(epoch), page.shape)
            broken = np.concatenate([[first_epoch != known.epoch], epochs[1:] != epochs[:-1]])
            begins |= broken
        # Each record begins a visit, almost everywhere: then nothing is copied.
        at = slice(None) if begins.all() else np.flatnonzero(begins)
        starts = time[at]
        if starts.size:
            self._threads[tid] = _Thread(page[-1], int(starts[-1]), last_epoch)
        return at, _OfThread(known, starts, page[at], None if broken is None else broken[at])


@dataclass
class _Told:
    left: Words
    left_ns: Ints


@dataclass
class _OfThread:
    """The same of one thread's visits: it was at `before`, and the `broken` ones come after a loss."""

    before: _Thread
    starts: Ints
    page: Words
    broken: Flags | None

    @cached_property
    def left(self) -> Words:
        left = np.empty(self.page.size, dtype=np.uint64)
        left[:1] = self.before.page
        left[1:] = self.page[:-1]
        if self.broken is not None:
            left[self.broken] = NO_PAGE
        return left

    @cached_property
    def left_ns(self) -> Ints:
        left_ns = np.empty(self.starts.size, dtype=np.int64)
        left_ns[:1] = self.starts[:1] - self.before.since
        np.subtract(self.starts[1:], self.starts[:-1], out=left_ns[1:])
        left_ns[self.left == NO_PAGE] = 0
        return np.maximum(left_ns, 0, out=left_ns)


def visits(chunks: Iterable[Records]) -> Iterator[Visits]:
    """All visits of a trace, chunk by chunk."""
    stream = VisitStream()
    for records in chunks:
        yield stream.feed(records)


def visit_table(chunks: Iterable[Visits], most: int = 1 << 20) -> pd.DataFrame:
    """The first `most` visits as a table: start_ns, dwell_ns (float64, NaN where the end is not known), page, write,
    kernel, tid. For long traces take the summaries: a row takes 34 bytes.
    """
    parts, ends, rows = [_frame(_nothing())], [_ends(_nothing())], 0
    for chunk in chunks:
        parts.append(_frame(chunk))
        ends.append(_ends(chunk))
        rows += len(chunk)
        if rows > most:
            break
    table = pd.concat(parts, ignore_index=True)
    behind = table.groupby("tid", sort=False)[["left_ns", "left"]].shift(-1)
    told = behind["left"].notna() & (behind["left"] != NO_PAGE)
    table["dwell_ns"] = behind["left_ns"].astype(np.float64).where(told)
    table = table.merge(pd.concat(ends, ignore_index=True), on=["tid", "start_ns"], how="left")
    table["dwell_ns"] = table["dwell_ns"].fillna(table["ended_ns"].astype(np.float64))
    return table[["start_ns", "dwell_ns", "page", "write", "kernel", "tid"]].iloc[:most]


def _frame(chunk: Visits) -> pd.DataFrame:
    names = ("start_ns", "page", "write", "kernel", "tid", "left", "left_ns")
    return pd.DataFrame({name: getattr(chunk, name) for name in names})


def _ends(chunk: Visits) -> pd.DataFrame:
    return pd.DataFrame({"tid": chunk.ended_tid, "start_ns": chunk.ended_start_ns, "ended_ns": chunk.ended_ns})


def _without_page(records: Records, page: Words, at: Places, of: _Left) -> Visits:
    """The visits of a chunk; those without a page only end the visit before."""
    begun, left, left_ns = page[at], of.left, of.left_ns
    outs = begun == NO_PAGE
    ends = outs & (left != NO_PAGE)
    ended_ns = left_ns[ends]
    ended = (left[ends], ended_ns, records.time_ns[at][ends] - ended_ns, records.tid[at][ends])
    if outs.any():
        places, stay = np.arange(page.size)[at], ~outs
        return Visits(records, places[stay], _Told(left[stay], left_ns[stay]), ended)
    return Visits(records, at, of, ended)


_NO_ENDS: Ended = (np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint32))


def _nothing() -> Visits:
    words, ints, _, tids = _NO_ENDS
    none = np.empty(0, bool)
    records = Records(ints, words, none, none, none, words, tids, np.empty(0, np.uint8))
    return Visits(records, slice(None), _Told(words, ints))
