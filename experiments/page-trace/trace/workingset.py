# SPDX-License-Identifier: MIT
"""The working set (Denning 1968): the pages in use within the last tau.

A page is in use from the begin of a visit to its end, so it is in W(t, tau) when one of its visits meets (t - tau, t].
With several threads a visit counts when it has ended; overlapping visits of one page then begin with the one that
ended first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from .tables import Batch, Finished
from .visits import Ints

#: Four taus an octave, from 1 µs to 18 minutes.
TAUS = np.unique(np.round(1000 * 2.0 ** np.arange(0, 30.25, 0.25)).astype(np.int64))


class _Gaps:
    """When each page was last in use: tells how long pages had not been."""

    def __init__(self) -> None:
        self.end = np.full(1024, -1, dtype=np.int64)

    def feed(self, finished: Finished) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
        """Of each finished visit, sorted by page: begin, end of the page's use before, whether there was none."""
        groups = finished.groups
        self.end = finished.index.grown(self.end, -1)
        begin, end = finished.begin_ns.take(groups.order), finished.end_ns.take(groups.order)
        before = np.empty_like(end)
        before[1:] = end[:-1]
        before[groups.first] = self.end[groups.numbers]
        self.end[groups.numbers] = end[groups.last]
        return begin, before, before < 0


class WorkingSet:
    """The number of pages in the working set at the ends of equal intervals, for given taus."""

    def __init__(self, interval_ns: int, intervals: int, taus: Sequence[int]) -> None:
        """`intervals` of `interval_ns` from time 0 on (`Trace.last_ns` tells how many); later ones are not counted.

        With tau = interval_ns this is the number of distinct pages in each interval.
        """
        self._step = interval_ns
        self._taus = list(taus)
        self._change = np.zeros((len(self._taus), intervals + 2), dtype=np.int64)
        self._gaps = _Gaps()

    def add(self, batch: Batch) -> None:
        self.feed(batch.finished)

    def feed(self, finished: Finished) -> None:
        """Count visits that ended."""
        if not finished.number.size:
            return
        begin, before, cold = self._gaps.feed(finished)
        gap = begin - before
        for row, tau in zip(self._change, self._taus, strict=True):
            gone = ~cold & (gap >= tau)
            self._count(row, begin[gone | cold], 1)
            self._count(row, before[gone] + tau, -1)

    def _count(self, row: Ints, times: Ints, change: int) -> None:
        # In force at the first end of an interval that is not before.
        at = np.minimum(-(-times // self._step), row.size - 1)
        row += change * np.bincount(at, minlength=row.size)

    def close(self, rest: Finished) -> None:
        self.feed(rest)
        end = self._gaps.end[self._gaps.end >= 0]
        for row, tau in zip(self._change, self._taus, strict=True):
            self._count(row, end + tau, -1)

    def frame(self) -> pd.DataFrame:
        """One row per tau and interval: tau_ns int64, end_ns int64 (end of the interval), pages int64."""
        rows = np.cumsum(self._change, axis=1)[:, 1:-1]
        ends = np.arange(1, rows.shape[1] + 1, dtype=np.int64) * self._step
        return pd.DataFrame(
            {
                "tau_ns": np.repeat(np.array(self._taus, dtype=np.int64), ends.size),
                "end_ns": np.tile(ends, len(self._taus)),
                "pages": rows.reshape(-1),
            }
        )


class WorkingSetCurve:
    """The mean size of the working set, and the share of visits that find their page outside of it, against tau."""

    def __init__(self) -> None:
        self._gaps = _Gaps()
        self._count = np.zeros(TAUS.size + 1, dtype=np.int64)
        self._sum = np.zeros(TAUS.size + 1, dtype=np.float64)
        self._used = 0
        self._visits = 0
        self._begin: int | None = None
        self._end = 0

    def add(self, batch: Batch) -> None:
        self._feed(batch.finished)

    def _feed(self, finished: Finished) -> None:
        if not finished.number.size:
            return
        begin, before, cold = self._gaps.feed(finished)
        first = int(begin.min())
        self._begin = first if self._begin is None else min(self._begin, first)
        self._end = max(self._end, int(finished.end_ns.max()))
        self._used += int((finished.end_ns - finished.begin_ns).sum())
        self._visits += begin.size
        self._gap(np.maximum(begin - before, 0)[~cold])

    def _gap(self, gap: Ints) -> None:
        slot = np.searchsorted(TAUS, gap, side="left")
        self._count += np.bincount(slot, minlength=self._count.size)
        self._sum += np.bincount(slot, weights=gap, minlength=self._sum.size)

    def close(self, rest: Finished) -> None:
        self._feed(rest)
        self._reused = self._count.copy()
        end = self._gaps.end[self._gaps.end >= 0]
        self._gap(self._end - end)

    def frame(self) -> pd.DataFrame:
        """One row per tau: tau_ns int64, mean_pages float64 (over the time from the first visit to the end), missed
        float64 (share of visits whose page had not been in use for longer than tau, first visits included).
        """
        below = np.cumsum(self._sum)[:-1]
        above = self._count.sum() - np.cumsum(self._count)[:-1]
        span = self._end - (self._begin or 0)
        known = self._visits > 0 and span > 0
        mean = (self._used + below + above * TAUS) / span if known else np.full(TAUS.size, np.nan)
        missed = 1 - np.cumsum(self._reused)[:-1] / self._visits if known else np.full(TAUS.size, np.nan)
        return pd.DataFrame({"tau_ns": TAUS, "mean_pages": mean, "missed": missed})
