# SPDX-License-Identifier: MIT
"""Records into visits: a thread's consecutive records of one page are one visit.

A visit lasts until the thread's next one, its exec or its exit. What a visit lasted is known only then, so a row tells
of the visit that begins and of the one that it ends. Rows stay in the order of the records, whatever thread they
belong to. A LOST record breaks all threads: what was lost is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from .records import CODE, LOST, VISIT, Flags, Records, Words

#: No page: nothing is known of the thread before, or it was not there.
NO_PAGE = np.uint64(0xFFFF_FFFF_FFFF_FFFF)

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Visits:
    """n visits in the order in which they began; arrays of shape (n,).

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

    start_ns: Ints
    page: Words
    write: Flags
    kernel: Flags
    ip: Words
    tid: npt.NDArray[np.uint32]
    left: Words
    left_ns: Ints
    ended: Words
    ended_ns: Ints
    ended_start_ns: Ints
    ended_tid: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return int(self.page.size)


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
        kind = records.type
        if kind.any():
            lost = kind == LOST
            counted = self._epoch + np.cumsum(lost, dtype=np.int64)
            self._epoch = int(counted[-1])
            kept = ~lost & (kind != CODE)
            records, epoch = records.where(kept), counted[kept]
            page = np.where(records.type == VISIT, records.page, NO_PAGE)
        else:
            page = records.page
        if not page.size:
            return _rows(records, page, np.empty(0, np.intp), page, np.empty(0, np.int64))
        if (records.tid == records.tid[0]).all():
            at, left, left_ns = self._thread(int(records.tid[0]), records.time_ns, page, epoch)
            return _rows(records, page, at, left, left_ns)
        return self._threaded(records, page, np.broadcast_to(np.asarray(epoch), page.shape))

    def unfinished(self) -> tuple[Words, Ints]:
        """Pages that threads are still at, and since when."""
        still = [thread for thread in self._threads.values() if thread.page != NO_PAGE]
        return (
            np.array([thread.page for thread in still], dtype=np.uint64),
            np.array([thread.since for thread in still], dtype=np.int64),
        )

    def _threaded(self, records: Records, page: Words, epoch: Ints) -> Visits:
        codes, tids = pd.factorize(records.tid)
        # 16 bits are sorted by radix; no machine runs more threads than that within one chunk.
        order = np.argsort(codes.astype(np.uint16) if tids.size <= 1 << 16 else codes, kind="stable")
        bounds = np.cumsum(np.bincount(codes))[:-1]
        parts = []
        for tid, places in zip(tids.tolist(), np.split(order, bounds), strict=True):
            at, left, left_ns = self._thread(int(tid), records.time_ns[places], page[places], epoch[places])
            parts.append((places[at], left, left_ns))
        at, left, left_ns = (np.concatenate(column) for column in zip(*parts, strict=True))
        back = np.argsort(at)
        return _rows(records, page, at[back], left[back], left_ns[back])

    def _thread(self, tid: int, time: Ints, page: Words, epoch: Ints | int) -> tuple[npt.NDArray[np.intp], Words, Ints]:
        """One thread's rows: where visits (or NO_PAGE) begin, the page left there, how long it had been visited."""
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
        at = np.flatnonzero(begins)
        if not at.size:
            return at, page[:0], time[:0]
        every = at.size == page.size
        starts, begun = (time, page) if every else (time[at], page[at])
        left = np.empty(at.size, dtype=np.uint64)
        left_ns = np.empty(at.size, dtype=np.int64)
        left[0], left_ns[0] = known.page, starts[0] - known.since
        left[1:] = begun[:-1]
        np.subtract(starts[1:], starts[:-1], out=left_ns[1:])
        if broken is not None:
            left[broken[at]] = NO_PAGE
        left_ns[left == NO_PAGE] = 0
        self._threads[tid] = _Thread(page[-1], int(starts[-1]), last_epoch)
        return at, left, np.maximum(left_ns, 0, out=left_ns)


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


def _rows(records: Records, page: Words, at: npt.NDArray[np.intp], left: Words, left_ns: Ints) -> Visits:
    """Rows of a chunk at positions `at`; those without a page only end the visit before."""
    if at.size == page.size and not (page == NO_PAGE).any():
        # Each record begins a visit, as almost everywhere: nothing is copied.
        return Visits(
            records.time_ns, page, records.write, records.kernel, records.ip, records.tid, left, left_ns, *_NO_ENDS
        )
    outs = page[at] == NO_PAGE if at.size else np.empty(0, dtype=bool)
    ends = outs & (left != NO_PAGE)
    time, tid, ended_ns = records.time_ns[at], records.tid[at], left_ns[ends]
    ended = (left[ends], ended_ns, time[ends] - ended_ns, tid[ends])
    if outs.any():
        at, left, left_ns = at[~outs], left[~outs], left_ns[~outs]
        time, tid = time[~outs], tid[~outs]
    return Visits(time, page[at], records.write[at], records.kernel[at], records.ip[at], tid, left, left_ns, *ended)


_NO_ENDS = (np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint32))


def _nothing() -> Visits:
    words, ints, _, tids = _NO_ENDS
    none = np.empty(0, bool)
    return Visits(ints, words, none, none, words, tids, words, ints, *_NO_ENDS)
