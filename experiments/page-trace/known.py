# SPDX-License-Identifier: MIT
"""What pageknown says it did, and how a recorded sequence of pages differs from that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Known:
    """One case's answer; `writes` has None where machines differ."""

    name: str
    first: int
    pages: int
    expected: list[int]
    writes: list[bool | None]
    subsequence: bool
    iterations: list[int] | None
    failed: int

    def visits(self, pages: npt.ArrayLike) -> int:
        """How many visits to the arena a recorded sequence of pages has."""
        seen = np.asarray(pages, dtype=np.int64) - self.first
        return len(visits(seen, np.zeros(seen.size, dtype=bool), self.pages)[0])

    def wrong(self, pages: npt.ArrayLike, writes: npt.ArrayLike, *, by_iteration: bool = False) -> str | None:
        """How a recorded sequence differs from the expected one, or None.

        pages: page numbers (address >> 12) of any accesses or visits, in order; those outside of the arena do not
        count, and neighbours that are equal count as one. writes: whether each was a write. by_iteration: the recorder
        counts every iteration of a repeated string instruction.
        """
        seen, first = visits(np.asarray(pages, dtype=np.int64) - self.first, np.asarray(writes, dtype=bool), self.pages)
        if by_iteration and self.iterations is not None:
            return _difference(self.iterations, seen)
        if self.subsequence:
            rest: Iterator[tuple[int, bool | None]] = iter(zip(seen, first, strict=True))
            for k, wanted in enumerate(zip(self.expected, self.writes, strict=True)):
                if wanted not in rest:
                    return f"visit {k} of {self.expected} is missing from {seen}"
            extra = set(seen) - set(self.expected)
            return f"pages {extra} were not touched" if extra else None
        if (text := _difference(self.expected, seen)) is not None:
            return text
        for k, (wanted_write, write) in enumerate(zip(self.writes, first, strict=True)):
            if wanted_write is not None and wanted_write != write:
                return f"visit {k} (page {seen[k]}) begins with a {'write' if write else 'read'}"
        return None


def known_of(answer: Mapping[str, Any]) -> Known:
    """One line of pageknown's output, read as JSON."""
    return Known(
        name=answer["name"],
        first=int(answer["arena"], 16) >> 12,
        pages=answer["pages"],
        expected=answer["expected"],
        writes=[None if write is None else bool(write) for write in answer["writes"]],
        subsequence=answer["subsequence"],
        iterations=answer.get("iterations"),
        failed=answer["failed"],
    )


def visits(pages: npt.NDArray[np.int64], writes: npt.NDArray[np.bool_], n: int) -> tuple[list[int], list[bool]]:
    """Accesses to pages 0..n-1 as visits: the pages, and whether the first access of each visit is a write."""
    inside = (pages >= 0) & (pages < n)
    pages, writes = pages[inside], writes[inside]
    begins = np.flatnonzero(np.diff(pages, prepend=-1))
    return pages[begins].tolist(), writes[begins].tolist()


def _difference(expected: list[int], seen: list[int]) -> str | None:
    if seen == expected:
        return None
    k = next((i for i, pair in enumerate(zip(expected, seen, strict=False)) if pair[0] != pair[1]), None)
    if k is None:
        k = min(len(expected), len(seen))
    around = slice(max(0, k - 4), k + 8)
    return f"{len(seen)} visits, not {len(expected)}; from visit {k}: {seen[around]}, not {expected[around]}"
