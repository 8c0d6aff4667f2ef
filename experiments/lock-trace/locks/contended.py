# SPDX-License-Identifier: MIT
"""Traces of arm contended: who waited, and who let go of the lock meanwhile. Who takes a lock at once leaves nothing.

Who was waited for is told by numbers, not by clocks. A lock's waits count up a version where they begin and where they
end, which their events carry (`sequence`). A release carries the version just before the lock was let go (`order`) and
just after (`sequence`): it was waited for by those who waited at any version of these. Who gives up leaves a mark,
which the next release takes away; that is the holder's, or that of the first of several readers.

Since when a holder had the lock is not recorded.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from .acquisitions import lock_order, matched, threads_of
from .blame import Times, overlaps
from .events import ABANDONED, ACQUIRED, CONTEXT_BITS, RELEASE, WAITS, Events

_WHO = {"lock": "uint64", "type": "uint8", "site": "uint64", "pid": "uint32", "cpu": "uint16", "context": "uint8"}
WAIT_COLUMNS = {
    **_WHO,  # of the waiter
    "begin": "float64",  # cycles
    "end": "float64",  # when he got the lock or gave up; NaN: he waited when the trace ended
    "first": "float64",  # version of the lock's waits when this one began
    "last": "float64",  # and when it ended; inf: it did not
    "abandoned": "bool",
}
RELEASE_COLUMNS = {
    **_WHO,  # of the holder; site: where he let go
    "time": "float64",  # cycles; just before, of a mutex or rwsem that somebody waited for already, else just after
    "first": "float64",  # version of the lock's waits just before
    "last": "float64",  # and just after
}


def waits_of(events: Events) -> pd.DataFrame:
    """A row per wait, WAIT_COLUMNS, by lock and time."""
    ordered = events[lock_order(events)]
    kind = ordered["kind"]
    where = [ordered["lock"], threads_of(ordered), ordered["context"] & CONTEXT_BITS]
    end = matched(kind == WAITS, (kind == ACQUIRED) | (kind == ABANDONED), where)
    at = np.flatnonzero(kind == WAITS)
    until, ended = ordered[end[at]], end[at] >= 0
    columns = {name: ordered[name][at] for name in _WHO} | {
        "begin": ordered["time"][at],
        "end": np.where(ended, until["time"].astype(np.float64), np.nan),
        "first": ordered["sequence"][at],
        "last": np.where(ended, until["sequence"].astype(np.float64), np.inf),
        "abandoned": ended & (until["kind"] == ABANDONED),
    }
    return _table(columns, WAIT_COLUMNS)


def releases_of(events: Events) -> pd.DataFrame:
    """A row per release that somebody waited for, RELEASE_COLUMNS, by lock and time."""
    ordered = events[lock_order(events)]
    chosen = ordered[ordered["kind"] == RELEASE]
    told = {"time": "time", "first": "order", "last": "sequence"}
    return _table({name: chosen[told.get(name, name)] for name in RELEASE_COLUMNS}, RELEASE_COLUMNS)


def waited_for(waits: pd.DataFrame, releases: pd.DataFrame) -> pd.DataFrame:
    """Who waited for whom: a row per wait and release that belong together, `wait` and `release`, int64 positions in
    both tables, by the first and then by the second.
    """
    parts = [
        _of_lock(waits, releases, waits.index[waits["lock"] == lock], releases.index[releases["lock"] == lock])
        for lock in np.intersect1d(waits["lock"], releases["lock"])
    ]
    pairs = pd.concat([pd.DataFrame({"wait": [], "release": []}), *parts]).astype("int64")
    return pairs.sort_values(["wait", "release"], ignore_index=True)


def _of_lock(waits: pd.DataFrame, releases: pd.DataFrame, w: pd.Index[int], r: pd.Index[int]) -> pd.DataFrame:
    mine = waits.loc[w]
    last = _numbers(mine["last"])
    # The mark of who gave up is taken away by the first release that has looked since.
    looked = releases.loc[r].sort_values("last")
    for i in np.flatnonzero(mine["abandoned"]).tolist():
        took = int(np.searchsorted(looked["last"].to_numpy(), last[i]))
        if took < len(looked):
            last[i] = max(last[i], looked["first"].iloc[took] + 1)
    others = releases.loc[r]
    first, low, high = _numbers(mine["first"]), _numbers(others["first"]), _numbers(others["last"]) + 1
    wait, release = overlaps(first, last, np.arange(len(w)), low, high, np.arange(len(r)))
    return pd.DataFrame({"wait": w.to_numpy()[wait], "release": r.to_numpy()[release]})


def _numbers(column: pd.Series[float]) -> Times:
    return np.array(column, dtype=np.float64)


def _table(columns: dict[str, object], dtypes: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame(columns).astype(dtypes)
