"""Verdicts: each claim of an experiment against the metrics of its trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from harness.experiment.model import Claim, Expect
from harness.measure.statistics import Estimate, median_estimate
from harness.measure.verdict import Verdict
from harness.yamlfile import Strict

METRIC_COLUMNS = ("arm", "trial", "metric", "value", "unit", "reason")


class ClaimResult(Strict):
    """A claim with what was measured for it."""

    id: str
    kind: Literal["paper", "finding"]
    section: str | None
    source: str | None
    paper: str | None
    statement: str | None
    metric: str
    unit: str | None
    expected: str
    measured: float | None
    interval: tuple[float, float] | None
    trials: int
    verdict: Verdict
    reason: str | None


def judge(claims: Sequence[Claim], metrics: pd.DataFrame) -> list[ClaimResult]:
    """One result per claim. `metrics` has METRIC_COLUMNS; a NaN value carries its reason."""
    return [_judge(claim, metrics) for claim in claims]


def _judge(claim: Claim, metrics: pd.DataFrame) -> ClaimResult:
    rows = metrics[(metrics["arm"] == claim.arm) & (metrics["metric"] == claim.metric_name)]
    values = rows["value"].to_numpy(dtype=np.float64)
    present = np.isfinite(values)
    measured: float | None = None
    interval: tuple[float, float] | None = None
    verdict: Verdict
    reason: str | None
    if rows.empty:
        verdict, reason = "not-measurable", f"arm {claim.arm} took no part in this run, or has no such metric"
    elif not present.all():
        causes = rows.loc[~present, "reason"].dropna().unique()
        verdict, reason = "not-measurable", str(causes[0]) if len(causes) else "the metric is absent without a reason"
    else:
        estimate = median_estimate(values)
        measured = estimate.value
        interval = (estimate.low, estimate.high) if estimate.interval_known else None
        verdict, reason = _verdict(claim.expect, values, estimate)
    units = rows["unit"].dropna().unique()
    return ClaimResult(
        id=claim.id,
        kind=claim.kind,
        section=claim.section,
        source=claim.source,
        paper=claim.paper,
        statement=claim.statement,
        metric=claim.metric,
        unit=str(units[0]) if len(units) else None,
        expected=str(claim.expect),
        measured=measured,
        interval=interval,
        trials=len(rows),
        verdict=verdict,
        reason=reason,
    )


def bounds(expect: Expect) -> tuple[float, float]:
    """The closed range that an expectation allows."""
    if expect.equals is not None:
        return expect.equals, expect.equals
    if expect.between is not None:
        return expect.between
    low = -np.inf if expect.at_least is None else expect.at_least
    high = np.inf if expect.at_most is None else expect.at_most
    return float(low), float(high)


def _verdict(expect: Expect, values: np.ndarray, estimate: Estimate) -> tuple[Verdict, str | None]:
    low, high = bounds(expect)
    inside = (values >= low) & (values <= high)
    if expect.equals is not None:
        if inside.all():
            return "reproduced", None
        return "contradicted", f"{int((~inside).sum())} of {values.size} trials differ"
    if not estimate.interval_known:
        # Too few for an interval, they can still speak where all of them agree; we say how many they are.
        few = "one trial, no interval" if values.size == 1 else f"{values.size} trials, too few for an interval"
        agreed: Verdict = "reproduced" if inside.all() else "contradicted"
        return (agreed if inside.all() or not inside.any() else "not-measurable"), few
    if low <= estimate.low and estimate.high <= high:
        return "reproduced", None
    if estimate.high < low or estimate.low > high:
        return "contradicted", None
    return "not-measurable", "the 95 % interval crosses the bound; more repetitions would tell"
