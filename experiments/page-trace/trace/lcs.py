# SPDX-License-Identifier: MIT
"""Longest common subsequences of short sequences, by the bits of long integers (Hyyrö 2004)."""

from __future__ import annotations

from collections.abc import Sequence

Pairs = list[tuple[int, int]]


class Lcs:
    """The table of two sequences of n and m pages: n * m bits, m steps on integers of n bits.

    Bit x of row y is clear where a[x] makes the common subsequence of a[:x + 1] and b[:y] longer than that of a[:x].
    """

    def __init__(self, a: Sequence[int], b: Sequence[int]) -> None:
        self.size = len(a)
        self.first = b[0] if len(b) else None
        masks: dict[int, int] = {}
        bit = 1
        for page in a:
            masks[page] = masks.get(page, 0) | bit
            bit <<= 1
        full = row = bit - 1
        self.rows = [row]
        for page in b:
            mask = masks.get(page)
            if mask is not None:
                hit = row & mask
                row = ((row + hit) | (row - hit)) & full
            self.rows.append(row)

    def length(self, y: int) -> int:
        """Of the longest common subsequence of a and b[:y]."""
        return self.size - self.rows[y].bit_count()

    def pairs(self, y: int) -> Pairs:
        """Positions in a and b of one longest common subsequence of a and b[:y], as far left in a as can be."""
        pairs: Pairs = []
        x = self.size
        while x and y:
            bit = 1 << (x - 1)
            if self.rows[y] & bit:
                # Nothing of it lies at x - 1: go to the highest clear bit below.
                clear = ~self.rows[y] & (bit - 1)
                x = clear.bit_length()
            elif self.rows[y - 1] & bit:
                x, y = x - 1, y - 1
                pairs.append((x, y))
            else:
                y -= 1
        pairs.reverse()
        return pairs
