# SPDX-License-Identifier: MIT
"""Which page follows which, in one thread: the transition matrix, sparse."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .index import PageIndex
from .pairs import MOST_PAIRS, PairCounts
from .tables import Batch, Finished


class Transitions:
    """Counts pairs of pages visited one after the other. A random walk has more pairs than memory: the rarest go."""

    def __init__(self, most: int = MOST_PAIRS) -> None:
        self._index = PageIndex()
        self._pairs = PairCounts(most)  # by the numbers of the page left and the next one

    def add(self, batch: Batch) -> None:
        self._index = batch.index
        left, known = batch.left
        self._pairs.add(left, batch.number[known], (len(self._index), len(self._index)))

    def close(self, rest: Finished) -> None:
        pass

    @property
    def total(self) -> int:
        """All transitions."""
        return self._pairs.total

    @property
    def error(self) -> int:
        """As `PairCounts` has it, of `frame`."""
        self._pairs.counts()
        return self._pairs.error

    def frame(self, top: int | None = None) -> pd.DataFrame:
        """The most frequent pairs first: page, next uint64, count int64, share float64 (of the transitions from `page`
        that were kept).
        """
        pages, pairs = self._index.pages(), self._pairs.counts().tocoo()
        left, follows, counts = pairs.row, pairs.col, pairs.data
        out = np.bincount(left, weights=counts, minlength=pages.size)
        order = np.lexsort((pages[follows], pages[left], -counts))[:top]
        return pd.DataFrame(
            {
                "page": pages[left][order],
                "next": pages[follows][order],
                "count": counts[order],
                "share": (counts / out[left])[order],
            }
        )
