# SPDX-License-Identifier: MIT
"""Which page follows which, in one thread: the transition matrix, sparse."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .index import PageIndex
from .records import Words
from .tables import Batch, Finished
from .visits import NO_PAGE, Ints

#: Pairs that are kept; when there are more, the rarer half of them is dropped.
MOST_PAIRS = 1 << 20


class Transitions:
    """Counts pairs of pages visited one after the other. A random walk has more pairs than memory: the rarest go."""

    def __init__(self, most: int = MOST_PAIRS) -> None:
        self._most = most
        self._index = PageIndex()
        self._pairs: Words = np.empty(0, dtype=np.uint64)  # number of the page left << 32 | number of the next
        self._counts: Ints = np.empty(0, dtype=np.int64)
        self._waiting: list[tuple[Words, Ints]] = []
        self._total = 0
        self._error = 0

    def add(self, batch: Batch) -> None:
        self._index = batch.index
        known = batch.visits.left != NO_PAGE
        left, next_page = batch.index.of(batch.visits.left[known]), batch.number[known]
        codes, pairs = pd.factorize(left.astype(np.uint64) << np.uint64(32) | next_page.astype(np.uint64))
        self._total += codes.size
        self._waiting.append((pairs, np.bincount(codes, minlength=pairs.size)))
        if sum(pairs.size for pairs, _ in self._waiting) > 2 * self._most:
            self._merge()

    def _merge(self) -> None:
        every = [(self._pairs, self._counts), *self._waiting]
        self._waiting = []
        codes, self._pairs = pd.factorize(np.concatenate([pairs for pairs, _ in every]))
        counts = np.concatenate([counts for _, counts in every])
        self._counts = np.bincount(codes, weights=counts, minlength=self._pairs.size).astype(np.int64)
        if self._pairs.size > self._most:
            self._drop()

    def _drop(self) -> None:
        order = np.argsort(-self._counts, kind="stable")
        kept, gone = order[: self._most // 2], order[self._most // 2 :]
        # A pair that was dropped may have had so many each time; it begins at 0 when it comes again.
        self._error += int(self._counts[gone].max())
        self._pairs, self._counts = self._pairs[kept], self._counts[kept]

    def close(self, rest: Finished) -> None:
        self._merge()

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
        pages = self._index.pages()
        left = (self._pairs >> np.uint64(32)).astype(np.intp)
        follows = (self._pairs & np.uint64(0xFFFFFFFF)).astype(np.intp)
        out = np.bincount(left, weights=self._counts, minlength=pages.size)
        order = np.lexsort((pages[follows], pages[left], -self._counts))[:top]
        return pd.DataFrame(
            {
                "page": pages[left][order],
                "next": pages[follows][order],
                "count": self._counts[order],
                "share": (self._counts / out[left])[order],
            }
        )
