# SPDX-License-Identifier: MIT
"""Streams: visits that a table of strides per instruction foresees (Chen and Baer 1995), and prefetch advice from it.

An instruction (of one thread) that went the same distance twice, in pages, is expected to go it again. A visit is
`fixed` when it was expected with distance 0 (a stack), `sequential` with 1 or -1 page, `strided` with more, and
`irregular` when it was not expected. The first two visits of a stream are irregular: nothing is known then.

The advice for n visits ahead: while an instruction is in a stream, prefetch the page n of its distances on. The advice
is right when the instruction's n-th next visit is to that page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from .index import stable_order
from .tables import Batch, Finished
from .visits import Ints, Visits

KINDS = ("irregular", "fixed", "sequential", "strided")
AHEAD = (1, 4, 16)
#: Streams that are kept when there are more; short ones go first.
MOST_STREAMS = 1 << 16


@dataclass
class _Rows:
    """Visits in their order; shape (n,)."""

    key: npt.NDArray[np.uint64]  # instruction and thread, mixed
    ip: npt.NDArray[np.uint64]
    page: Ints
    time: Ints
    seen: Ints  # number of the visit
    run: Ints  # visits of the stream up to this one that were foreseen

    @property
    def size(self) -> int:
        return self.key.size


class _Sorted:
    """n visits by instruction, each one's in their order: `carried` of them, from earlier chunks, and new ones."""

    def __init__(self, carried: _Rows, visits: Visits, seen: int) -> None:
        self._carried, self._visits, self._seen = carried, visits, seen
        # User addresses have 47 bits, 56 with five levels: a thread's number moved up does not meet them by chance.
        key = visits.ip ^ visits.tid.astype(np.uint64) << np.uint64(40)
        codes, self._keys = pd.factorize(np.concatenate([carried.key, key]))
        self.order = stable_order(codes, self._keys.size)
        self.code = codes[self.order]
        self.ends = np.cumsum(np.bincount(codes))  # (instructions,) behind the last visit of each
        self.old = np.flatnonzero(self.order < carried.size)  # places of the carried ones
        self.page = np.concatenate([carried.page, visits.page.astype(np.int64)])[self.order]

    @cached_property
    def time(self) -> Ints:
        """(n,) ns."""
        time: Ints = np.concatenate([self._carried.time, self._visits.start_ns])[self.order]
        return time

    @cached_property
    def seen(self) -> Ints:
        """(n,) numbers of the visits."""
        seen = self.order + (self._seen - self._carried.size)
        seen[self.old] = self._carried.seen[self.order[self.old]]
        return seen

    def ip(self, at: npt.NDArray[np.intp]) -> npt.NDArray[np.uint64]:
        """Instructions of the visits at places `at`."""
        every: npt.NDArray[np.uint64] = np.concatenate([self._carried.ip, self._visits.ip])[self.order[at]]
        return every

    def run(self) -> Ints:
        """(old,) what was known of the carried ones."""
        run: Ints = self._carried.run[self.order[self.old]]
        return run

    def latest(self, most: int, run: Callable[[npt.NDArray[np.intp]], Ints]) -> _Rows:
        """The last `most` visits of each instruction."""
        counts = np.minimum(np.diff(self.ends, prepend=0), most)
        before = np.cumsum(counts) - counts
        at = np.arange(counts.sum()) + np.repeat(self.ends - counts - before, counts)
        at = at[np.argsort(self.seen[at], kind="stable")]
        return _Rows(self._keys[self.code[at]], self.ip(at), self.page[at], self.time[at], self.seen[at], run(at))


