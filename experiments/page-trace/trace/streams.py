# SPDX-License-Identifier: MIT
"""Streams: visits that a table of strides per instruction foresees (Chen and Baer 1995), and prefetch advice from it.

An instruction (of one thread) that went the same distance twice, in pages, is expected to go it again. A visit is
`fixed` when it was expected with distance 0 (a stack), `sequential` with 1 or -1 page, `strided` with more, and
`irregular` when it was not expected. The first two visits of a stream are irregular: nothing is known then.

The advice for n visits ahead: while an instruction is in a stream, prefetch the page n of its distances on. The advice
is right when the instruction's n-th next visit is to that page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from .index import Numbers, PageIndex, stable_order
from .tables import Batch, Finished
from .visits import Ints, Visits

KINDS = ("irregular", "fixed", "sequential", "strided")
AHEAD = (1, 4, 16)
#: Streams that are kept when there are more; short ones go first.
MOST_STREAMS = 1 << 16


class _Held:
    """The last visits of each instruction (of one thread), at most `most`.

    ip     (instructions,) uint64
    count  (instructions,) intp   how many are held
    run    (instructions,) int64  foreseen visits of the stream that the last one is in
    page, time, seen  (instructions, most) int64  the last one in the last column; what is not held has no meaning
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.index = PageIndex()  # of instructions and threads, mixed
        self.ip = np.zeros(0, dtype=np.uint64)
        self.count = np.zeros(0, dtype=np.intp)
        self.run = np.zeros(0, dtype=np.int64)
        self.page, self.time, self.seen = (np.zeros((0, most), dtype=np.int64) for _ in range(3))

    def numbers(self, visits: Visits) -> Numbers:
        """(n,) of the visits' instructions."""
        # User addresses have 47 bits, 56 with five levels: a thread's number moved up does not meet them by chance.
        index, tid = self.index, visits.tid
        if (tid == tid[0]).all():
            tid = tid[:1]
        thread = tid.astype(np.uint64) << np.uint64(40)
        coded = visits.coded("ip") if tid.size == 1 else None
        number = index.of_coded(coded, int(thread[0])) if coded else index.of(visits.ip ^ thread)
        self.ip, self.count, self.run = index.grown(self.ip), index.grown(self.count), index.grown(self.run)
        self.page, self.time, self.seen = index.grown(self.page), index.grown(self.time), index.grown(self.seen)
        return number


class _Rows:
    """m visits by instruction, each one's in their order: those held, then the n of a chunk.

    page    (m,) int64
    old     (m - n,) intp         places of those held
    number  (i,) intp             of each instruction of the chunk
    begins, fresh, ends  (i,) intp  where its rows begin, where those of the chunk begin, where both end
    """

    def __init__(self, held: _Held, visits: Visits, seen: int, cold: Numbers) -> None:
        number = held.numbers(visits)
        order = stable_order(number, len(held.index))
        ordered = number[order]
        first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        self.number = ordered[first]
        coded = visits.coded("ip")
        held.ip[self.number] = coded.at(order[first]).words() if coded else visits.ip[order[first]]
        before, counts = held.count[self.number], np.diff(first, append=order.size)
        self.ends = np.cumsum(before + counts)
        self.fresh = self.ends - counts
        self.begins = self.fresh - before
        column = np.arange(-held.most, 0)
        there = column >= -before[:, np.newaxis]
        self.old = (self.fresh[:, np.newaxis] + column)[there]
        # Of each row where its columns have it: those held, then the visits.
        self._source = np.empty(self.old.size + order.size, dtype=np.intp)
        self._source[self.old] = np.arange(self.old.size)
        self._source[np.arange(order.size) + np.repeat(self.fresh - first, counts)] = order + self.old.size
        self._page, self._time, self._seen = (
            np.concatenate([of_old[self.number][there], of_new])
            for of_old, of_new in (
                (held.page, visits.page.view(np.int64)),
                (held.time, visits.start_ns),
                (held.seen, np.arange(seen, seen + order.size)),
            )
        )
        self._cold = np.zeros(self._source.size, dtype=bool)
        self._cold[self.old.size + cold] = True
        self.page = self._page[self._source]

    def time(self, at: Numbers) -> Ints:
        """In ns, of the rows `at`."""
        time: Ints = self._time[self._source[at]]
        return time

    def seen(self, at: Numbers) -> Ints:
        """Numbers of the visits."""
        seen: Ints = self._seen[self._source[at]]
        return seen

    def cold(self, at: Numbers) -> npt.NDArray[np.bool_]:
        """Which are the first ones to their pages."""
        cold: npt.NDArray[np.bool_] = self._cold[self._source[at]]
        return cold

    def hold(self, held: _Held, runs: _Runs) -> None:
        """Keep the last ones of each instruction: two, or as many as advice was given at one of them for."""
        goes_on = runs.end + 1 == self.ends[runs.of]
        run = np.zeros(self.number.size, dtype=np.int64)
        run[runs.of[goes_on]] = runs.length[goes_on]
        advised = np.full(self.number.size, -1, dtype=np.intp)
        advised[runs.of] = runs.end  # the last one stays
        most = np.where(advised >= self.ends - held.most, held.most, 2)
        held.run[self.number] = run
        held.count[self.number] = np.minimum(self.ends - self.begins, most)
        at = np.maximum(self.ends[:, np.newaxis] + np.arange(-held.most, 0), 0)
        held.page[self.number], held.time[self.number] = self.page[at], self.time(at)
        held.seen[self.number] = self.seen(at)


