# SPDX-License-Identifier: MIT
"""The switches that an observer saw against the kernel's own sched_switch trace of the same CPU.

The slot counts switches, so the k-th switch of the slot is the k-th event of the trace, but for where each begins to
count. That one number, the offset, is found by time, for each stretch of the trace without a loss: of every switch with
a time the nearest event, and of all these the offset that most of them have. From there on only counting decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from .records import FIRST, GAP, LOST_BEFORE, TORN, Flags, Ints, Records

#: In `Matched.event`: no event of the trace is known to be this switch.
NONE = -1


@dataclass(frozen=True)
class Matched:
    """Every switch of a log with n entries, and its event.

    event    (n,) int64   number of the event in the trace, or NONE: torn, or outside of what the trace covers
    inside   (n,) bool    lies in a stretch that the trace covers
    wrong    (n,) bool    inside, and the thread is another than the trace's
    lag      (n,) int64   slot's time less the event's, cycles; 0 where there is no event
    lost     int          inside by its time, and by its count beyond the stretch's ends
    drift    int          how much the offset changed within the longest stretch: switches that the slot did not count
    """

    event: Ints
    inside: Flags
    wrong: Flags
    lag: Ints
    lost: int
    drift: int


def match(log: Records, trace: Records) -> Matched:
    """Both in order of time; `log` with fields of SWITCH, `trace` with those of EVENT and of one CPU."""
    n = len(log)
    event = np.full(n, NONE, dtype=np.int64)
    rest = ((log["flags"] & TORN) == 0) & (log["count"] > 0)
    when, at = log["time"].astype(np.int64), trace["time"].astype(np.int64)
    count = log["count"].astype(np.int64)
    lost, drift, longest = 0, 0, -1
    for first, last in stretches(trace):
        mine = np.flatnonzero(rest & (when >= at[first]) & (when <= at[last]))
        if not mine.size:
            continue
        guess = first + nearest(at[first : last + 1], when[mine]) - count[mine]
        number = count + mode(guess)
        # The first and the last event may be the slot's before or after their time: by number, not by time.
        near = np.flatnonzero(rest & (number >= first) & (number <= last) & (event == NONE))
        event[near] = number[near]
        lost += int(((number[mine] < first) | (number[mine] > last)).sum())
        if mine.size > longest:
            longest, part = mine.size, max(1, mine.size // 10)
            drift = mode(guess[-part:]) - mode(guess[:part])
    found = event != NONE
    wrong = np.zeros(n, dtype=bool)
    wrong[found] = log["pid"][found] != trace["next"][event[found]]
    lag = np.zeros(n, dtype=np.int64)
    lag[found] = when[found] - at[event[found]]
    inside = found.copy()
    _torn(log, trace, event, inside, wrong)
    return Matched(event, inside, wrong, lag, lost, drift)


def _torn(log: Records, trace: Records, event: Ints, inside: Flags, wrong: Flags) -> None:
    """A torn entry's thread must be one of those that the trace has between its neighbours' events."""
    found = np.flatnonzero(event != NONE)
    if not found.size:
        return
    for at in np.flatnonzero((log["flags"] & TORN) != 0):
        after = int(np.searchsorted(found, at))
        if 0 < after < found.size:
            low, high = int(event[found[after - 1]]), int(event[found[after]])
            inside[at] = True
            wrong[at] = log["pid"][at] not in trace["next"][low : high + 1]


def stretches(trace: Records) -> list[tuple[int, int]]:
    """First and last number of events with none lost between them."""
    if not len(trace):
        return []
    begins = np.flatnonzero((trace["flags"] & LOST_BEFORE) != 0)
    begins = np.union1d([0], begins)
    ends = np.append(begins[1:], len(trace)) - 1
    return [(int(first), int(last)) for first, last in zip(begins, ends, strict=True)]


def nearest(sorted_times: Ints, times: Ints) -> Ints:
    """Index of the nearest of `sorted_times`, shape (m,) with m > 0, for each of `times`; the earlier of two."""
    after = np.searchsorted(sorted_times, times).clip(1, max(1, sorted_times.size - 1))
    if sorted_times.size == 1:
        return np.zeros(times.shape, dtype=np.int64)
    nearer = times - sorted_times[after - 1] <= sorted_times[after] - times
    return np.asarray(after - nearer, dtype=np.int64)


def mode(values: Ints) -> int:
    """The value that occurs most; the least of several."""
    found, count = np.unique(values, return_counts=True)
    return int(found[np.argmax(count)])


def summary(log: Records, trace: Records, matched: Matched) -> dict[str, float]:
    """Numbers of switches: in the trace between the first and the last that was seen (`events`), of them seen, missed;
    threads that were wrong; switches that have no event; torn ones; the lag of the slot's time in cycles.
    """
    found = matched.event[matched.event != NONE]
    nothing = {"events": 0.0, "seen": 0.0, "missed": np.nan, "missed_share": np.nan}
    if found.size > 1:
        low, high = int(found.min()), int(found.max())
        covered = sum(
            min(last, high) - max(first, low) + 1 for first, last in stretches(trace) if first <= high and last >= low
        )
        events = covered - 1
        torn = int((matched.inside & (matched.event == NONE)).sum())
        seen = min(events, int(np.unique(found).size) - 1 + torn)
        nothing = {
            "events": float(events),
            "seen": float(seen),
            "missed": float(events - seen),
            "missed_share": (events - seen) / events if events else np.nan,
        }
    lag = matched.lag[matched.event != NONE]
    return nothing | {
        "compared": float(matched.inside.sum()),
        "wrong": float(matched.wrong.sum()),
        "unmatched": float(matched.lost),
        "drift": float(matched.drift),
        "torn": float(((log["flags"] & TORN) != 0).sum()),
        "lag_median": float(np.median(lag)) if lag.size else np.nan,
        "lag_most": float(np.abs(lag).max()) if lag.size else np.nan,
    }


# -- who ran when ---------------------------------------------------------------------------------------------


def spans_seen(log: Records) -> pd.DataFrame:
    """What the observer saw: pid, begin, end (cycles, int64), and `whole`: the very next switch ended it.

    Where switches were missed the thread is shown until the next one that was seen. A torn entry has the observer's
    clock in place of the slot's.
    """
    torn = (log["flags"] & TORN) != 0
    time = np.where(torn, log["seen"], log["time"]).astype(np.int64)
    # The first entry is what was there at the begin: it ran since before.
    time = np.where((log["flags"] & FIRST) != 0, log["seen"].astype(np.int64), time)
    time = np.maximum.accumulate(time) if time.size else time
    count = log["count"].astype(np.int64)
    next_one = (count[1:] - count[:-1] == 1) & ~torn[1:] & ~torn[:-1]
    ungapped = (log["flags"][1:] & GAP) == 0
    first = (log["flags"][:-1] & FIRST) != 0
    return pd.DataFrame(
        {"pid": log["pid"][:-1], "begin": time[:-1], "end": time[1:], "whole": next_one & ungapped & ~first}
    )


def spans_traced(trace: Records) -> pd.DataFrame:
    """What the kernel's trace says: pid, begin, end (cycles, int64), `whole`: no event was lost in it."""
    time = trace["time"].astype(np.int64)
    whole = (trace["flags"][1:] & LOST_BEFORE) == 0
    return pd.DataFrame({"pid": trace["next"][:-1], "begin": time[:-1], "end": time[1:], "whole": whole})


