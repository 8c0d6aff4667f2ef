# SPDX-License-Identifier: MIT
"""Acquisitions: who asked for which lock, when it was got and let go, put together from single events."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from .events import (
    ABANDONED,
    ACQUIRED,
    ATTEMPT,
    CONFLICT,
    CONTEXT_BITS,
    FAILED,
    INIT,
    RELEASE,
    SHARED,
    STREAM_PER_LOCK,
    WAITS,
    Events,
    Flags,
    Indices,
)
from .replay import is_attempt, is_try, since, starts

#: Sums of wait and hold times are float64: exact to 2**53 cycles, some weeks.
COLUMNS = {
    "lock": "uint64",  # address
    "generation": "int64",  # how often the lock was initialised before
    "type": "uint8",
    "site": "uint64",  # of the acquisition
    "pid": "uint32",
    "cpu": "uint16",  # where it began
    "context": "uint8",
    "begin": "float64",  # time of the attempt or the successful trylock, cycles; NaN: not seen
    "acquired": "float64",  # NaN: never
    "end": "float64",  # time of the release, or of giving up; NaN: not seen
    "contended": "bool",  # the trylock failed: it had to wait
    "depth": "uint32",  # how many others held or waited
    "abandoned": "bool",
}


def lock_order(events: Events) -> Indices:
    """Indices of the events by lock, and within a lock by time: its holders follow each other by any CPU's clock."""
    return np.asarray(
        np.lexsort((events["position"], events["cpu"], events["sequence"], events["time"], events["lock"])),
        dtype=np.int64,
    )


def acquisitions(events: Events) -> pd.DataFrame:
    """One row per acquisition of one stream, COLUMNS, in `lock_order` of their first events. An acquisition of which
    only a part was traced has NaN for the rest; failed trylocks and releases alone are none.
    """
    ordered = events[lock_order(events)]
    lock = ordered["lock"]
    generation = pd.Series(ordered["kind"] == INIT).groupby(lock, sort=False).cumsum().to_numpy(dtype=np.int64)
    kind, tried = ordered["kind"], is_try(ordered)
    got = kind == ACQUIRED
    where = [lock, generation]
    # A wait ends with its own thread's next event; an interrupt of the thread may wait for the same lock meanwhile.
    ends_wait = (got & ~tried) | (kind == ABANDONED)
    wait_end = matched(kind == ATTEMPT, ends_wait, [*where, threads_of(ordered), ordered["context"] & CONTEXT_BITS])
    # Exclusive holders follow each other; of several readers, which one another task lets go of is not known.
    shared = np.isin(ordered["type"], SHARED)
    let_go = kind == RELEASE
    hold_end = matched(got & ~shared, let_go & ~shared, where)
    readers = matched(got & shared, let_go & shared, [*where, threads_of(ordered)])
    hold_end[shared] = readers[shared]
    # The per-lock filter's releases say which acquisition they end, by its time.
    told = np.flatnonzero(let_go & (ordered["stream"] == STREAM_PER_LOCK) & (ordered["order"] != 0))
    ends = dict(zip(zip(lock[told].tolist(), ordered["order"][told].tolist(), strict=True), told.tolist(), strict=True))
    for i in np.flatnonzero(got & (ordered["stream"] == STREAM_PER_LOCK)).tolist():
        hold_end[i] = ends.get((int(lock[i]), int(ordered["time"][i])), hold_end[i])
    return _rows(ordered, generation, wait_end, hold_end, is_attempt(ordered))


def threads_of(events: Events | pd.DataFrame) -> Indices:
    """Who did what: the pid. The CPUs' idle tasks all have pid 0; each stays on its CPU, which tells them apart."""
    pid = events["pid"].astype(np.int64)
    return np.asarray(np.where(pid == 0, -1 - events["cpu"].astype(np.int64), pid))


def matched(opens: Flags, closes: Flags, key: list[npt.NDArray[np.generic]]) -> Indices:
    """For every element that opens, the index of the one that closes it as brackets do, within one key; -1: none."""
    result = np.full(len(opens), -1, dtype=np.int64)
    at = np.flatnonzero(opens | closes)
    if not at.size:
        return result
    group = pd.DataFrame({str(i): column[at] for i, column in enumerate(key)}).groupby(list(map(str, range(len(key)))))
    number = group.ngroup().to_numpy()
    step = np.where(opens[at], 1, -1)
    by_group = pd.Series(step).groupby(number, sort=False)
    total = by_group.cumsum()
    low = total.groupby(number, sort=False).cummin().clip(upper=0)
    # What brings the sum below all before it closes something that was never seen to open.
    unopened = total.to_numpy() < low.groupby(number, sort=False).shift(fill_value=0).to_numpy()
    level = (total - low).to_numpy() + (step < 0)
    order = np.lexsort((np.arange(at.size), level, number))
    order = order[~unopened[order]]
    left, right = order[:-1], order[1:]
    pair = (number[left] == number[right]) & (level[left] == level[right]) & (step[left] > 0) & (step[right] < 0)
    result[at[left[pair]]] = at[right[pair]]
    return result


