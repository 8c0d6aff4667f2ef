# SPDX-License-Identifier: MIT
"""Reuse distance: how many other pages were visited since the page's last visit (LRU stack distance, Mattson 1970).

With prev[i] the place of the visit before to the same page, the distance of visit i is the number of first visits
after prev[i]: i - prev[i] - 1, less those j < i with prev[j] > prev[i]. Visits in the order of their prev are a
permutation, and it takes for each of them how many behind it are smaller, which is counted for a whole piece at once.
Pages visited before the piece stand in front of it, in the order of their last visits.

A stack is mostly visited again two or three visits later, when its distance is clear. Such a visit is one of the j of
others if it comes late enough behind their prev[i]: running counts tell how many do, so only the others are permuted.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import pandas as pd

from .index import Groups, Numbers, PageIndex, stable_order
from .tables import Batch, Finished
from .visits import Ints

#: Visits counted at once: they stay in the processor's cache.
_PIECE = 1 << 15
#: Of longer pieces, so many parts are taken one by one.
_PARTS = 8
_DIGIT_BITS = 5
_DIGITS = 1 << _DIGIT_BITS

#: Numbers of pages: no trace has 2**31 of them.
Narrow = npt.NDArray[np.int32]


class ReuseDistances:
    """Exact distances of all visits; memory for two numbers per page."""

    def __init__(self) -> None:
        self._index = PageIndex()
        self._place = np.full(1024, -1, dtype=np.intp)
        self._stack: Narrow = np.empty(0, dtype=np.int32)  # from the least recently visited page on
        self._counts = np.zeros(1024, dtype=np.int64)
        self._cold = 0
        self._waiting: list[Narrow] = []
        self._gathered = 0

    def add(self, batch: Batch) -> None:
        self._index = batch.index
        self._place = batch.index.grown(self._place, -1)
        self._counts = batch.index.grown(self._counts)
        self._waiting.append(batch.number.astype(np.int32))
        self._gathered += batch.number.size
        # The stack is walked once for each piece, which is to be no shorter.
        if self._gathered >= self._stack.size:
            self._count()

    def _count(self) -> None:
        number = np.concatenate([*self._waiting, np.empty(0, dtype=np.int32)])
        self._waiting, self._gathered = [], 0
        size = max(_PIECE, self._stack.size)
        for first in range(0, number.size, size):
            self._visit(self._without_alternation(number[first : first + size]))

    def _without_alternation(self, number: Narrow) -> Narrow:
        """Leaves out repeats (distance 0), and pairs of A B A B … behind the first (distance 1): the stack stays.

        Pairs that are few stay in.
        """
        repeats = number[1:] == number[:-1]
        if n := np.count_nonzero(repeats):
            self._counts[0] += n
            number = number[np.concatenate([[True], ~repeats])]
        again = np.zeros(number.size + 1, dtype=bool)
        np.equal(number[2:], number[:-2], out=again[2:-1])
        if np.count_nonzero(again[1:] & again[:-1]) < number.size // 8:
            return number  # leaving out so few costs more than it spares
        edges = np.flatnonzero(again[1:] != again[:-1]) + 1
        begin, end = edges[::2], edges[1::2]
        even = begin + (end - begin) // 2 * 2
        change = np.zeros(number.size + 1, dtype=np.int8)
        change[begin] += 1
        change[even] -= 1
        kept = np.equal(np.cumsum(change[:-1], dtype=np.int8), 0)
        self._counts[1] += number.size - np.count_nonzero(kept)
        left: Narrow = number[kept]
        return left

    def _visit(self, number: Narrow) -> None:
        n, below = number.size, self._stack.size
        if not n:
            return
        groups = Groups(number, len(self._index))
        order = groups.order
        first = order[groups.first]
        self._place[self._stack] = np.arange(below)
        on_stack = self._place[number[first]]
        known = on_stack >= 0
        cold = first[~known]
        # Of each place of the stack, then of each visit: the page's next visit.
        following = np.full(below + n, -1, dtype=np.intp)
        following[below + order[:-1]] = order[1:]
        following[below + order[groups.last]] = -1
        following[on_stack[known]] = first[known]
        again = following >= 0
        self._stack = np.concatenate([self._stack, number])[np.flatnonzero(~again)]
        soon = _soon(number)
        for distance, one in soon.items():
            self._counts[distance] += np.count_nonzero(one)
            gap = distance + 1
            again[below : below + n - gap] &= ~one[gap:]
        previous = np.flatnonzero(again)
        visit = following[previous]
        since = visit.astype(np.int32) - previous.astype(np.int32) + np.int32(below - 1)
        rank = visit.astype(np.uint32)
        if cold.size:
            left = np.zeros(n, dtype=bool)
            left[cold] = True
            rank -= np.cumsum(left, dtype=np.uint32)[visit]
        for distance, one in soon.items():
            before = np.zeros(n + 1, dtype=np.int32)
            np.cumsum(one, dtype=np.int32, out=before[1:])
            earlier = before[visit]
            rank -= earlier.view(np.uint32)
            since -= earlier - before[np.maximum(previous - below + distance + 1, 0)]
        more = np.bincount(less_smaller_before(rank[::-1], since[::-1]), minlength=1)
        self._counts[: more.size] += more
        self._cold += cold.size

    def close(self, rest: Finished) -> None:
        self._count()

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


def _soon(number: Narrow) -> dict[int, npt.NDArray[np.bool_]]:
    """Which visits have the distance 1, and which 2 with two visits since their page's last one; {} where they are few.

    No visit is to the page of the one before.
    """
    one, two = np.zeros(number.size, dtype=bool), np.zeros(number.size, dtype=bool)
    np.equal(number[2:], number[:-2], out=one[2:])
    np.equal(number[3:], number[:-3], out=two[3:])
    two &= ~one
    counts = np.count_nonzero(one), np.count_nonzero(two)
    if sum(counts) < number.size // 8:
        return {}  # leaving out so few costs more than it spares
    return {distance: which for distance, which, count in zip((1, 2), (one, two), counts, strict=True) if count}


def less_smaller_before(rank: npt.NDArray[np.uint32], start: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """For each place of a permutation of 0 … n - 1: `start`, less how many smaller values stand before it; shape (n,),
    in another order.

    Values are sorted by their digits to the base 32, the highest first, and stably. Values that agree in all digits so
    far stand together, as many as there are such values, since it is a permutation. Before each digit's sort, each
    value counts those of its part that are before it and smaller in this digit: in the blocks of 32 before its own
    with a histogram, in its own value by value.
    """
    n = rank.size
    # Loops come by their pages in the same order again: then there is nothing to sort.
    if n < 2 or (rank[1:] < rank[:-1]).all():
        return start
    if _PIECE < n <= _PARTS * _PIECE:
        return _by_parts(rank, start)
    size = -(-n // _DIGITS) * _DIGITS
    # What pads it to whole blocks stands behind all others.
    values = np.concatenate([rank, np.arange(n, size, dtype=np.uint32)])
    counts = np.concatenate([start, np.zeros(size - n, dtype=np.int32)])
    block = _blocks(size)
    shift = ((size - 1).bit_length() - 1) // _DIGIT_BITS * _DIGIT_BITS
    while True:
        high = values >> np.uint32(shift)
        digit = (high & np.uint32(_DIGITS - 1)).astype(np.uint8)
        counts -= _smaller_within(digit.reshape(-1, _DIGITS))
        if not shift:
            break
        counts -= _smaller_in_blocks_before(block + digit, min(size, _DIGITS << shift))
        order = stable_order(high, (size >> shift) + 1)
        values, counts = values[order], counts[order]
        shift -= _DIGIT_BITS
    return counts[values < n]


def _by_parts(rank: npt.NDArray[np.uint32], start: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The same of few parts, by value: each is as large as stays in the processor's cache, and a permutation again."""
    part, counts = rank // np.uint32(_PIECE), []
    for number in range(int(part.max()) + 1):
        here = np.flatnonzero(part == number)
        lower = np.cumsum(part < number, dtype=np.int32)
        counts.append(less_smaller_before(rank.take(here) % np.uint32(_PIECE), start.take(here) - lower.take(here)))
    return np.concatenate(counts)


