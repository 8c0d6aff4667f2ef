# SPDX-License-Identifier: MIT
"""The access model as a picture's data: visits by interval of time and by page, or by groups of pages where there are
too many.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from .index import Groups
from .records import Words
from .tables import Batch, Finished
from .visits import Ints

MOST_CELLS = 1 << 18


class AccessMap:
    """Counts visits in cells of interval and pages; to stay in bounds, pages are grouped by growing powers of two."""

    def __init__(self, interval_ns: int, intervals: int, most: int = MOST_CELLS) -> None:
        """`intervals` of `interval_ns` from time 0 on; later visits count in the last. At most 65535."""
        if not 1 <= intervals < 1 << 16:
            raise ValueError(f"{intervals} intervals")
        self._step, self._intervals, self._most = interval_ns, intervals, most
        self._shift = 0
        self._cells: Words = np.empty(0, dtype=np.uint64)  # pages << 16 | interval
        self._counts: Ints = np.empty((0, 2), dtype=np.int64)  # visits, writes
        self._waiting: list[tuple[Words, Ints]] = []
        self._gathered = 0

    def add(self, batch: Batch) -> None:
        visits, index = batch.visits, batch.index
        if not len(visits):
            return
        at = np.minimum(visits.start_ns // self._step, self._intervals - 1)
        first = int(at.min())
        width = int(at.max()) - first + 1
        known = len(index)
        groups = Groups(batch.number + (at - first) * known, known * width) if width > 1 else batch.groups
        counts = np.stack([groups.counts, groups.sums(visits.write)], axis=1)
        interval, number = np.divmod(groups.numbers, known)
        page = index.pages()[number] >> np.uint64(self._shift)
        self._waiting.append((page << np.uint64(16) | (interval + first).astype(np.uint64), counts))
        self._gathered += number.size
        if self._gathered > self._most:
            self._count()

    def _count(self) -> None:
        """Count what waits. How many pages a cell has in the end does not depend on when that is."""
        cells, counts = zip((self._cells, self._counts), *self._waiting, strict=True)
        self._waiting, self._gathered = [], 0
        self._merge(np.concatenate(cells), np.concatenate(counts))
        while self._cells.size > self._most and self._shift < 44:
            self._shift += 1
            low = self._cells & np.uint64(0xFFFF)
            self._merge(self._cells >> np.uint64(17) << np.uint64(16) | low, self._counts)

    def _merge(self, cells: Words, counts: Ints) -> None:
        # Parts are sorted, or nearly: a stable sort merges such runs.
        order = np.argsort(cells, kind="stable")
        cells = cells.take(order)
        begins = np.flatnonzero(np.concatenate([np.ones(min(1, cells.size), bool), cells[1:] != cells[:-1]]))
        self._cells = cells[begins]
        self._counts = np.add.reduceat(counts.take(order, axis=0), begins) if begins.size else counts

    def close(self, rest: Finished) -> None:
        self._count()

    def frame(self) -> pd.DataFrame:
        """One row per cell, by time and page: start_ns int64, interval_ns int64, page uint64 (the first one), pages
        int64 (how many a cell has), visits, writes int64.
        """
        order = np.lexsort((self._cells, self._cells & np.uint64(0xFFFF)))
        cells = self._cells[order]
        counts = self._counts[order]
        return pd.DataFrame(
            {
                "start_ns": (cells & np.uint64(0xFFFF)).astype(np.int64) * self._step,
                "interval_ns": np.full(cells.size, self._step, dtype=np.int64),
                "page": cells >> np.uint64(16) << np.uint64(self._shift),
                "pages": np.full(cells.size, 1 << self._shift, dtype=np.int64),
                "visits": counts[:, 0],
                "writes": counts[:, 1],
            }
        )
