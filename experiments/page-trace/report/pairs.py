# SPDX-License-Identifier: MIT
"""Counts of pairs of small numbers, in bounded memory: when there are too many pairs, the rarest go."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..trace.records import Words
from ..trace.visits import Ints

MOST_PAIRS = 1 << 20


class PairCounts:
    """How often each pair of (left, right), both below 2**32, came; with a second sum beside the count."""

    def __init__(self, most: int = MOST_PAIRS) -> None:
        self._most = most
        self._keys: Words = np.empty(0, dtype=np.uint64)
        self._sums: Ints = np.empty((0, 2), dtype=np.int64)
        self.error = 0

    def add(self, left: Ints, right: Ints, more: np.ndarray) -> None:
        """Count n pairs, and add `more` to their second sums; shapes (n,)."""
        if not left.size:
            return
        key = left.astype(np.uint64) << np.uint64(32) | right.astype(np.uint64)
        codes, keys = pd.factorize(key)
        sums = np.stack(
            [np.bincount(codes, minlength=keys.size), np.bincount(codes, weights=more, minlength=keys.size)], axis=1
        ).astype(np.int64)
        codes, self._keys = pd.factorize(np.concatenate([self._keys, keys]))
        every = np.concatenate([self._sums, sums])
        columns = [np.bincount(codes, weights=column, minlength=self._keys.size) for column in every.T]
        self._sums = np.stack(columns, axis=1).astype(np.int64)
        if self._keys.size > self._most:
            order = np.argsort(-self._sums[:, 0], kind="stable")
            kept, gone = order[: self._most // 2], order[self._most // 2 :]
            # One that was dropped may have had so many each time.
            self.error += int(self._sums[gone, 0].max())
            self._keys, self._sums = self._keys[kept], self._sums[kept]

    def frame(self) -> pd.DataFrame:
        """One row per pair, by pair: left, right, count, more: int64. No count is too small by more than `error`."""
        order = np.argsort(self._keys)
        keys, sums = self._keys[order], self._sums[order]
        return pd.DataFrame(
            {
                "left": (keys >> np.uint64(32)).astype(np.int64),
                "right": (keys & np.uint64(0xFFFF_FFFF)).astype(np.int64),
                "count": sums[:, 0],
                "more": sums[:, 1],
            }
        )
