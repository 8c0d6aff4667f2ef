# SPDX-License-Identifier: MIT
"""A kept stream against what the offline filter selects of the full log, event for event."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
from .replay import Replay, counter_filter, paper_filter, per_lock_filter
from .status import LockTraceStatus, log_loss
from .truth import Truth, truth_of

#: An event is known by its lock, its kind, and when on which CPU it was.
IDENTITY = ["lock", "cpu", "time", "kind"]
#: What two copies of one event must have in common.
SAME = ("site", "pid", "type", "context", "flags")
EXAMPLES = 5
#: Not kept by the kernel: what the paper's other sentence would keep of the log, and what is worth keeping.
COUNTER, WAITED = "counter", "waits"
_NAN = float("nan")


@dataclass(frozen=True)
class FilterComparison:
    """One filter of one trace; counts are NaN, and `reason` says why, where events were lost or a filter was full.

    filter     per-lock or paper; COUNTER; WAITED, whose `selected` are the events in which somebody waited
    log        events in the full log
    selected   of them the offline filter keeps
    equal      of these are in the kept stream, alike in all fields
    missing    selected, and not in the kept stream
    extra      in the kept stream, and not selected
    different  selected and kept, but with another value in a field
    waits      acquisitions of the log whose trylock failed
    dropped_waits  of them, not in the kept stream
    dropped_holders  acquisitions that were waited for, by the log, and are not in the kept stream
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
    dropped_holders: float
    acquisitions: float
    idle: float
    reason: str | None
    examples: pd.DataFrame


def compare_filters(events: Events, status: LockTraceStatus, taken: pd.DataFrame) -> list[FilterComparison]:
    """What each filter kept of a trace of arm VALIDATE, and what it should have; `taken`: its log's acquisitions."""
    assert status.arm == VALIDATE
    log, truth = only(events, STREAM_LOG), truth_of(only(events, STREAM_LOG), taken)
    log_losses = {"events of the log were lost": log_loss(status)}
    compared = []
    for name, select, stream, full in (
        ("per-lock", per_lock_filter, STREAM_PER_LOCK, ("acquisitions found no place", status.holds_full)),
        ("paper", paper_filter, STREAM_PAPER, ("blocks found no place", status.pool_full)),
    ):
        losses = log_losses | {"events of the filter were lost": status.lost[stream]}
        result = compare(name, log, select(log), only(events, stream), truth)
        # A filter that was full keeps more, which may or may not make a difference.
        losses |= {} if result.equal == result.selected and not result.extra else {full[0]: full[1]}
        compared.append(_told(result, losses))
    counter = counter_filter(log)
    result = compare(COUNTER, log, counter, log[counter.kept], truth)
    # Kept by nobody, so nothing is missing.
    result = replace(result, equal=_NAN, missing=_NAN, extra=_NAN, different=_NAN)
    worth = replace(_unknown(WAITED, len(log), None), selected=truth.events, waits=result.waits)
    return [*compared, _told(result, log_losses), _told(worth, log_losses)]


def _told(result: FilterComparison, losses: dict[str, int]) -> FilterComparison:
    """The result, or why there is none."""
    why = ", ".join(f"{count} {what}" for what, count in losses.items() if count)
    return _unknown(result.filter, result.log, why) if why else result


def _unknown(name: str, log: int, reason: str | None) -> FilterComparison:
    nothing = (_NAN, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN)
    return FilterComparison(name, log, *nothing, reason, _examples([]))


def identities(events: Events) -> pd.MultiIndex:
    """What each event is known by in every stream."""
    return pd.MultiIndex.from_arrays([events[name] for name in IDENTITY])


def compare(name: str, log: Events, replay: Replay, stream: Events, truth: Truth) -> FilterComparison:
    """The kept `stream` against what `replay` selects of `log`, and against the `truth` about the log. Locks that had
    no place in the table are in no filter.
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
    got, holders = stream[stream["kind"] == ACQUIRED], log[truth.among(log, truth.awaited)]
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
        dropped_holders=int((~identities(holders).isin(identities(stream))).sum()),
        acquisitions=len(got),
        idle=int((~truth.among(got, truth.waited | truth.perhaps | truth.open)).sum()),
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
