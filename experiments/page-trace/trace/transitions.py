# SPDX-License-Identifier: MIT
"""Which page follows which, in one thread: the transition matrix, sparse."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import sparse

from .index import Numbers, PageIndex
from .tables import Batch, Finished

#: Pairs that are kept; when there are more, the rarer half of them is dropped.
MOST_PAIRS = 1 << 20
#: Visits that are counted at once.
_GATHERED = 1 << 20


class Transitions:
    """Counts pairs of pages visited one after the other. A random walk has more pairs than memory: the rarest go."""

    def __init__(self, most: int = MOST_PAIRS) -> None:
        self._most = most
        self._index = PageIndex()
        self._counts = sparse.csr_array((0, 0), dtype=np.int64)  # by the numbers of the page left and the next one
        self._waiting: list[tuple[Numbers, Numbers]] = []
        self._total = self._gathered = 0
        self._error = 0

    def add(self, batch: Batch) -> None:
        self._index = batch.index
        left, known = batch.left
        self._waiting.append((left, batch.number[known]))
        self._total += left.size
        self._gathered += left.size
        if self._gathered >= _GATHERED:
            self._count()

    def _count(self) -> None:
        if not self._gathered:
            return
        left, following = (np.concatenate(part) for part in zip(*self._waiting, strict=True))
        self._waiting, self._gathered = [], 0
        pages = len(self._index)
        self._counts.resize((pages, pages))
        counts = _counted(left, following, pages)
        self._counts = self._counts + counts
        if self._counts.nnz > self._most:
            self._drop()

    def _drop(self) -> None:
        """Keeps the more frequent half of `most`; of those as frequent as the last one, the first."""
        counts, half = self._counts.data, self._most // 2
        values, often = np.unique(counts, return_counts=True)
        least = int(values[np.searchsorted(np.cumsum(often), counts.size - half, side="right")])
        gone = counts < least
        as_few = np.flatnonzero(counts == least)
        gone[as_few[half - int(np.count_nonzero(counts > least)) :]] = True
        # A pair that was dropped may have had so many each time; it begins at 0 when it comes again.
        self._error += int(counts[gone].max())
        counts[gone] = 0
        self._counts.eliminate_zeros()

    def close(self, rest: Finished) -> None:
        self._count()

    @property
    def total(self) -> int:
        """All transitions."""
        return self._total

    @property
    def error(self) -> int:
        """No count of `frame` is too small by more than this, and no pair with more is absent: 0 where nothing was
        dropped.
        """
        return self._error

    def frame(self, top: int | None = None) -> pd.DataFrame:
        """The most frequent pairs first: page, next uint64, count int64, share float64 (of the transitions from `page`
        that were kept).
        """
        pages, pairs = self._index.pages(), self._counts.tocoo()
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


def _counted(left: Numbers, following: Numbers, pages: int) -> sparse.csr_array:
    """How often each pair is there: sorted as one number, half as wide where that is enough, and counted by runs."""
    bits = max(1, (pages - 1).bit_length())
    pair = left << bits | following
    if 2 * bits <= 32:
        pair = pair.astype(np.uint32)
    pair.sort()
    begin = np.flatnonzero(np.concatenate([[True], pair[1:] != pair[:-1]]))
    count = np.diff(begin, append=pair.size)
    pair = pair[begin]
    rows = np.searchsorted(pair, np.arange(pages + 1, dtype=np.uint64) << np.uint64(bits))
    columns = (pair & pair.dtype.type((1 << bits) - 1)).astype(np.int32)
    return sparse.csr_array((count, columns, rows.astype(np.int32)), shape=(pages, pages))
