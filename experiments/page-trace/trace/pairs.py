# SPDX-License-Identifier: MIT
"""Counts of pairs of small numbers, in bounded memory: when there are too many pairs, the rarest go."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .index import Numbers, counting_sort

#: Pairs that are kept; when there are more, the rarer half of them is dropped.
MOST_PAIRS = 1 << 20
#: Pairs that are counted at once.
_GATHERED = 1 << 20
#: Of so many possible pairs, each has a counter.
_CELLS = 1 << 20
#: Counts up to this are counted themselves where the rarest are looked for.
_OFTEN = 1 << 12

Narrow = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]


class PairCounts:
    """How often each pair of (left, right) came.

    total   int   all that came
    error   int   no count is too small by more than this, and no pair with more is absent: 0 where nothing was dropped
    """

    def __init__(self, most: int = MOST_PAIRS) -> None:
        self._most = most
        self._counts = sparse.csr_array((0, 0), dtype=np.int64)
        self._shape = (0, 0)
        self._waiting: list[tuple[Narrow, Narrow]] = []
        self._gathered = 0
        self.total = self.error = 0

    def add(self, left: Numbers, right: Numbers, shape: tuple[int, int]) -> None:
        """Count n pairs, shape (n,), of numbers below `shape`, which never gets smaller."""
        self._shape = shape
        self._waiting.append((left.astype(np.int32), right.astype(np.int32)))
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
        least = _ranked(counts, counts.size - half)
        kept = counts > least
        as_few = np.flatnonzero(counts == least)
        more = half - int(np.count_nonzero(kept))
        kept[as_few[:more]] = True
        # A pair that was dropped may have had so many each time; it begins at 0 when it comes again.
        self.error += least if more < as_few.size else int(counts[~kept].max())
        places = np.flatnonzero(kept)
        starts = np.searchsorted(places, self._counts.indptr).astype(np.int32)
        self._counts = sparse.csr_array(
            (counts.take(places), self._counts.indices.take(places), starts), shape=self._counts.shape
        )


def _ranked(counts: Ints, place: int) -> int:
    """What stands at `place` of all `counts`, sorted. Most pairs are rare, so their numbers are counted."""
    at = int(np.searchsorted(np.cumsum(np.bincount(np.minimum(counts, _OFTEN))), place, side="right"))
    return at if at < _OFTEN else int(np.sort(counts)[place])


def _counted(left: Narrow, right: Narrow, rows: int, columns: int) -> sparse.csr_array:
    """How often each pair is there."""
    if rows * columns <= _CELLS:
        often = np.bincount(left * np.int32(columns) + right, minlength=rows * columns)
        pair = np.flatnonzero(often != 0)
        starts = np.searchsorted(pair, np.arange(rows + 1) * columns)
        return sparse.csr_array((often[pair], pair % columns, starts), shape=(rows, columns))
    # Sorted by what is right, and stably by what is left: equal pairs stand together.
    lefts, begins = counting_sort(right, columns, left)
    sorted_ = sparse.csc_array((np.ones(left.size, dtype=np.int8), lefts, begins), shape=(rows, columns)).tocsr()
    changes = np.ones(left.size, dtype=bool)
    np.not_equal(sorted_.indices[1:], sorted_.indices[:-1], out=changes[1:])
    changes[sorted_.indptr[:-1][np.diff(sorted_.indptr) != 0]] = True
    begin = np.flatnonzero(changes)
    count = np.diff(begin, append=left.size)
    starts = np.searchsorted(begin, sorted_.indptr).astype(np.int32)
    return sparse.csr_array((count, sorted_.indices[begin], starts), shape=(rows, columns))
