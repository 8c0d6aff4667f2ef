# SPDX-License-Identifier: MIT
"""Page visits as slices for a timeline viewer: one track per region of memory, a bounded number of slices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.measure.views import TIMELINE_COLUMNS

from .records import PAGE_SHIFT, Words

#: Pages that nothing in between is visited for so long belong to different regions: 4 MiB.
REGION_GAP = 1024
MOST_SLICES = 20_000


def regions(pages: Words, gap: int = REGION_GAP) -> npt.NDArray[np.intp]:
    """The number of each page's region, shape (n,): regions lie more than `gap` pages apart and are numbered from the
    lowest address on.
    """
    distinct, codes = np.unique(pages, return_inverse=True)
    if not distinct.size:
        return np.empty(0, dtype=np.intp)
    number = np.concatenate([[0], np.cumsum(np.diff(distinct) > gap)]).astype(np.intp)
    return np.asarray(number[codes])


def page_slices(visits: pd.DataFrame, process: str, most: int = MOST_SLICES) -> pd.DataFrame:
    """A timeline of a table of visits (`visits.visit_table`), with TIMELINE_COLUMNS.

    Visits of one region that lie close together become one slice when there are more than `most`: those with the
    shortest gaps between them first. A visit whose end is not known ends with the next one of its region, or at once.
    """
    if visits.empty:
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in TIMELINE_COLUMNS.items()})
    page = visits["page"].to_numpy(dtype=np.uint64)
    region = regions(page)
    order = np.lexsort((visits["start_ns"].to_numpy(), region))
    page, region = page[order], region[order]
    start = visits["start_ns"].to_numpy(dtype=np.float64)[order]
    end = start + visits["dwell_ns"].fillna(0).to_numpy(dtype=np.float64)[order]
    write = visits["write"].to_numpy(dtype=bool)[order]
    same = region[1:] == region[:-1]
    # Slices of a track must not overlap: with threads they may.
    end[:-1] = np.where(same, np.minimum(end[:-1], start[1:]), end[:-1])
    gap = np.where(same, start[1:] - end[:-1], np.inf)
    apart = _largest(gap, most - 1) if page.size > most else np.ones(gap.size, dtype=bool)
    begins = np.flatnonzero(np.concatenate([[True], apart]))
    ends = np.append(begins[1:], page.size) - 1
    low = np.minimum.reduceat(page, np.flatnonzero(np.concatenate([[True], ~same])))[region]
    tracks = [f"region {int(first) << PAGE_SHIFT:#x}" for first in low[begins]]
    return pd.DataFrame(
        {
            "process": process,
            "track": tracks,
            "name": [_name(page[a : b + 1], write[a : b + 1]) for a, b in zip(begins, ends, strict=True)],
            "start_s": start[begins] / 1e9,
            "duration_s": (end[ends] - start[begins]) / 1e9,
        }
    )


def _largest(gap: npt.NDArray[np.float64], most: int) -> npt.NDArray[np.bool_]:
    """The borders between regions, and as many of the largest other gaps as `most` allows."""
    chosen = np.isinf(gap)
    rest = max(0, most - int(chosen.sum()))
    if rest:
        chosen[np.argsort(-gap, kind="stable")[: int(chosen.sum()) + rest]] = True
    return chosen


def _name(page: Words, write: npt.NDArray[np.bool_]) -> str:
    if page.size == 1:
        return f"{int(page[0]) << PAGE_SHIFT:#x} {'write' if write[0] else 'read'}"
    distinct = np.unique(page).size
    return f"{page.size} visits, {distinct} page{'s' if distinct > 1 else ''}, {np.count_nonzero(write)} writes"
