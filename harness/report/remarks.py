# SPDX-License-Identifier: MIT
"""Remarks beside the verdicts: too few trials, outliers, drift; one line each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from harness.experiment.claim import Claim
from harness.experiment.expect import MIN_TRIALS
from harness.measure.claims import ClaimResult, bounds
from harness.measure.comparison import MAX_ADVICE, RESOLUTION
from harness.measure.statistics import (
    DRIFT_PROBABILITY,
    OUTLIER_SCORE,
    drift,
    modified_z_scores,
    more_trials,
)
from harness.report.terminal import number

#: Of each kind that many lines are shown; the others are counted.
MAX_LINES = 5


def advice(claims: Sequence[Claim], results: Sequence[ClaimResult]) -> list[str]:
    """How many more repetitions give claims an interval, or take an interval off its bound; one line each."""
    expected = {claim.id: claim.expect for claim in claims}
    single = {claim.id for claim in claims if claim.across is None}  # how many others need hangs on what they compare
    few: dict[int, list[str]] = {}
    lines = []
    for result in results:
        expect = expected[result.id]
        if result.measured is None or expect is None or expect.equals is not None:
            continue
        if result.interval is None:
            if result.id in single:
                few.setdefault(more_trials(result.trials, math.nan, 1.0), []).append(result.id)
        elif result.verdict == "not-measurable":
            low, high = result.interval
            distance = min(abs(bound - result.measured) for bound in bounds(expect))
            more = more_trials(result.trials, (high - low) / 2, distance) if distance else MAX_ADVICE
            about = f"about {more}" if more < MAX_ADVICE else "very many"
            lines.append(f"{about} more repetitions would tell {result.id} from its bound")
    missing = [
        f"{count} more repetition{'s' if count > 1 else ''} would give an interval to: {_some(names)}"
        for count, names in sorted(few.items())
    ]
    lines = missing + lines
    return _limited(lines)


def outlier_lines(metrics: pd.DataFrame) -> list[str]:
    """Trials that lie far from the others of their arm (`modified_z_scores`), of MIN_TRIALS or more; one line each.

    Not those within RESOLUTION of the median: three parts in a thousand are no news, and very steady ones have them.
    """
    lines = []
    for (arm, metric), rows in _series(metrics):
        values = rows["value"].to_numpy(dtype=np.float64)
        if values.size < MIN_TRIALS:
            continue
        scores, middle = modified_z_scores(values), float(np.median(values))
        # What a comparison calls the same is none, however steady the others are.
        far = np.abs(values - middle) > RESOLUTION * abs(middle)
        for index in np.flatnonzero((np.abs(scores) > OUTLIER_SCORE) & far):
            lines.append(
                f"outlier: {metric}/{arm} is {number(float(values[index]))} in trial {rows['trial'].iloc[index]}, "
                f"the median is {number(middle)} (modified z-score {scores[index]:.1f})"
            )
    return _limited(lines)


def drift_lines(metrics: pd.DataFrame, order: Mapping[tuple[str, int], int]) -> list[str]:
    """Metrics that rise or fall with the order in which trials were measured; one line each.

    `order`: place in the run by (arm, repetition), of those trials for which it can matter; others are left out.
    """
    lines = []
    for (arm, metric), rows in _series(metrics):
        timed = sorted((order[arm, trial], value) for trial, value in _pairs(rows) if (arm, trial) in order)
        if len(timed) < MIN_TRIALS:
            continue
        tau, probability = drift([value for _, value in timed])
        if probability < DRIFT_PROBABILITY:
            way = "rises" if tau > 0 else "falls"
            lines.append(f"drift: {metric}/{arm} {way} in the course of the run (Kendall's tau {tau:.2f})")
    return _limited(lines)


def _series(metrics: pd.DataFrame) -> list[tuple[tuple[str, str], pd.DataFrame]]:
    """The present values by arm and metric."""
    present = metrics[np.isfinite(metrics["value"].to_numpy(dtype=np.float64))]
    return [((str(key[0]), str(key[1])), rows) for key, rows in present.groupby(["arm", "metric"], sort=False)]


def _pairs(rows: pd.DataFrame) -> list[tuple[int, float]]:
    return list(zip(rows["trial"].astype(int), rows["value"].astype(float), strict=True))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_LINES]) + (f" and {len(names) - MAX_LINES} more" if len(names) > MAX_LINES else "")


def _limited(lines: list[str]) -> list[str]:
    return lines[:MAX_LINES] + ([f"and {len(lines) - MAX_LINES} more of these"] if len(lines) > MAX_LINES else [])
