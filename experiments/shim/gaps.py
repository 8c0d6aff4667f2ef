# SPDX-License-Identifier: MIT
"""How short a time between two switches may be: the workload `gaps`, from its files to its metrics.

A gap is the time from one switch of the kernel's trace to the next. It is seen if one of the observer's samples lies in
it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.measure.declared import KEY, Metric, Table, count, number, string

from .cpu import RUN, logs, with_slots
from .observer.periods import quantile, read_periods
from .observer.records import LOST_BEFORE, Records
from .observer.switches import match, missed_of
from .onetrial import OneTrial
from .run import IDLE, Bench

#: Bounds of the lengths, us.
EDGES = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
#: Of a share: with fewer gaps there is none.
LEAST = 200

GAPS_TABLES = [
    Table(
        "gaps",
        "the gaps of one length: times from a switch of the trace to the next",
        (
            *KEY,
            string("what", "thread: a thread had the CPU; idle: nobody"),
            number("low_us", "us", "the shortest gap in it"),
            number("high_us", "us", "the first gap above it"),
            count("gaps_all", "gaps in the trace, between the first and the last that was seen"),
            count("seen_all", "of these, seen"),
            number(
                "expected", "count", "of these, those that samples at random moments would see, at the median period"
            ),
            count(
                "gaps", "gaps of gaps_all that begin in pieces that the host did not disturb; all, where nobody told"
            ),
            count("seen", "of these, seen"),
            number("expected_sound", "count", "of these, those that samples at random moments would see"),
            string("unsound", "why the pieces that are left say nothing; null: they do, or nobody told the observer"),
        ),
    )
]


def _timed(name: str, meaning: str) -> Metric:
    return Metric(name, "1", "higher", meaning, timing=True)


GAPS_METRICS = [
    _timed("gaps_seen", "of the gaps of 10 to 100 us in which a thread had the CPU, the share that was seen"),
    _timed("gaps_seen_short", "the same of gaps of 1 to 10 us"),
    _timed("gaps_seen_idle", "of the gaps of 10 to 1,000 us in which the CPU was idle, the share that was seen"),
    _timed("gaps_seen_over_expected", "gaps of 1 to 10 us seen, over those that samples at random moments would see"),
]
GAPS_LOST = tuple(metric.name for metric in GAPS_METRICS)


def decode_gaps(bench: Bench) -> None:
    """The observer's log against the kernel's trace, by the length of what was seen or missed."""
    bench.read_names()
    bench.put_run(RUN)
    with bench.part("gaps"):
        observed = with_slots(bench)
        log, trace = logs(bench, observed)
        matched, pieces = match(log, trace), bench.put_pieces(RUN, observed)
        sound = np.ones(len(trace), dtype=bool) if pieces is None else pieces.hold(trace["time"])
        length, whole = _lengths(trace, observed.tsc_hz)
        period = quantile(read_periods(bench.folder / f"{RUN}.periods.csv"), 0.5) / observed.tsc_hz * 1e6
        chance = np.minimum(1.0, length / period)
        rows = []
        for what, kind in (("thread", trace["next"] != IDLE), ("idle", trace["next"] == IDLE)):
            for low, high in pairwise(EDGES):
                every = whole & kind & (length >= low) & (length < high)
                (missed_all, gaps_all), (missed, gaps) = (
                    missed_of(trace, matched, part) for part in (every, every & sound)
                )
                mean = float(chance[every].mean()) if every.any() else 0.0
                mean_sound = float(chance[every & sound].mean()) if (every & sound).any() else 0.0
                rows.append(
                    {
                        "what": what,
                        "low_us": float(low),
                        "high_us": float(high),
                        "gaps_all": gaps_all,
                        "seen_all": gaps_all - missed_all,
                        "expected": mean * gaps_all,
                        "gaps": gaps,
                        "seen": gaps - missed,
                        "expected_sound": mean_sound * gaps,
                        "unsound": None if pieces is None else pieces.reason,
                    }
                )
        bench.put("gaps", rows)


def _lengths(trace: Records, tsc_hz: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Of each event of a trace with n: us until the next, shape (n,), and whether no event was lost in between."""
    time = trace["time"].astype(np.int64)
    length = np.append(np.diff(time), 0) / tsc_hz * 1e6
    whole = np.append((trace["flags"][1:] & LOST_BEFORE) == 0, False)
    return length, whole


def measure_gaps(one: OneTrial) -> None:
    """The metrics of this workload."""
    table = one.rows("gaps")
    if table.empty:
        return
    unsound = table["unsound"].dropna()
    for metric, what, low, high in (
        ("gaps_seen", "thread", 10, 100),
        ("gaps_seen_short", "thread", 1, 10),
        ("gaps_seen_idle", "idle", 10, 1000),
    ):
        rows = table[(table["what"] == what) & (table["low_us"] >= low) & (table["high_us"] <= high)]
        gaps, seen, expected = (float(rows[name].sum()) for name in ("gaps", "seen", "expected_sound"))
        few = f"{gaps:.0f} gaps are too few"
        why = str(unsound.iloc[0]) if len(unsound) else few
        enough = gaps >= LEAST and not len(unsound)
        one.put(metric, seen / gaps if enough else None, why)
        if metric == "gaps_seen_short":
            one.put("gaps_seen_over_expected", seen / expected if enough and expected else None, why)