@dataclass
class _Runs:
    """k runs of rows that were foreseen with a stride, each one instruction's and of one stride; shape (k,).

    begin, end  intp   its rows, the last one included
    of          intp   whose of the instructions of `_Rows`
    length      int64  foreseen visits of the stream up to `end`, those no longer held included
    """

    begin: Numbers
    end: Numbers
    of: Numbers
    length: Ints


class Streams:
    """Classes of visits, the streams found, and what prefetch advice would have been worth."""

    def __init__(self, ahead: Sequence[int] = AHEAD) -> None:
        """`ahead`: for how many visits of an instruction ahead advice is given."""
        self._ahead = tuple(ahead)
        # Of these the first two cannot be judged again; the rest is as it was.
        self._held = _Held(max(self._ahead) + 2)
        self._visits = 0
        self._cold = 0
        self._kinds = np.zeros(len(KINDS), dtype=np.int64)
        self._advice = np.zeros((len(self._ahead), 5), dtype=np.int64)  # given, right, right and cold, lead, lead ns
        self._found: list[pd.DataFrame] = []
        self._dropped = 0

    def add(self, batch: Batch) -> None:
        n = len(batch.visits)
        if not n:
            return
        rows = _Rows(self._held, batch.visits, self._visits, batch.cold)
        self._cold += batch.cold.size
        self._visits += n
        stride = np.zeros(rows.page.size, dtype=np.int64)
        np.subtract(rows.page[1:], rows.page[:-1], out=stride[1:])
        expected = np.zeros(stride.size, dtype=bool)
        np.equal(stride[1:], stride[:-1], out=expected[1:])
        # The first stride of an instruction is from another one's page, and nothing is known before the second.
        expected[rows.begins] = False
        expected[np.minimum(rows.begins + 1, stride.size - 1)] = False
        streaming = expected & (stride != 0)
        near = streaming & (np.abs(stride) == 1)
        counts = [np.count_nonzero(one) - np.count_nonzero(one[rows.old]) for one in (expected, streaming, near)]
        self._kinds += [n - counts[0], counts[0] - counts[1], counts[2], counts[1] - counts[2]]
        self._advice[:, 0] += counts[1]
        runs = self._runs(rows, streaming)
        if runs.begin.size:
            self._advise(rows, stride, np.flatnonzero(streaming), runs)
        # What ended among the rows that were held was booked; what ends with the last row may go on.
        ended = (runs.end + 1 >= rows.fresh[runs.of]) & (runs.end + 1 != rows.ends[runs.of])
        at = runs.end[ended]
        ip = self._held.ip[rows.number[runs.of[ended]]]
        self._book(ip, rows.page[at], stride[at], runs.length[ended], rows.time(at))
        rows.hold(self._held, runs)

    def _runs(self, rows: _Rows, streaming: npt.NDArray[np.bool_]) -> _Runs:
        # No instruction's first visit is streaming, so a run is one instruction's.
        edges = np.flatnonzero(np.diff(streaming, prepend=False, append=False))
        begin, end = edges[::2], edges[1::2] - 1
        of = np.searchsorted(rows.begins, end, side="right") - 1
        # What was known of the last row held, if it is in the run.
        fresh, known = rows.fresh[of], self._held.run[rows.number[of]]
        earlier = np.where((begin < fresh) & (fresh <= end + 1), known - (fresh - begin), 0)
        return _Runs(begin, end, of, end - begin + 1 + earlier)

    def _advise(self, rows: _Rows, stride: Ints, given: Numbers, runs: _Runs) -> None:
        fresh, ends, behind = rows.fresh[runs.of], rows.ends[runs.of], runs.end + 1
        cold, seen, time = (np.append(0, np.cumsum(column(given))) for column in (rows.cold, rows.seen, rows.time))
        shift = np.cumsum(behind - runs.begin) - behind  # from a row to its place in `given`
        for row, n in zip(self._advice, self._ahead, strict=True):
            # Within a run all are right.
            begin, end = np.maximum(runs.begin, fresh - n), behind - n
            some = end > begin
            begin, end = (begin + shift)[some], (end + shift)[some]
            row[1] += (end - begin).sum()
            row[2] += (cold[end + n] - cold[begin + n]).sum()
            # A sum of times may overflow, once here and once there; their difference does not.
            for column, sums in ((3, seen), (4, time)):
                row[column] += ((sums[end + n] - sums[begin + n]) - (sums[end] - sums[begin])).sum()
            # Behind its last row the pages tell.
            begin, end = np.maximum(runs.begin, np.maximum(fresh, behind) - n), np.minimum(behind, ends - n)
            then = _rows_of(begin, end)
            then = then[rows.page[then + n] - rows.page[then] == n * stride[then]]
            row[1] += then.size
            row[2] += np.count_nonzero(rows.cold(then + n))
            row[3] += (rows.seen(then + n) - rows.seen(then)).sum()
            row[4] += (rows.time(then + n) - rows.time(then)).sum()

    def _book(self, ip: npt.NDArray[np.uint64], page: Ints, stride: Ints, run: Ints, time: Ints) -> None:
        """Streams that have ended, shape (m,): the last visit, and how many were foreseen."""
        if not run.size:
            return
        length = run + 2
        base = (page - stride * (length - 1)).astype(np.uint64)
        self._found.append(pd.DataFrame({"ip": ip, "base": base, "stride": stride, "length": length, "end_ns": time}))
        if sum(map(len, self._found)) > 2 * MOST_STREAMS:
            every = self._together()
            self._dropped += len(every) - MOST_STREAMS
            self._found = [every.iloc[:MOST_STREAMS]]

    def _together(self) -> pd.DataFrame:
        empty = {"ip": "uint64", "base": "uint64", "stride": "int64", "length": "int64", "end_ns": "int64"}
        every = pd.concat([pd.DataFrame({k: pd.Series(dtype=v) for k, v in empty.items()}), *self._found])
        return every.sort_values(["length", "end_ns"], ascending=[False, True], kind="stable", ignore_index=True)

    def close(self, rest: Finished) -> None:
        held = self._held
        at = np.flatnonzero(held.run > 0)
        page = held.page[at, -1]
        self._book(held.ip[at], page, page - held.page[at, -2], held.run[at], held.time[at, -1])

    def frame(self) -> pd.DataFrame:
        """Streams, longest first: ip uint64, base uint64 (page of the first visit), stride int64 (pages), length int64
        (visits, from 3 on), end_ns int64 (begin of the last visit). At most MOST_STREAMS; `dropped` others were short.
        """
        return self._together()

    @property
    def dropped(self) -> int:
        """Streams that `frame` leaves out."""
        return self._dropped

    def kinds(self) -> pd.DataFrame:
        """One row per kind of visit: kind, visits int64, share float64 (NaN when there are no visits)."""
        share = self._kinds / self._visits if self._visits else np.full(len(KINDS), np.nan)
        return pd.DataFrame({"kind": list(KINDS), "visits": self._kinds, "share": share})

    def advice(self) -> pd.DataFrame:
        """What the advice was worth, one row per distance: ahead int64, given int64 (one at each visit in a stream),
        right int64, accuracy float64 (right of given), coverage float64 (right of all visits), cold_coverage float64
        (of first visits of pages), lead_visits and lead_ns float64 (mean over the right ones: all visits, and time,
        between the advice and the visit). NaN where there is nothing to divide by.
        """
        given, right, cold, lead, lead_ns = self._advice.T
        return pd.DataFrame(
            {
                "ahead": np.array(self._ahead, dtype=np.int64),
                "given": given,
                "right": right,
                "accuracy": _ratio(right, given),
                "coverage": _ratio(right, self._visits),
                "cold_coverage": _ratio(cold, self._cold),
                "lead_visits": _ratio(lead, right),
                "lead_ns": _ratio(lead_ns, right),
            }
        )


def _ratio(part: Ints, of: Ints | int) -> npt.NDArray[np.float64]:
    whole = np.broadcast_to(np.asarray(of, dtype=np.float64), part.shape)
    ratio = np.full(part.shape, np.nan)
    np.divide(part, whole, out=ratio, where=whole > 0)
    return ratio


def _rows_of(begin: Numbers, end: Numbers) -> Numbers:
    """All from each `begin` up to its `end`, none where that is not above it."""
    counts = np.maximum(end - begin, 0)
    rows: Numbers = np.arange(counts.sum()) + np.repeat(begin - (np.cumsum(counts) - counts), counts)
    return rows
