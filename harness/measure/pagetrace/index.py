"""Page numbers into small integers, in the order in which pages are first seen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.measure.pagetrace.records import Words

Kind = TypeVar("Kind", bound=np.generic)
Numbers = npt.NDArray[np.intp]


@dataclass
class Groups:
    """n places with a page each, d distinct ones.

    number   (n,) intp  of each place's page
    numbers  (d,) intp  of the distinct pages, by first place
    """

    number: Numbers
    numbers: Numbers
    _codes: Numbers

    @cached_property
    def order(self) -> Numbers:
        """(n,) places sorted by page, in the order of `numbers`, each page's places in their own order."""
        return stable_order(self._codes, self.numbers.size)

    @cached_property
    def first(self) -> Numbers:
        """(d,) where each page's places begin in `order`."""
        counts = np.bincount(self._codes, minlength=self.numbers.size)
        return np.concatenate([np.zeros(1, np.intp), np.cumsum(counts)[:-1]]) if counts.size else counts

    @cached_property
    def last(self) -> Numbers:
        """(d,) where they end, the last one included."""
        return np.append(self.first[1:], self.number.size) - 1 if self.numbers.size else self.first


def stable_order(codes: Numbers, distinct: int) -> Numbers:
    """Places sorted by code, of which there are `distinct` from 0 on; those of 16 bits are sorted by radix."""
    return np.argsort(codes.astype(np.uint16) if distinct <= 1 << 16 else codes, kind="stable")


class PageIndex:
    """Gives each page a number from 0 on; memory is proportional to the distinct pages."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, pages: Words) -> Numbers:
        """Numbers of `pages`, shape (n,); pages that are new get the next ones."""
        return self.grouped(pages).number

    def grouped(self, pages: Words) -> Groups:
        """The same, with places by page."""
        codes, distinct = pd.factorize(pages)
        known = self._numbers
        numbers = np.array([known.setdefault(page, len(known)) for page in distinct.tolist()], dtype=np.intp)
        return Groups(numbers[codes], numbers, codes)

    def pages(self) -> Words:
        """The pages in the order of their numbers."""
        return np.fromiter(self._numbers, dtype=np.uint64, count=len(self._numbers))

    def grown(self, array: npt.NDArray[Kind], fill: int = 0) -> npt.NDArray[Kind]:
        """`array` with room for all numbers along its first axis: itself, or a copy of at least twice the length."""
        if len(array) >= len(self._numbers):
            return array
        wide = np.full((max(2 * len(array), len(self._numbers)), *array.shape[1:]), fill, dtype=array.dtype)
        wide[: len(array)] = array
        return wide
