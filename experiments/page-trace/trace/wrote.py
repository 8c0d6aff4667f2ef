# SPDX-License-Identifier: MIT
"""Visits that begin with a read and write later. A trace that was asked for them has a record (WROTE) of each.

It comes when the page is taken away: the last visit of that page by that thread wrote.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

#: A thread has at most so many pages at once, so that no WROTE record looks further back among its visits.
MOST_PAGES = 64
_COLUMNS = ["at", "tid", "page", "wrote", "write"]

Places = npt.NDArray[np.int64]


def later_writes(chunks: Iterable[pd.DataFrame]) -> Places:
    """Positions, sorted, of visits that do not begin with a write and are, or belong to, one that writes.

    `chunks`, in order, of visits and WROTE records: at int64, its position; tid; page; wrote bool, it is a WROTE
    record; write bool, it begins with a write. Consecutive records of a page by a thread are one visit.
    """
    found: list[Places] = []
    carried = pd.DataFrame(columns=_COLUMNS)
    for chunk in chunks:
        table = pd.concat([carried, chunk[_COLUMNS]], ignore_index=True) if len(carried) else chunk[_COLUMNS]
        table = table.sort_values(["tid", "page", "at"])
        same = (table[["tid", "page"]].to_numpy()[1:] == table[["tid", "page"]].to_numpy()[:-1]).all(axis=1)
        told = np.flatnonzero(table["wrote"].to_numpy(bool)[1:] & same)  # in front of each stands its visit
        visits = table[~table["wrote"].to_numpy(bool)].sort_values(["tid", "at"])
        visits = visits.assign(wrote=visits["at"].isin(table["at"].to_numpy()[told]))
        found.append(_of_whole_visits(visits))
        visits["write"] = visits["write"].to_numpy(bool) | visits["wrote"].to_numpy(bool)
        carried = visits.assign(wrote=False).groupby("tid", sort=False).tail(MOST_PAGES + 1)
    return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)


def _of_whole_visits(visits: pd.DataFrame) -> Places:
    """Of records by thread and time: those that wrote later, and the first of each run of one page that writes."""
    if visits.empty:
        return np.empty(0, dtype=np.int64)
    at, write = visits["at"].to_numpy(np.int64), visits["write"].to_numpy(bool)
    places = visits[["tid", "page"]].to_numpy()
    begins = np.flatnonzero(np.concatenate([[True], (places[1:] != places[:-1]).any(axis=1)]))
    writes = np.logical_or.reduceat(write | visits["wrote"].to_numpy(bool), begins)
    return np.concatenate([at[visits["wrote"].to_numpy(bool)], at[begins[writes & ~write[begins]]]])


def within(places: Places, first: int, n: int) -> Places:
    """Those of sorted `places` that lie in the n from `first` on, counted from there."""
    low, high = np.searchsorted(places, [first, first + n])
    return places[low:high] - first