def _rows(ordered: Events, generation: Indices, wait_end: Indices, hold_end: Indices, attempts: Flags) -> pd.DataFrame:
    time = ordered["time"].astype(np.float64)
    nan = np.full(len(ordered), np.nan)
    waited = wait_end >= 0
    # Where each acquisition was got: at the end of its wait, or at itself for what has no attempt.
    got = np.where(ordered["kind"] == ACQUIRED, np.arange(len(ordered)), -1)
    got[waited] = np.where(ordered["kind"][wait_end[waited]] == ACQUIRED, wait_end[waited], -1)
    first = attempts.copy()
    first |= ordered["kind"] == ACQUIRED
    first[wait_end[waited]] = False
    abandoned = np.zeros(len(ordered), dtype=bool)
    abandoned[waited] = ordered["kind"][wait_end[waited]] == ABANDONED
    acquired, end = nan.copy(), nan.copy()
    has = got >= 0
    acquired[has] = time[got[has]]
    released = np.where(has, hold_end[got], -1)
    end[released >= 0] = time[released[released >= 0]]
    end[abandoned] = time[wait_end[abandoned]]
    begin = np.where(attempts, time, np.nan)
    columns = {
        "lock": ordered["lock"],
        "generation": generation,
        "type": ordered["type"],
        "site": ordered["site"],
        "pid": ordered["pid"],
        "cpu": ordered["cpu"],
        "context": ordered["context"] & CONTEXT_BITS,
        "begin": begin,
        "acquired": acquired,
        "end": end,
        "contended": (ordered["flags"] & CONFLICT != 0) & attempts,
        "depth": np.where(attempts, ordered["depth"], 0),
        "abandoned": abandoned,
    }
    return pd.DataFrame({name: column[first] for name, column in columns.items()}).astype(COLUMNS)


def with_conflicts(events: Events) -> Events:
    """A copy in which the attempts of those who had to wait say so (CONFLICT), and how many others held the lock or
    waited for it (depth): those whose wait had begun and not ended, by the order of times, and the holder.
    """
    told = events.copy()
    order = lock_order(told)
    ordered = told[order]
    kind, first = ordered["kind"], starts(ordered["lock"])
    waits = kind == WAITS
    where = [ordered["lock"], threads_of(ordered), ordered["context"] & CONTEXT_BITS]
    # A thread whose trylock failed says so next, of this lock; an interrupt meanwhile is another context.
    begun = matched(kind == ATTEMPT, waits, where)
    ended = matched(waits, ((kind == ACQUIRED) & ~is_try(ordered)) | (kind == ABANDONED), where)
    steps = waits.astype(np.int64)
    np.subtract.at(steps, ended[ended >= 0], 1)
    waiting = since(np.cumsum(steps), steps, first)
    attempts = np.flatnonzero(begun >= 0)
    depth = ordered["depth"].copy()
    depth[attempts] = waiting[begun[attempts]]
    flags = ordered["flags"].copy()
    flags[attempts] |= CONFLICT
    told["flags"][order], told["depth"][order] = flags, depth
    return told


def first_attempts(events: Events) -> Events:
    """Without the attempts that repeat one: the kernel's own trace points say so each time that a wait begins anew."""
    order = lock_order(events)
    ordered = events[order]
    thread = [ordered["lock"], threads_of(ordered), ordered["context"] & CONTEXT_BITS]
    by_thread = np.lexsort([np.arange(len(ordered)), *thread[::-1]])
    same = np.ones(max(len(ordered) - 1, 0), dtype=bool)
    for key in (*thread, ordered["kind"]):
        same &= key[by_thread][1:] == key[by_thread][:-1]
    again = np.zeros(len(ordered), dtype=bool)
    again[by_thread[1:]] = same & (ordered["kind"][by_thread][1:] == ATTEMPT)
    return np.asarray(ordered[~again])


def failures(events: Events) -> pd.DataFrame:
    """Failed trylocks of callers: lock uint64, type uint8, site uint64."""
    ordered = events[events["kind"] == FAILED]
    return pd.DataFrame({name: ordered[name] for name in ("lock", "type", "site")})


SITE_COLUMNS = {
    "acquisitions": "int64",  # got
    "contended": "int64",  # of them, had to wait
    "failed": "int64",  # trylocks
    "abandoned": "int64",  # waits that were given up
    "wait_total": "float64",  # cycles from the attempt to the acquisition, of all whose attempt was seen
    "wait_max": "float64",
    "waits": "int64",  # how many these are
    "hold_total": "float64",  # cycles from the acquisition to the release, of all whose release was seen
    "hold_max": "float64",
    "holds": "int64",
    "depth_max": "int64",  # longest chain of waiters: most others that held or waited where one more had to wait
}


def by_key(taken: pd.DataFrame, failed: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """SITE_COLUMNS by the columns `key` of both tables (`acquisitions` and `failures`), sorted by them."""
    table = taken.assign(
        got=taken["acquired"].notna(),
        clash=taken["contended"] & taken["acquired"].notna(),
        wait=taken["acquired"] - taken["begin"],
        hold=(taken["end"] - taken["acquired"]).where(~taken["abandoned"]),
        depth=taken["depth"].where(taken["contended"] & taken["acquired"].notna(), 0),
    )
    sums = table.groupby(key, dropna=False).agg(
        acquisitions=("got", "sum"),
        contended=("clash", "sum"),
        abandoned=("abandoned", "sum"),
        wait_total=("wait", "sum"),
        wait_max=("wait", "max"),
        waits=("wait", "count"),
        hold_total=("hold", "sum"),
        hold_max=("hold", "max"),
        holds=("hold", "count"),
        depth_max=("depth", "max"),
    )
    both = sums.join(failed.assign(one=1).groupby(key, dropna=False).agg(failed=("one", "size")), how="outer")
    # The longest of none is not known; how many there are, and their sum, is.
    counts = [name for name in SITE_COLUMNS if name not in ("wait_max", "hold_max")]
    both[counts] = both[counts].fillna(0)
    return both.reset_index().astype(SITE_COLUMNS)[[*key, *SITE_COLUMNS]]
