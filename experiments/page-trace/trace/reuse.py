# SPDX-License-Identifier: MIT
"""Reuse distance: how many other pages were visited since the page's last visit (LRU stack distance, Mattson 1970).

With prev[i] the place of the visit before to the same page, the distance of visit i is the number of first visits
after prev[i]: i - prev[i] - 1, less those j < i with prev[j] > prev[i]. So it takes for each i how many earlier values
are greater, which is counted for a whole piece at once. Pages visited before the piece stand in front of it, in the
order of their last visits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from .index import Groups, Numbers, PageIndex
from .tables import Batch, Finished
from .visits import Ints

#: Visits counted at once: they stay in the processor's cache.
_PIECE = 1 << 15
_SMALL = 32


class ReuseDistances:
    """Exact distances of all visits; memory for two numbers per page."""

    def __init__(self) -> None:
        self._index = PageIndex()
        self._place = np.full(1024, -1, dtype=np.intp)
        self._stack: Numbers = np.empty(0, dtype=np.intp)  # from the least recently visited page on
        self._counts = np.zeros(1024, dtype=np.int64)
        self._cold = 0

    def add(self, batch: Batch) -> None:
        self._index = batch.index
        self._place = batch.index.grown(self._place, -1)
        self._counts = batch.index.grown(self._counts)
        # The stack is walked once for each piece.
        size = max(_PIECE, self._stack.size)
        for first in range(0, batch.number.size, size):
            self._visit(self._without_alternation(batch.number[first : first + size]))

    def _without_alternation(self, number: Numbers) -> Numbers:
        """Leaves out repeats (distance 0), and pairs of A B A B … behind the first (distance 1): the stack stays."""
        kept = np.ones(number.size, dtype=bool)
        np.not_equal(number[1:], number[:-1], out=kept[1:])
        self._counts[0] += number.size - np.count_nonzero(kept)
        number = number[kept]
        again = np.zeros(number.size + 1, dtype=bool)
        np.equal(number[2:], number[:-2], out=again[2:-1])
        edges = np.flatnonzero(again[1:] != again[:-1]) + 1
        begin, end = edges[::2], edges[1::2]
        even = begin + (end - begin) // 2 * 2
        change = np.zeros(number.size + 1, dtype=np.int8)
        change[begin] += 1
        change[even] -= 1
        kept = np.equal(np.cumsum(change[:-1], dtype=np.int8), 0)
        self._counts[1] += number.size - np.count_nonzero(kept)
        left: Numbers = number[kept]
        return left

    def _visit(self, number: Numbers) -> None:
        n, below = number.size, self._stack.size
        if not n:
            return
        groups = Groups(number, len(self._index))
        order = groups.order
        first, last = order[groups.first], order[groups.last]
        self._place[self._stack] = np.arange(below)
        prev = np.empty(n, dtype=np.intp)
        prev[order[1:]] = order[:-1] + below
        prev[first] = self._place[number[first]]
        hot = prev >= 0
        cold = n - int(np.count_nonzero(hot))
        self._cold += cold
        taken = np.zeros(below + n, dtype=np.intp)
        taken[prev[hot]] = 1
        rank = np.empty(n, dtype=np.uint32)
        rank[hot] = np.cumsum(taken)[prev[hot]] + (cold - 1)
        rank[~hot] = np.arange(cold)
        since = np.arange(below, below + n) - prev - 1
        distance = (since - greater_before(rank))[hot]
        more = np.bincount(distance)
        self._counts[: more.size] += more
        touched = np.zeros(self._place.size, dtype=bool)
        touched[number] = True
        self._stack = np.concatenate([self._stack[~touched[self._stack]], number[np.sort(last)]])

    def close(self, rest: Finished) -> None:
        pass

    @property
    def cold(self) -> int:
        """First visits: they have no distance."""
        return self._cold

    def distances(self) -> Ints:
        """How many visits have the distance 0, 1, 2, …; shape (pages,)."""
        return self._counts[: max(2, len(self._index))]

    def frame(self) -> pd.DataFrame:
        """One row per bin [low, high): 0, 1, then two bins an octave: low, high, visits int64, and missed float64: the
        share of all visits that LRU memory of `low` pages would miss, first visits included. They are in a last row
        with low = high = -1.
        """
        counts = self.distances()
        total = int(counts.sum()) + self._cold
        edges = np.unique([0, 1, 2, *(low << k >> 1 for k in range(1, 60) for low in (2, 3))])
        edges = edges[: int(np.searchsorted(edges, counts.size, side="left")) + 1]
        summed = np.concatenate([[0], np.cumsum(counts)])
        at = np.minimum(edges, counts.size)
        binned = np.diff(summed[at])
        missed = 1 - summed[at[:-1]] / total if total else np.full(binned.size, np.nan)
        rows = {"low": edges[:-1], "high": edges[1:], "visits": binned, "missed": missed}
        frame = pd.DataFrame(rows).astype({"low": np.int64, "high": np.int64})
        first = {"low": [-1], "high": [-1], "visits": [self._cold], "missed": [self._cold / total if total else np.nan]}
        return pd.concat([frame, pd.DataFrame(first)], ignore_index=True)


def greater_before(rank: npt.NDArray[np.uint32]) -> Ints:
    """For each place of a permutation of 0 … n - 1: how many greater values stand before it; shape (n,) int64.

    From the highest bit down, values are parted by it in their order: a value whose bit is clear has before it as many
    greater ones of its part as bits were set. Parts are of equal size, since it is a permutation; small ones are
    compared value by value.
    """
    n = rank.size
    size = max(_SMALL, 1 << (n - 1).bit_length()) if n else 0
    # What pads it to a power of two stands behind all others.
    values = np.concatenate([rank, np.arange(n, size, dtype=np.uint32)])
    counts = np.zeros(size, dtype=np.uint32)
    width = size
    while width > _SMALL:
        half = width // 2
        bit = (values & np.uint32(half)) != 0
        before = np.cumsum(bit.reshape(-1, width), axis=1, dtype=np.uint32).reshape(-1)
        clear = ~bit
        zeros, ones = np.flatnonzero(clear), np.flatnonzero(bit)
        low = (counts[zeros] + before[zeros]).reshape(-1, half)
        counts = np.concatenate([low, counts[ones].reshape(-1, half)], axis=1).reshape(-1)
        values = np.concatenate([values[zeros].reshape(-1, half), values[ones].reshape(-1, half)], axis=1).reshape(-1)
        width = half
    if size:
        small = (values & np.uint32(_SMALL - 1)).astype(np.uint8).reshape(-1, _SMALL)
        for place in range(1, _SMALL):
            greater = small[:, :place] > small[:, place : place + 1]
            counts[place::_SMALL] += np.count_nonzero(greater, axis=1).astype(np.uint32)
    by_place = np.empty(size, dtype=np.int64)
    by_place[values] = counts
    return by_place[rank]
