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

from .index import stable_order
from .tables import Batch, Finished
from .visits import Ints

KINDS = ("irregular", "fixed", "sequential", "strided")
AHEAD = (1, 4, 16)
#: Streams that are kept when there are more; short ones go first.
MOST_STREAMS = 1 << 16


@dataclass
class _Rows:
    """Visits of all instructions, in the order of the visits; shape (n,)."""

    key: npt.NDArray[np.uint64]  # instruction and thread, mixed
    ip: npt.NDArray[np.uint64]
    page: Ints
    time: Ints
    seen: Ints  # number of the visit
    cold: npt.NDArray[np.bool_]  # first visit to the page
    run: Ints  # visits of the stream up to this one that were foreseen; of carried rows only

    def take(self, places: npt.NDArray[np.intp]) -> _Rows:
        return _Rows(*(getattr(self, name)[places] for name in _FIELDS))

    def behind(self, other: _Rows) -> _Rows:
        return _Rows(*(np.concatenate([getattr(other, name), getattr(self, name)]) for name in _FIELDS))


_FIELDS = ("key", "ip", "page", "time", "seen", "cold", "run")


class Streams:
    """Classes of visits, the streams found, and what prefetch advice would have been worth."""

    def __init__(self, ahead: Sequence[int] = AHEAD) -> None:
        """`ahead`: for how many visits of an instruction ahead advice is given."""
        self._ahead = tuple(ahead)
        self._carry = max(self._ahead) + 2
        self._rows = _Rows(*(np.empty(0, dtype=kind) for kind in ("u8", "u8", "i8", "i8", "i8", "?", "i8")))
        self._visits = 0
        self._cold = 0
        self._kinds = np.zeros(len(KINDS), dtype=np.int64)
        self._advice = np.zeros((len(self._ahead), 5), dtype=np.int64)  # given, right, right and cold, lead, lead ns
        self._found: list[pd.DataFrame] = []
        self._dropped = 0

    def add(self, batch: Batch) -> None:
        visits = batch.visits
        n = len(visits)
        if not n:
            return
        cold = np.zeros(n, dtype=bool)
        groups = batch.groups
        cold[groups.order[groups.first[groups.numbers >= batch.known]]] = True
        self._cold += int(cold.sum())
        # User addresses have 47 bits, 56 with five levels: a thread's number moved up does not meet them by chance.
        key = visits.ip ^ visits.tid.astype(np.uint64) << np.uint64(40)
        seen = np.arange(self._visits, self._visits + n)
        new = _Rows(
            key, visits.ip, visits.page.astype(np.int64), visits.start_ns, seen, cold, np.zeros(n, dtype=np.int64)
        )
        self._feed(new.behind(self._rows), self._rows.key.size)
        self._visits += n

    def _feed(self, rows: _Rows, carried: int) -> None:
        codes, keys = pd.factorize(rows.key)
        order = stable_order(codes, keys.size)
        rows, fresh = rows.take(order), order >= carried
        code = codes[order]
        ends = np.cumsum(np.bincount(codes))
        since = np.arange(code.size) - np.append(0, ends[:-1])[code]  # visits of the instruction before, here
        stride = np.zeros(code.size, dtype=np.int64)
        np.subtract(rows.page[1:], rows.page[:-1], out=stride[1:])
        expected = np.zeros(code.size, dtype=bool)
        expected[1:] = (stride[1:] == stride[:-1]) & (since[1:] >= 2)
        kind = np.where(~expected, 0, np.where(stride == 0, 1, np.where(np.abs(stride) == 1, 2, 3)))
        self._kinds += np.bincount(kind[fresh], minlength=len(KINDS))
        # Of carried rows the first two cannot be judged again; the rest is as it was.
        streaming = kind >= 2
        self._advise(rows, stride, streaming, since, fresh)
        run = self._runs(rows, stride, streaming, fresh, code)
        rows.run = run
        last = ends[code] - 1 - np.arange(code.size) < self._carry
        kept = rows.take(np.flatnonzero(last))
        self._rows = kept.take(np.argsort(kept.seen, kind="stable"))

    def _advise(
        self, rows: _Rows, stride: Ints, streaming: npt.NDArray[np.bool_], since: Ints, fresh: npt.NDArray[np.bool_]
    ) -> None:
        for row, n in zip(self._advice, self._ahead, strict=True):
            row[0] += np.count_nonzero(streaming & fresh)
            if streaming.size <= n:
                continue
            then, now = slice(None, -n), slice(n, None)
            right = streaming[then] & fresh[now] & (since[now] >= n)
            right &= rows.page[now] == rows.page[then] + n * stride[then]
            row[1] += np.count_nonzero(right)
            row[2] += np.count_nonzero(right & rows.cold[now])
            row[3] += int((rows.seen[now] - rows.seen[then])[right].sum())
            row[4] += int((rows.time[now] - rows.time[then])[right].sum())

    def _runs(
        self,
        rows: _Rows,
        stride: Ints,
        streaming: npt.NDArray[np.bool_],
        fresh: npt.NDArray[np.bool_],
        code: npt.NDArray[np.intp],
    ) -> Ints:
        """Foreseen visits of the stream up to each row; streams that end here are booked."""
        n = code.size
        # A run of rows that belong together: one instruction, all streaming. Another stride interrupts it by itself.
        goes_on = np.zeros(n, dtype=bool)
        goes_on[1:] = streaming[1:] & streaming[:-1] & (code[1:] == code[:-1])
        begins = np.flatnonzero(streaming & ~goes_on)
        number = np.cumsum(streaming & ~goes_on) - 1
        place = np.arange(n)
        run = np.zeros(n, dtype=np.int64)
        if not begins.size:
            return run
        run[streaming] = (place - begins[np.maximum(number, 0)] + 1)[streaming]
        # What carried rows knew of the part that is no longer here.
        carried = streaming & ~fresh & (rows.run > 0)
        if carried.any():
            more = np.zeros(begins.size, dtype=np.int64)
            np.maximum.at(more, number[carried], (rows.run - run)[carried])
            run[streaming] += more[number[streaming]]
        ends = streaming.copy()
        ends[:-1] &= ~goes_on[1:]
        # The last row of an instruction may go on in the next chunk.
        ends[:-1] &= code[1:] == code[:-1]
        ends[-1] = False
        self._book(rows, stride, run, np.flatnonzero(ends & (fresh | np.append(fresh[1:], False))))
        return run

    def _book(self, rows: _Rows, stride: Ints, run: Ints, at: npt.NDArray[np.intp]) -> None:
        if not at.size:
            return
        length = run[at] + 2
        self._found.append(
            pd.DataFrame(
                {
                    "ip": rows.ip[at],
                    "base": (rows.page[at] - stride[at] * (length - 1)).astype(np.uint64),
                    "stride": stride[at],
                    "length": length,
                    "end_ns": rows.time[at],
                }
            )
        )
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
        rows = rows.take(order)
        last = np.append(rows.key[1:] != rows.key[:-1], True) if rows.key.size else np.empty(0, dtype=bool)
        stride = np.append(0, np.diff(rows.page)) if rows.key.size else rows.page
        self._book(rows, stride, rows.run, np.flatnonzero(last & (rows.run > 0)))

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
