# SPDX-License-Identifier: MIT
"""Visits that begin with a read and write later. A trace that was asked for them has a record (WROTE) of each.

It comes when the page is taken away: the last visit of that page by that thread wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from .index import PageIndex, distinct, stable_order

#: A thread has at most so many pages at once, so that no WROTE record looks further back among its visits.
MOST_PAGES = 64

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Told:
    """n visits and WROTE records in their order, shape (n,). at: positions; wrote: it is a WROTE record; write: it is a
    visit that begins with a write.
    """

    at: Places
    tid: npt.NDArray[np.uint32]
    page: npt.NDArray[np.uint64]
    wrote: npt.NDArray[np.bool_]
    write: npt.NDArray[np.bool_]

    def where(self, places: Places) -> Told:
        """Those at `places`."""
        return Told(*(getattr(self, name)[places] for name in self.__dataclass_fields__))

    def behind(self, other: Told) -> Told:
        """The other's, and these behind them."""
        names = self.__dataclass_fields__
        return Told(*(np.concatenate([getattr(other, name), getattr(self, name)]) for name in names))


def later_writes(chunks: Iterable[Told]) -> Places:
    """Positions, sorted, of visits that do not begin with a write and are, or belong to, one that writes.

    Consecutive records of a page by a thread are one visit.
    """
    found: list[Places] = []
    carried: Told | None = None
    index = PageIndex()
    for chunk in chunks:
        told = chunk if carried is None else chunk.behind(carried)
        if not told.at.size:
            continue
        # One thread is the rule; of several, each has pages of its own.
        several = bool((told.tid != told.tid[0]).any())
        thread, threads = pd.factorize(told.tid) if several else (np.zeros(1, np.intp), told.tid[:1])
        number = index.of(told.page)
        key = thread * len(index) + number if several else number
        order = stable_order(key, threads.size * len(index))
        written = told.write.copy()
        # In front of each WROTE record of a page stands its visit.
        wrote = np.flatnonzero(told.wrote[order[1:]])
        before, behind = order[wrote], order[wrote + 1]
        written[before[key[before] == key[behind]]] = True
        visits = np.flatnonzero(~told.wrote)
        visits = visits[stable_order(thread[visits], threads.size)] if several else visits
        later = written & ~told.write
        begins = np.flatnonzero(np.diff(key[visits], prepend=-1))
        if begins.size < visits.size:
            writes = np.logical_or.reduceat(written[visits], begins)
            later[visits[begins[writes & ~told.write[visits[begins]]]]] = True
        found.append(told.at[later])
        if several:
            last = np.cumsum(np.bincount(thread[visits], minlength=threads.size))[thread[visits]]
            kept = np.sort(visits[last - np.arange(visits.size) <= MOST_PAGES + 1])
        else:
            kept = visits[-MOST_PAGES - 1 :]
        carried = Told(told.at, told.tid, told.page, told.wrote, written).where(kept)
    # Those that were carried may be there twice.
    return distinct(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)


def within(places: Places, first: int, n: int) -> Places:
    """Those of sorted `places` that lie in the n from `first` on, counted from there."""
    low, high = np.searchsorted(places, [first, first + n])
    return places[low:high] - first
