# SPDX-License-Identifier: MIT
"""Waits and holds on a time line with an arrow from each holder to who waited for it, for https://ui.perfetto.dev."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from harness.measure.traceevents import Event, arrow, thread_name, time_slice, write_events

#: Pairs of a wait and a hold that a file has at most: browsers show so many.
MOST = 20_000


def write_flows(named: pd.DataFrame, pairs: pd.DataFrame, cycles_per_second: float, path: Path) -> int:
    """Write the longest pairs, MOST at most, with the waits and holds they are of; how many pairs these are.

    `named`: the acquisitions, with class, caller and thread.
    """
    spent = (pairs["end"] - pairs["begin"]).to_numpy()
    shown = pairs.iloc[np.sort(np.argsort(-spent, kind="stable")[:MOST])]
    write_events(_events(named, shown, cycles_per_second), path)
    return len(shown)


def _events(named: pd.DataFrame, pairs: pd.DataFrame, cycles_per_second: float) -> Iterator[Event]:
    begin, got, end = (named[name].to_numpy(np.float64) for name in ("begin", "acquired", "end"))
    until = np.where(named["abandoned"].to_numpy(bool), end, got)
    thread, caller, lock = (named[name].tolist() for name in ("thread", "caller", "class"))
    waiters, holders = (np.unique(pairs[name].to_numpy()) for name in ("waiter", "holder"))
    if not len(pairs):
        return
    zero = min(begin[waiters].min(), got[holders].min())
    track = {name: i + 1 for i, name in enumerate(sorted({thread[i] for i in [*waiters, *holders]}))}

    def ns(cycles: float) -> float:
        return float(cycles) / cycles_per_second * 1e9

    for name, tid in track.items():
        yield thread_name(1, tid, name)
    for rows, word, first, last in ((waiters, "waits for", begin, until), (holders, "holds", got, end)):
        for i in rows.tolist():
            tid, since, lasted = track[thread[i]], ns(first[i] - zero), ns(last[i] - first[i])
            yield time_slice(f"{word} {lock[i]}", 1, tid, since, lasted, cat=word, args={"at": caller[i]})
    columns = (pairs[name].tolist() for name in ("waiter", "holder", "begin", "end"))
    for number, (waiter, holder, since, to) in enumerate(zip(*columns, strict=True)):
        tids = track[thread[holder]], track[thread[waiter]]
        # At the middle of the time in which both lasted, so that both ends are inside their slices.
        yield from arrow(number, "held", "blame", 1, tids, ns((since + to) / 2 - zero))
