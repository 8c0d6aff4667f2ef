# SPDX-License-Identifier: MIT
"""How long visits last by a trace, and how many accesses they then have, beside the same program undisturbed.

Both sequences are lined up. Of two visits in a row that are equal on both sides, the first one's duration is compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from .align import align
from .cost import Clock, Cost
from .maps import Maps
from .records import VISIT, Records, Words

Floats = npt.NDArray[np.float64]

#: Accesses of a visit from which on its estimate is judged, and so many such visits a program must have.
LONG, LEAST_LONG = 100, 10


@dataclass
class _Side:
    """A sequence in memory: see `align.Side`."""

    page: Words
    at: int = 0

    def ahead(self, n: int) -> Words:
        return self.page[self.at : self.at + n]

    def advance(self, n: int) -> None:
        self.at += n


@dataclass(frozen=True)
class Dwells:
    """n visits that are equal on both sides, shape (n,): ns traced, ns less the tracer's own, ns undisturbed, and the
    exact number of accesses. And for the whole program: ns less the tracer's own, ns undisturbed, accesses; and of how
    many visits the n are.
    """

    traced: Floats
    corrected: Floats
    exact: Floats
    accesses: Floats
    whole_corrected: float
    whole_exact: float
    whole_accesses: float
    visits: int


def dwells(trace: Iterable[Records], exact: Iterable[pd.DataFrame], maps: Maps, cost: Cost) -> Dwells:
    """Line up the records of a program with the oracle's runs (page, ns, count) of an undisturbed one."""
    pages, times, own = [], [], []
    clock = Clock(cost)
    for records in trace:
        made = records.type == VISIT
        own.append(clock.own_ns(records)[made])
        pages.append(records.page[made])
        times.append(records.time_ns[made])
    page, time, left = np.concatenate(pages), np.concatenate(times).astype(np.float64), np.concatenate(own)
    runs = pd.concat([frame[["page", "ns", "count"]] for frame in exact], ignore_index=True)
    runs = runs[~maps.code(runs["page"].to_numpy(dtype=np.uint64))]
    page_exact, begin = _collapsed(runs["page"].to_numpy(dtype=np.uint64))
    start = runs["ns"].to_numpy(dtype=np.float64)[begin]
    accesses = np.add.reduceat(runs["count"].to_numpy(dtype=np.float64), begin) if begin.size else np.empty(0)
    data = ~maps.code(page)
    page, time, left = page[data], time[data], left[data]
    page, begin = _collapsed(page)
    time, left = time[begin], left[begin]
    ours, theirs = _equal(page, page_exact)
    # The last visit of either side has no end here.
    both = (np.diff(ours, append=-1) == 1) & (np.diff(theirs, append=-1) == 1)
    ours, theirs = ours[both], theirs[both]
    return Dwells(
        traced=np.diff(time)[ours],
        corrected=np.maximum(np.diff(left)[ours], 0.0),
        exact=np.diff(start)[theirs],
        accesses=accesses[theirs],
        whole_corrected=float(left[-1] - left[0]) if left.size else 0.0,
        whole_exact=float(start[-1] - start[0]) if start.size else 0.0,
        whole_accesses=float(accesses.sum()),
        visits=int(page_exact.size),
    )


def errors(told: Dwells, cost: Cost) -> dict[str, float | int]:
    """Medians of what a program's visits are wrong by; NaN where it has too few of `LONG` accesses."""
    long = told.accesses >= LONG
    judged = np.count_nonzero(long) >= LEAST_LONG
    own_ns = told.whole_exact / told.whole_accesses if told.whole_accesses else np.nan
    count = np.maximum(told.corrected / cost.access_ns, 1.0)
    own = np.maximum(told.corrected / own_ns, 1.0)

    def share(estimate: Floats, exact: Floats) -> float:
        wrong = np.abs(estimate - exact)[long & (exact > 0)] / exact[long & (exact > 0)]
        return float(np.median(wrong)) if judged and wrong.size else np.nan

    def short(estimate: Floats, exact: Floats) -> float:
        return float(np.median(np.abs(estimate - exact)[~long])) if (~long).any() else np.nan

    return {
        "compared": int(told.exact.size),
        "visits": told.visits,
        "long": int(np.count_nonzero(long)),
        "traced_error": share(told.traced, told.exact),
        "dwell_error": share(told.corrected, told.exact),
        "count_error": share(count, told.accesses),
        "count_error_own": share(own, told.accesses),
        "short_ns": short(told.corrected, told.exact),
        "short_accesses": short(count, told.accesses),
        "own_access_ns": own_ns,
        "time_error": abs(told.whole_corrected / told.whole_exact - 1) if told.whole_exact else np.nan,
    }


def _collapsed(page: Words) -> tuple[Words, npt.NDArray[np.intp]]:
    """One for each run of a page, and where it begins."""
    begin = np.flatnonzero(np.concatenate([np.ones(min(1, page.size), bool), page[1:] != page[:-1]]))
    return page[begin], begin


def _equal(ours: Words, theirs: Words) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Places of visits that are equal on both sides, in order."""
    exact, seen = _Side(theirs), _Side(ours)
    left, right = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for step in align(exact, seen):
        if step.equal:
            left.append(np.arange(seen.at, seen.at + step.b))
            right.append(np.arange(exact.at, exact.at + step.a))
    return np.concatenate(left), np.concatenate(right)
