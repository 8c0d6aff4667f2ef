# SPDX-License-Identifier: MIT
"""Lines up two long sequences of pages that differ little, in one pass and in bounded memory.

Equal stretches are compared as arrays. At a difference, windows of growing size are aligned exactly (`lcs`) until some
pages in a row agree again; if the largest does not suffice, the next sequence of pages that occurs once in each is
looked for; where there is none, half a window is taken as aligned. So a near-equal pair costs linear time, and the
number of common visits is a lower bound that is exact where differences lie in windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .lcs import Lcs, Pairs

Words = npt.NDArray[np.uint64]

#: Window sizes, and how many pages in a row must agree there to go on behind them.
WINDOWS = ((64, 16), (512, 24), (4096, 32))
#: Where to look for a sequence of _GRAM pages that occurs once on each side.
_FAR = (1 << 14, 1 << 17, 1 << 20)
_GRAM = 32
_BLOCK = 1 << 16
#: The largest gap before such a sequence that is aligned exactly: 8 MiB.
_MOST_BITS = 1 << 26
_ODD = np.uint64(0x9E3779B97F4A7C15)


class Side(Protocol):
    """One sequence, read forward."""

    def ahead(self, n: int) -> Words:
        """The next pages: n, or all that are left."""

    def advance(self, n: int) -> None:
        """Go on by n."""


@dataclass(frozen=True)
class Step:
    """What comes next: `a` and `b` pages of the sides, all equal or all different."""

    equal: bool
    a: int
    b: int


def align(a: Side, b: Side) -> Iterator[Step]:
    """Steps over both sides to their ends. Until the next step is asked for, `ahead` shows what a step covers.

    Where sides differ everywhere, b is taken for a subsequence of a: extra pages in it are the exception.
    """
    clear = 0  # so far ahead on side a no anchor need be looked for
    while True:
        here, there = a.ahead(_BLOCK), b.ahead(_BLOCK)
        n = min(here.size, there.size)
        if n == 0:
            if here.size or there.size:
                yield Step(False, here.size, there.size)
                a.advance(here.size)
                b.advance(there.size)
                continue
            return
        same = here[:n] == there[:n]
        run = n if same.all() else int(np.argmin(same))
        if run:
            steps = [Step(True, run, run)]
        else:
            pairs, to_a, to_b, clear = _resume(a, b, clear)
            steps = list(_steps(pairs, to_a, to_b))
        for step in steps:
            yield step
            a.advance(step.a)
            b.advance(step.b)
            clear = max(0, clear - step.a)


def _steps(pairs: Pairs, to_a: int, to_b: int) -> Iterator[Step]:
    """Steps from (0, 0) to (to_a, to_b) through `pairs` of equal pages."""
    x = y = run = 0
    for i, j in [*pairs, (to_a, to_b)]:
        if (i, j) != (x + run, y + run) or (i, j) == (to_a, to_b):
            if run:
                yield Step(True, run, run)
            x, y, run = x + run, y + run, 0
            if (i, j) != (x, y):
                yield Step(False, i - x, j - y)
            x, y = i, j
        run += 1


def _resume(a: Side, b: Side, clear: int) -> tuple[Pairs, int, int, int]:
    """Equal pairs behind a difference, how far they bring each side, and the new `clear`."""
    for size, snake in WINDOWS:
        here, there = a.ahead(size).tolist(), b.ahead(size).tolist()
        table = Lcs(here, there)
        pairs = table.pairs(len(there))
        if len(here) < size and len(there) < size:
            return pairs, len(here), len(there), clear
        end = _agreed(pairs, snake)
        if end:
            return pairs[:end], pairs[end - 1][0] + 1, pairs[end - 1][1] + 1, clear
    if not clear:
        anchor = _anchor(a, b)
        clear = _FAR[-1] // 2 if anchor is None else anchor[0]
        if anchor is not None and anchor[0] * anchor[1] <= _MOST_BITS:
            gap = Lcs(a.ahead(anchor[0]).tolist(), b.ahead(anchor[1]).tolist())
            return gap.pairs(anchor[1]), *anchor, clear
    return *_within(a, table, len(there)), clear


def _within(a: Side, table: Lcs, n: int) -> tuple[Pairs, int, int]:
    """How far to go where nothing tells the places: b, of which `n` are in `table`, is a's subsequence, most of it."""
    common = [table.length(y) for y in range(n + 1)]
    fits = max(y for y, length in enumerate(common) if y - length <= y // 8)
    if fits:
        # Half of what fits into the window, and as little of a as that takes.
        pairs = table.pairs(to_b := max(1, fits // 2))
        return pairs, pairs[-1][0] + 1 if pairs else 0, to_b
    strange = common.count(0) - 1
    if strange < 8 and common[min(n, strange + 16)] >= min(n - strange, 8):
        return [], 0, strange
    # None of the window is in b; further on there may be what is.
    first = table.first
    ahead = np.flatnonzero(a.ahead(_FAR[-1]) == first)
    return ([], int(ahead[0]), 0) if ahead.size else ([], 0, max(1, strange))


def _agreed(pairs: Pairs, snake: int) -> int:
    """The end of the first `snake` pairs in a row; 0 when there are none."""
    if len(pairs) < snake:
        return 0
    both = np.diff(np.array(pairs), axis=0)
    steps = np.concatenate([[0], np.cumsum((both == 1).all(axis=1))])
    # All of snake - 1 steps from t on lead to the next place on both sides.
    whole = np.flatnonzero(steps[snake - 1 :] - steps[: steps.size - snake + 1] == snake - 1)
    return int(whole[0]) + snake if whole.size else 0


def _anchor(a: Side, b: Side) -> tuple[int, int] | None:
    """Where the first sequence of _GRAM pages lies that occurs once on each side, near before far."""
    for size in _FAR:
        here, there = a.ahead(size), b.ahead(size)
        if min(here.size, there.size) < _GRAM:
            return None
        hashes = [_grams(here), _grams(there)]
        once = []
        for values in hashes:
            unique, place, count = np.unique(values, return_index=True, return_counts=True)
            once.append((unique[count == 1], place[count == 1]))
        _, left, right = np.intersect1d(once[0][0], once[1][0], assume_unique=True, return_indices=True)
        if left.size:
            i, j = once[0][1][left], once[1][1][right]
            first = int(np.argmin(i + j))
            x, y = int(i[first]), int(j[first])
            if np.array_equal(here[x : x + _GRAM], there[y : y + _GRAM]):
                return x, y
        if max(here.size, there.size) < size:
            return None
    return None


def _grams(pages: Words) -> Words:
    """A hash of each _GRAM pages in a row, by doubling."""
    hashes = pages * _ODD
    hashes ^= hashes >> np.uint64(29)
    width, factor = 1, _ODD
    with np.errstate(over="ignore"):
        while width < _GRAM:
            hashes = hashes[:-width] * factor + hashes[width:]
            factor = factor * factor
            width *= 2
    return hashes
