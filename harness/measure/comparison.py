# SPDX-License-Identifier: MIT
"""Metric by metric: is B another than A, the same, or can nobody tell from so few trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.measure.statistics import MIN_TRIALS, Effect, effect, more_trials

Outcome = Literal["identical", "distinguishable", "same", "cannot tell", "absent"]
#: Effects below this are called the same when the whole interval is (equivalence by interval: Schuirmann 1987, J.
#: Pharmacokinet. Biopharm. 15:657); trials are advised up to an interval as narrow.
RESOLUTION = 0.05
#: Advice beyond this many trials is none.
MAX_ADVICE = 10_000


@dataclass(frozen=True)
class Compared:
    """One metric of one arm (or of two, where an arm is compared with another)."""

    arms: tuple[str, str]
    metric: str
    unit: str
    a: float  # medians over good trials, NaN when absent
    b: float
    trials: tuple[int, int]
    effect: Effect | None
    outcome: Outcome
    note: str = ""


def compare_metrics(a: pd.DataFrame, b: pd.DataFrame, arms: Sequence[tuple[str, str]]) -> list[Compared]:
    """Every metric of each pair of arms, the first of a pair from `a`, the second from `b` (METRIC_COLUMNS both).

    In the order of `arms`, then of the metrics in `a`; what only one of them has is `absent`.
    """
    rows = []
    for left, right in arms:
        here, there = a[a["arm"] == left], b[b["arm"] == right]
        for metric in dict.fromkeys([*here["metric"], *there["metric"]]):
            pair = here[here["metric"] == metric], there[there["metric"] == metric]
            rows.append(_compare((left, right), str(metric), *pair))
    return rows


def _compare(arms: tuple[str, str], metric: str, a: pd.DataFrame, b: pd.DataFrame) -> Compared:
    left, right = _present(a), _present(b)
    units = [*dict.fromkeys([*a["unit"].dropna(), *b["unit"].dropna()])]
    middle, other = (float(np.median(part)) if part.size else float("nan") for part in (left, right))
    found: Effect | None = None
    outcome: Outcome = "absent"
    if not left.size or not right.size:
        note = "; ".join(f"in {name}: {_why(rows)}" for name, rows in (("A", a), ("B", b)) if not _present(rows).size)
    elif len(units) > 1:
        note = f"units differ: {', '.join(map(str, units))}"
    elif _values(a).equals(_values(b)):
        outcome, note = "identical", ""
    else:
        found = effect(left, right)
        outcome, note = judge_effect(found)
    unit = str(units[0]) if units else ""
    return Compared(arms, metric, unit, middle, other, (left.size, right.size), found, outcome, note)


def judge_effect(found: Effect) -> tuple[Outcome, str]:
    """What an effect and its interval allow to say, and which repetitions would help where that is nothing."""
    if found.distinguishable:
        return "distinguishable", ""
    if not found.interval_known:
        count = max(MIN_TRIALS - found.trials, 1)
        return "cannot tell", f"n too small: at least {count} more repetition{'s' if count > 1 else ''}"
    if found.largest <= RESOLUTION:
        return "same", f"within {100 * found.largest:.2g} %"
    if not np.isfinite(found.half_width):
        return "cannot tell", "both medians are 0"
    # An interval narrower than the resolution can still reach out of it on one side: halving it is the next step.
    target = RESOLUTION if found.half_width > RESOLUTION else found.half_width / 2
    count = more_trials(found.trials, found.half_width, target)
    wanted = f"{count} more repetitions" if count <= MAX_ADVICE else f"more than {MAX_ADVICE} more repetitions"
    return "cannot tell", f"n too small: {wanted} for ±{100 * target:.2g} %"


def _present(rows: pd.DataFrame) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float64] = rows["value"].to_numpy(dtype=np.float64)
    return values[np.isfinite(values)]


def _values(rows: pd.DataFrame) -> pd.Series[float]:
    return rows.set_index("trial")["value"].astype("float64").sort_index()


def _why(rows: pd.DataFrame) -> str:
    if rows.empty:
        return "no such metric"
    reasons = rows["reason"].dropna().unique()
    return str(reasons[0]) if len(reasons) else "absent without a reason"
