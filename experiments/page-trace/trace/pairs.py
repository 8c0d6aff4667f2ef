# SPDX-License-Identifier: MIT
"""Counts of pairs of small numbers, in bounded memory: when there are too many pairs, the rarest go."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .index import Numbers

#: Pairs that are kept; when there are more, the rarer half of them is dropped.
MOST_PAIRS = 1 << 20
#: Pairs that are counted at once.
_GATHERED = 1 << 20


class PairCounts:
    """How often each pair of (left, right) came.

    total   int   all that came
    error   int   no count is too small by more than this, and no pair with more is absent: 0 where nothing was dropped
    """

    def __init__(self, most: int = MOST_PAIRS) -> None:
        self._most = most
        self._counts = sparse.csr_array((0, 0), dtype=np.int64)
        self._shape = (0, 0)
        self._waiting: list[tuple[Numbers, Numbers]] = []
        self._gathered = 0
        self.total = self.error = 0

    def add(self, left: Numbers, right: Numbers, shape: tuple[int, int]) -> None:
        """Count n pairs, shape (n,), of numbers below `shape`, which never gets smaller."""
        self._shape = shape
        self._waiting.append((left, right))
        self.total += left.size
        self._gathered += left.size
        if self._gathered >= _GATHERED:
            self._count()

    def counts(self) -> sparse.csr_array:
        """By left and right: int64, sorted."""
        self._count()
        return self._counts

    def _count(self) -> None:
        if not self._gathered:
            return
        left, right = (np.concatenate(part) for part in zip(*self._waiting, strict=True))
        self._waiting, self._gathered = [], 0
        self._counts.resize(self._shape)
        self._counts = self._counts + _counted(left, right, *self._shape)
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
        self.error += int(counts[gone].max())
        counts[gone] = 0
        self._counts.eliminate_zeros()


def _counted(left: Numbers, right: Numbers, rows: int, columns: int) -> sparse.csr_array:
    """How often each pair is there: sorted as one number, half as wide where that is enough, and counted by runs."""
    bits = max(1, (columns - 1).bit_length())
    pair = left << bits | right
    if (rows - 1).bit_length() + bits <= 32:
        pair = pair.astype(np.uint32)
    pair.sort()
    begin = np.flatnonzero(np.concatenate([[True], pair[1:] != pair[:-1]]))
    count = np.diff(begin, append=pair.size)
    pair = pair[begin]
    starts = np.searchsorted(pair, np.arange(rows + 1, dtype=np.uint64) << np.uint64(bits))
    across = (pair & pair.dtype.type((1 << bits) - 1)).astype(np.int32)
    return sparse.csr_array((count, across, starts.astype(np.int32)), shape=(rows, columns))
