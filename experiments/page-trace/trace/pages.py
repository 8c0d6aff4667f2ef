# SPDX-License-Identifier: MIT
"""What happened to each page."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .index import PageIndex
from .tables import Batch, Finished


class PageTable:
    """Visits and dwell time by page."""

    def __init__(self) -> None:
        self._index = PageIndex()
        self._sums = np.zeros((1024, 4), dtype=np.int64)  # visits, writes, kernel's, finished
        self._dwell = np.zeros((1024, 2), dtype=np.int64)  # total, longest
        self._first = np.full(1024, np.iinfo(np.int64).max)
        self._last = np.zeros(1024, dtype=np.int64)

    def add(self, batch: Batch) -> None:
        index = self._index = batch.index
        self._grow()
        groups, visits = batch.groups, batch.visits
        if len(visits):
            order, numbers = groups.order, groups.numbers
            self._sums[numbers, 0] += groups.counts
            self._sums[numbers, 1] += groups.sums(visits.write)
            if visits.kernel.any():
                self._sums[numbers, 2] += groups.sums(visits.kernel)
            self._first[numbers] = np.minimum(self._first[numbers], visits.start_ns[order[groups.first]])
            self._last[numbers] = np.maximum(self._last[numbers], visits.start_ns[order[groups.last]])
        self._ends(batch.finished)
        assert len(index) <= len(self._sums)

    def _grow(self) -> None:
        self._sums = self._index.grown(self._sums)
        self._dwell = self._index.grown(self._dwell)
        self._first = self._index.grown(self._first, np.iinfo(np.int64).max)
        self._last = self._index.grown(self._last)

    def _ends(self, finished: Finished) -> None:
        groups = finished.groups
        if not groups.numbers.size:
            return
        lasted = finished.end_ns - finished.begin_ns
        numbers = groups.numbers
        self._sums[numbers, 3] += groups.counts
        self._dwell[numbers, 0] += groups.sums(lasted)
        self._dwell[numbers, 1] = np.maximum(
            self._dwell[numbers, 1], np.maximum.reduceat(lasted.take(groups.order), groups.first)
        )

    def close(self, rest: Finished) -> None:
        self._ends(rest)

    def frame(self) -> pd.DataFrame:
        """One row per page, by page: page uint64, visits, writes, kernel (visits that begin so) int64, dwell_ns,
        dwell_max_ns, first_ns, last_ns int64 (begin of the first and the last visit), dwell_mean_ns float64 (NaN when
        no visit's length is known: the others were cut off by a loss).
        """
        n = len(self._index)
        sums, dwell = self._sums[:n], self._dwell[:n]
        mean = np.full(n, np.nan)
        np.divide(dwell[:, 0], sums[:, 3], out=mean, where=sums[:, 3] > 0)
        frame = pd.DataFrame(
            {
                "page": self._index.pages(),
                "visits": sums[:, 0],
                "writes": sums[:, 1],
                "kernel": sums[:, 2],
                "dwell_ns": dwell[:, 0],
                "dwell_mean_ns": mean,
                "dwell_max_ns": dwell[:, 1],
                "first_ns": self._first[:n],
                "last_ns": self._last[:n],
            }
        )
        return frame.sort_values("page", ignore_index=True)
