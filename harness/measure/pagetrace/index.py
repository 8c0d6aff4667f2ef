"""Page numbers into small integers, in the order in which pages are first seen."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.measure.pagetrace.records import Words

Kind = TypeVar("Kind", bound=np.generic)


class PageIndex:
    """Gives each page a number from 0 on; memory is proportional to the distinct pages."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, pages: Words) -> npt.NDArray[np.intp]:
        """Numbers of `pages`, shape (n,); pages that are new get the next ones."""
        codes, distinct = pd.factorize(pages)
        known = self._numbers
        numbers = [known.setdefault(page, len(known)) for page in distinct.tolist()]
        return np.array(numbers, dtype=np.intp)[codes]

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
