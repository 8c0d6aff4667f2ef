# SPDX-License-Identifier: MIT
"""Metric by metric: is B another than A, the same, or can nobody tell from so few trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.experiment.expect import MIN_TRIALS
from harness.measure.statistics import Effect, effect, more_trials

Outcome = Literal["identical", "differs", "distinguishable", "same", "cannot tell", "absent"]
#: The seed of each trial (arm, repetition) of a set that nothing but its seed decides: those of the virtual clock.
Seeds = Mapping[tuple[str, int], int]
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

    @property
    def exact(self) -> bool:
        """Whether the effect has no error of sampling: its bounds are those of the pairs, not of an interval."""
        return self.outcome == "differs"


def compare_metrics(
    a: pd.DataFrame, b: pd.DataFrame, arms: Sequence[tuple[str, str]], seeds: tuple[Seeds, Seeds] = ({}, {})
) -> list[Compared]:
    """Every metric of each pair of arms, the first of a pair from `a`, the second from `b` (METRIC_COLUMNS both).

    In the order of `arms`, then of the metrics in `a`; what only one of them has is `absent`. `seeds` are those of a
    and of b: trials that have one in both are compared seed by seed, exactly.
    """
    rows = []
    for left, right in arms:
        here, there = a[a["arm"] == left], b[b["arm"] == right]
        for metric in dict.fromkeys([*here["metric"], *there["metric"]]):
            pair = here[here["metric"] == metric], there[there["metric"] == metric]
            rows.append(_compare((left, right), str(metric), *pair, seeds))
    return rows


def _compare(
    arms: tuple[str, str], metric: str, a: pd.DataFrame, b: pd.DataFrame, seeds: tuple[Seeds, Seeds]
) -> Compared:
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
    elif (pairs := _pairs(a, b, seeds)).size:
        found, outcome, note = _exactly(pairs)
    else:
        found = effect(left, right)
        outcome, note = judge_effect(found)
    unit = str(units[0]) if units else ""
    return Compared(arms, metric, unit, middle, other, (left.size, right.size), found, outcome, note)


def _pairs(a: pd.DataFrame, b: pd.DataFrame, seeds: tuple[Seeds, Seeds]) -> npt.NDArray[np.float64]:
    """Values of A and B by equal seeds, shape (pairs, 2); none when a value of either side has no seed."""
    left, right = (_by_seed(rows, known) for rows, known in zip((a, b), seeds, strict=True))
    both = sorted(left.keys() & right.keys()) if left is not None and right is not None else []
    values = [(left[seed], right[seed]) for seed in both] if left is not None and right is not None else []
    return np.array(values, dtype=np.float64).reshape(-1, 2)


def _by_seed(rows: pd.DataFrame, seeds: Seeds) -> dict[int, float] | None:
    present = rows[np.isfinite(rows["value"].to_numpy(dtype=np.float64))]
    keys = list(zip(present["arm"].astype(str), present["trial"].astype(int), strict=True))
    if not all(key in seeds for key in keys):
        return None
    return {seeds[key]: float(value) for key, value in zip(keys, present["value"], strict=True)}


def _exactly(pairs: npt.NDArray[np.float64]) -> tuple[Effect | None, Outcome, str]:
    """What pairs of equal seeds tell: the effect in the middle pair, bounded by the least and the largest of all."""
    count = f"{len(pairs)} pairs of equal seeds" if len(pairs) > 1 else "one pair of equal seeds"
    left, right = pairs.T
    if np.array_equal(left, right):
        return None, "identical", f"in {count}"
    ratio = bool((pairs > 0).all())
    effects = right / left if ratio else right - left
    scale = 1.0 if ratio else float(np.abs(np.median(pairs, axis=0)).max())
    low, middle, high = (float(value) for value in (effects.min(), np.median(effects), effects.max()))
    found = Effect("ratio" if ratio else "difference", middle, low, high, scale, len(pairs))
    ways = "" if low >= found.none or high <= found.none else ", some up, some down"
    return found, "differs", f"exact, in {count}{ways}"


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