def share_of(spans: pd.DataFrame, pid: int, begin: int, end: int) -> float:
    """Share of the time from `begin` to `end` that belongs to a thread; NaN without such time."""
    if end <= begin:
        return float("nan")
    own = spans[spans["pid"] == pid]
    low, high = own["begin"].clip(lower=begin), own["end"].clip(upper=end)
    return float((high - low).clip(lower=0).sum() / (end - begin))


def common(seen: pd.DataFrame, traced: pd.DataFrame) -> tuple[int, int]:
    """Begin and end of the time that both cover, cycles; (0, 0) when there is none."""
    if seen.empty or traced.empty:
        return 0, 0
    low = max(int(seen["begin"].iloc[0]), int(traced["begin"].iloc[0]))
    high = min(int(seen["end"].iloc[-1]), int(traced["end"].iloc[-1]))
    return (low, high) if low < high else (0, 0)


def missed_of(trace: Records, matched: Matched, chosen: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Of the events that `chosen`, shape (len(trace),), marks and that lie between the first and the last seen: how
    many were not seen, and how many there are. One whose entry is torn counts as not seen.
    """
    found = np.unique(matched.event[matched.event != NONE])
    if found.size < 2:
        return 0, 0
    number = np.arange(len(trace))
    there = number[chosen & (number >= found[0]) & (number <= found[-1])]
    return int((~np.isin(there, found)).sum()), int(there.size)
