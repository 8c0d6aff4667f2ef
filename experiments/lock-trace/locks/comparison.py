# SPDX-License-Identifier: MIT
"""A kept stream against what the offline filter selects of the full log, event for event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from .events import (
    ACQUIRED,
    OPEN,
    STREAM_LOG,
    STREAM_PAPER,
    STREAM_PER_LOCK,
    VALIDATE,
    WAITS,
    Events,
    describe,
    only,
)
from .replay import Replay, paper_filter, per_lock_filter
from .status import LockTraceStatus, log_loss

#: An event is known by its lock, its kind, and when on which CPU it was.
IDENTITY = ["lock", "cpu", "time", "kind"]
#: What two copies of one event must have in common.
SAME = ("site", "pid", "type", "context", "flags")
EXAMPLES = 5


@dataclass(frozen=True)
class FilterComparison:
    """One filter of one trace; counts are NaN, and `reason` says why, where events were lost or a filter was full.

    filter     per-lock or paper
    log        events in the full log
    selected   of them the offline filter keeps
    equal      of these are in the kept stream, alike in all fields
    missing    selected, and not in the kept stream
    extra      in the kept stream, and not selected
    different  selected and kept, but with another value in a field
    waits      acquisitions of the log whose trylock failed
    dropped_waits  of them, not in the kept stream
    acquisitions   in the kept stream
    idle       of them, neither waited nor were waited for, by the log
    examples   the first of what differs: what object (missing, extra, different), event object
    """

    filter: str
    log: int
    selected: float
    equal: float
    missing: float
    extra: float
    different: float
    waits: float
    dropped_waits: float
    acquisitions: float
    idle: float
    reason: str | None
    examples: pd.DataFrame


def compare_filters(events: Events, status: LockTraceStatus) -> list[FilterComparison]:
    """Both filters of a trace of arm VALIDATE."""
    assert status.arm == VALIDATE
    log = only(events, STREAM_LOG)
    useful = identities(log[per_lock_filter(log).kept])
    compared = []
    for name, select, stream, full in (
        ("per-lock", per_lock_filter, STREAM_PER_LOCK, ("acquisitions found no place", status.holds_full)),
        ("paper", paper_filter, STREAM_PAPER, ("blocks found no place", status.pool_full)),
    ):
        losses = {
            "events of the log were lost": log_loss(status),
            "events of the filter were lost": status.lost[stream],
        }
        result = compare(name, log, select(log), only(events, stream), useful)
        # A filter that was full keeps more, which may or may not make a difference.
        losses |= {} if result.equal == result.selected and not result.extra else {full[0]: full[1]}
        why = ", ".join(f"{count} {what}" for what, count in losses.items() if count)
        compared.append(_unknown(name, len(log), why) if why else result)
    return compared


def _unknown(name: str, log: int, reason: str) -> FilterComparison:
    nan = float("nan")
    return FilterComparison(name, log, nan, nan, nan, nan, nan, nan, nan, nan, nan, reason, _examples([]))


def identities(events: Events) -> pd.MultiIndex:
    """What each event is known by in every stream."""
    return pd.MultiIndex.from_arrays([events[name] for name in IDENTITY])


def compare(name: str, log: Events, replay: Replay, stream: Events, useful: pd.MultiIndex) -> FilterComparison:
    """The kept `stream` against what `replay` selects of `log`. Locks that had no place in the table are in neither.

    `useful`: events of the log of acquisitions that waited or were waited for.
    """
    wanted, kept = _frame(log[replay.kept]), _frame(stream)
    # A key twice in the stream pairs once; what is left over is extra.
    both = wanted.assign(copy=wanted.groupby(IDENTITY).cumcount()).merge(
        kept.assign(copy=kept.groupby(IDENTITY).cumcount()), on=[*IDENTITY, "copy"], how="outer", indicator=True
    )
    missing = both.loc[both["_merge"] == "left_only", "at_x"].to_numpy(dtype=np.int64)
    extra = both.loc[both["_merge"] == "right_only", "at_y"].to_numpy(dtype=np.int64)
    pairs = both.loc[both["_merge"] == "both", ["at_x", "at_y"]].to_numpy(dtype=np.int64)
    selected = log[replay.kept]
    alike = _alike(selected[pairs[:, 0]], stream[pairs[:, 1]])
    different = pairs[~alike, 1]
    return FilterComparison(
        filter=name,
        log=len(log),
        selected=len(selected),
        equal=int(alike.sum()),
        missing=len(missing),
        extra=len(extra),
        different=len(different),
        waits=int((log["kind"] == WAITS).sum()),
        dropped_waits=int((~identities(log[log["kind"] == WAITS]).isin(identities(stream))).sum()),
        acquisitions=int((stream["kind"] == ACQUIRED).sum()),
        idle=int((~identities(stream[stream["kind"] == ACQUIRED]).isin(useful)).sum()),
        reason=None,
        examples=_examples(
            [("missing", selected[missing]), ("extra", stream[extra]), ("different", stream[different])]
        ),
    )


def _frame(events: Events) -> pd.DataFrame:
    return pd.DataFrame({name: events[name] for name in IDENTITY}).assign(at=np.arange(len(events)))


def _alike(left: Events, right: Events) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    alike = np.ones(len(left), dtype=bool)
    for name in SAME:
        # The end of the trace writes what is open then a second time, and says so.
        clear = np.uint16(0xFFFF ^ OPEN) if name == "flags" else None
        one, other = left[name], right[name]
        alike &= (one & clear) == (other & clear) if clear is not None else one == other
    return alike


def _examples(parts: list[tuple[str, Events]]) -> pd.DataFrame:
    rows = [(what, describe(event)) for what, events in parts for event in events[:EXAMPLES]]
    return pd.DataFrame(rows, columns=["what", "event"], dtype="object")