class Streams:
    """Classes of visits, the streams found, and what prefetch advice would have been worth."""

    def __init__(self, ahead: Sequence[int] = AHEAD) -> None:
        """`ahead`: for how many visits of an instruction ahead advice is given."""
        self._ahead = tuple(ahead)
        self._carry = max(self._ahead) + 2
        self._rows = _Rows(*(np.empty(0, dtype=kind) for kind in ("u8", "u8", "i8", "i8", "i8", "i8")))
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
        cold = batch.cold
        self._cold += cold.size
        carried = self._rows.size
        rows = _Sorted(self._rows, batch.visits, self._visits)
        first = np.zeros(carried + n, dtype=bool)
        first[carried + cold] = True
        self._feed(rows, first)
        self._visits += n

    def _feed(self, rows: _Sorted, first: npt.NDArray[np.bool_]) -> None:
        """`first`: which visits, in their own order, are the first ones to their pages."""
        stride = np.zeros(rows.page.size, dtype=np.int64)
        np.subtract(rows.page[1:], rows.page[:-1], out=stride[1:])
        expected = np.zeros(stride.size, dtype=bool)
        np.equal(stride[1:], stride[:-1], out=expected[1:])
        # The first stride of an instruction is from another one's page, and nothing is known before the second.
        begins = np.append(0, rows.ends[:-1])
        expected[begins] = False
        expected[np.minimum(begins + 1, stride.size - 1)] = False
        streaming = expected & (stride != 0)
        near = streaming & (np.abs(stride) == 1)
        counts = [np.count_nonzero(one) - np.count_nonzero(one[rows.old]) for one in (expected, streaming, near)]
        fresh = stride.size - rows.old.size
        self._kinds += [fresh - counts[0], counts[0] - counts[1], counts[2], counts[1] - counts[2]]
        self._advice[:, 0] += counts[1]
        begin = end = np.empty(0, dtype=np.intp)
        if streaming.any():
            self._advise(rows, stride, streaming, first)
            # No instruction's first visit is streaming, so a run of such rows is one instruction's.
            edges = np.flatnonzero(np.diff(streaming, prepend=False, append=False))
            begin, end = edges[::2], edges[1::2] - 1
        length = self._book_ended(rows, stride, streaming, begin, end)

        def run(at: npt.NDArray[np.intp]) -> Ints:
            number = np.searchsorted(begin, at, side="right") - 1
            values = np.zeros(at.size, dtype=np.int64)
            of = streaming[at]
            values[of] = at[of] - end[number[of]] + length[number[of]]
            return values

        # Of these the first two cannot be judged again; the rest is as it was.
        self._rows = rows.latest(self._carry, run)

    def _advise(
        self, rows: _Sorted, stride: Ints, streaming: npt.NDArray[np.bool_], first: npt.NDArray[np.bool_]
    ) -> None:
        fresh = np.ones(stride.size, dtype=bool)
        fresh[rows.old] = False
        given = np.flatnonzero(streaming)
        left = rows.ends[rows.code[given]] - given  # the instruction's visits from here on
        ahead, page = stride[given], rows.page[given]
        for row, n in zip(self._advice, self._ahead, strict=True):
            some = left > n
            then = given[some]
            right = rows.page[then + n] == page[some] + n * ahead[some]
            right &= fresh[then + n]
            then = then[right]
            now = then + n
            row[1] += then.size
            row[2] += np.count_nonzero(first[rows.order[now]])
            row[3] += (rows.seen[now] - rows.seen[then]).sum()
            row[4] += (rows.time[now] - rows.time[then]).sum()

    def _book_ended(
        self,
        rows: _Sorted,
        stride: Ints,
        streaming: npt.NDArray[np.bool_],
        begin: npt.NDArray[np.intp],
        end: npt.NDArray[np.intp],
    ) -> Ints:
        """Foreseen visits of each stream, from its first to its last place here; those that ended are booked."""
        length: Ints = end - begin + 1
        if not begin.size:
            return length
        # What carried rows knew of the part that is no longer here.
        known = rows.run()
        old, known = rows.old[streaming[rows.old] & (known > 0)], known[streaming[rows.old] & (known > 0)]
        number = np.searchsorted(begin, old, side="right") - 1
        more = np.zeros(begin.size, dtype=np.int64)
        np.maximum.at(more, number, known - (old - begin[number] + 1))
        length += more
        # The last row of an instruction may go on in the next chunk; what ended among carried rows was booked.
        carried = np.zeros(stride.size + 1, dtype=bool)
        carried[rows.old] = True
        ended = (end + 1 != rows.ends[rows.code[end]]) & ~(carried[end] & carried[end + 1])
        at = end[ended]
        self._book(rows.ip(at), rows.page[at], stride[at], length[ended], rows.time[at])
        return length

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
        rows = self._rows
        order = np.lexsort((rows.seen, rows.key))
        key, page, run = rows.key[order], rows.page[order], rows.run[order]
        last = np.flatnonzero(np.append(key[1:] != key[:-1], True)) if key.size else np.empty(0, dtype=np.intp)
        at = last[run[last] > 0]
        self._book(rows.ip[order[at]], page[at], page[at] - page[at - 1], run[at], rows.time[order[at]])

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