@functools.lru_cache(maxsize=1)
def _blocks(size: int) -> Numbers:
    """Where the block of each place begins; most pieces are of one size."""
    return np.arange(size) & -_DIGITS


def _smaller_within(digit: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """For each place of blocks, shape (blocks, 32): how many smaller digits stand before it; shape (blocks * 32,)."""
    by_place = np.ascontiguousarray(digit.T)
    counts = np.zeros_like(by_place)
    half = _DIGITS // 2
    while half:
        # Each place of a right half against all of its left half, then within the halves.
        halves = (-1, 2, half, len(digit))
        left, right = (by_place.reshape(halves)[:, side] for side in (0, 1))
        smaller = (left[:, :, np.newaxis] < right[:, np.newaxis]).view(np.uint8)
        counts.reshape(halves)[:, 1] += np.add.reduce(smaller, axis=1, dtype=np.uint8)
        half //= 2
    return counts.T.reshape(-1)


def _smaller_in_blocks_before(at: Numbers, width: int) -> npt.NDArray[np.int32]:
    """For each place: how many digits of the blocks before its own, in its part of `width` places, are smaller. `at`
    is where its block begins, and its digit.

    Products with triangular matrices add up what is before, of digits and of 32 blocks: faster than sums one by one.
    """
    size = at.size
    square = _DIGITS * _DIGITS
    exact = np.float32 if size < 1 << 24 else np.float64  # for whole numbers up to `size`
    below: npt.NDArray[np.floating] = np.tri(_DIGITS, k=-1, dtype=exact)
    squares = -(-size // square)
    histogram: npt.NDArray[np.floating] = np.bincount(at, minlength=squares * square).astype(exact)
    smaller = histogram.reshape(squares, _DIGITS, _DIGITS) @ below.T
    before = below @ smaller
    if width > square:
        parts = -(-size // width)
        whole = np.zeros((parts, width // square + bool(width % square), _DIGITS), dtype=exact)
        whole.reshape(-1, _DIGITS)[:squares] = before[:, -1] + smaller[:, -1]
        before += (np.cumsum(whole, axis=1) - whole).reshape(-1, 1, _DIGITS)[:squares]
    counts: npt.NDArray[np.int32] = before.reshape(-1)[at].astype(np.int32)
    return counts
