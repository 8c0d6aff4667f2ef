# SPDX-License-Identifier: MIT
"""Verdicts: each claim of a paper, and each finding about it, against the metrics of its trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from harness.experiment.model import Claim, Expect
from harness.measure.declared import family
from harness.measure.rows import METRIC_COLUMNS, NO_VALUE
from harness.measure.statistics import Estimate, median_estimate
from harness.measure.verdict import Verdict
from harness.yamlfile import Strict

__all__ = ["METRIC_COLUMNS", "ClaimResult", "bounds", "judge"]

#: Whether an expectation holds in the words of each kind; None: nobody can tell.
_WORDS: dict[str, dict[bool | None, Verdict]] = {
    "paper": {True: "reproduced", False: "contradicted", None: "not-measurable"},
    "finding": {True: "confirmed", False: "refuted", None: "not-measurable"},
}
#: Names that a reason lists.
MOST_PARTS = 8


class ClaimResult(Strict):
    """A claim or a finding with what was measured for it."""

    id: str
    kind: Literal["paper", "finding"]
    section: str | None
    source: str | None
    paper: str | None
    statement: str | None
    metric: str | None
    unit: str | None
    expected: str
    because: str | None = None
    after_data: str | None = None
    refutes: str | None = None
    measured: float | None
    interval: tuple[float, float] | None
    trials: int
    left_out: int = 0
    verdict: Verdict
    reason: str | None

    @property
    def of_trials(self) -> str:
        """How many trials decide it, and how many the host has spoilt; empty where none is left out."""
        whole = self.trials + self.left_out
        return f"{self.trials} of {whole} trials; {self.left_out} left out" if self.left_out else ""


def judge(claims: Sequence[Claim], metrics: pd.DataFrame, trials: pd.DataFrame | None = None) -> list[ClaimResult]:
    """One result per claim, in their order. `metrics` has METRIC_COLUMNS; a NaN value carries its reason.

    `trials` is the set's table of them (arm, trial): those of a claim's arm that have no row were left out.

    A claim of the paper that a confirmed finding refutes reads contradicted, whatever its own metric says. One without
    a metric is told by such findings alone.
    """
    ran = trials["arm"].value_counts().to_dict() if trials is not None else {}
    results = {claim.id: _judge(claim, metrics, ran.get(claim.arm, 0)) for claim in claims}
    for claim in claims:
        refuting = [results[other.id] for other in claims if other.refutes == claim.id]
        if refuting:
            results[claim.id] = _refuted(results[claim.id], refuting)
    return [results[claim.id] for claim in claims]


def _refuted(claim: ClaimResult, findings: Sequence[ClaimResult]) -> ClaimResult:
    confirmed = [finding for finding in findings if finding.verdict == "confirmed"]
    if confirmed:
        names = ", ".join(finding.id for finding in confirmed)
        why = f"refuted by {names}" + (f"; {claim.reason}" if claim.reason and claim.metric else "")
        return claim.model_copy(update={"verdict": "contradicted", "reason": why})
    if claim.metric is not None:
        return claim
    untold = [finding for finding in findings if finding.verdict == "not-measurable"]
    told = (
        f"{untold[0].id}: {untold[0].reason}" if untold else f"{findings[0].id}, which would refute it, does not hold"
    )
    return claim.model_copy(update={"reason": told})


def _judge(claim: Claim, metrics: pd.DataFrame, ran: int) -> ClaimResult:
    rows = metrics[(metrics["arm"] == claim.arm) & (metrics["metric"] == claim.metric_name)]
    values = rows["value"].to_numpy(dtype=np.float64)
    present = np.isfinite(values)
    measured: float | None = None
    interval: tuple[float, float] | None = None
    holds: bool | None = None
    reason: str | None
    if claim.expect is None:
        reason = "no metric of its own"
    elif rows.empty:
        reason = f"arm {claim.arm} took no part in this run"
    elif not present.all():
        causes = rows.loc[~present, "reason"].dropna().unique()
        reason = str(causes[0]) if len(causes) else "the metric is absent without a reason"
        if reason == NO_VALUE and (parts := _other_parts(rows, metrics)):
            reason = f"{reason}; of this family it gives {', '.join(parts)}"
    else:
        estimate = median_estimate(values)
        measured = estimate.value
        interval = (estimate.low, estimate.high) if estimate.interval_known else None
        holds, reason = _holds(claim.expect, values, estimate)
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
        expected=str(claim.expect) if claim.expect is not None else "—",
        because=claim.because,
        after_data=claim.after_data,
        refutes=claim.refutes,
        measured=measured,
        interval=interval,
        trials=len(rows),
        left_out=max(ran - len(rows), 0),
        verdict=_WORDS[claim.kind][holds],
        reason=reason,
    )


def _other_parts(rows: pd.DataFrame, metrics: pd.DataFrame) -> list[str]:
    """Parts are not declared: to see that a claim has one that is misspelt, a reader needs those that there are."""
    name = str(rows["metric"].iloc[0])
    own = metrics.loc[metrics["arm"].isin(rows["arm"]) & (metrics["reason"] != NO_VALUE), "metric"].unique()
    parts = sorted(part for part in own if "." in name and part != name and family(part) == family(name))
    return [*parts[:MOST_PARTS], "…"] if len(parts) > MOST_PARTS else parts


def bounds(expect: Expect) -> tuple[float, float]:
    """The closed range that an expectation allows."""
    if expect.equals is not None:
        return expect.equals, expect.equals
    if expect.between is not None:
        return expect.between
    low = -np.inf if expect.at_least is None else expect.at_least
    high = np.inf if expect.at_most is None else expect.at_most
    return float(low), float(high)


def _holds(expect: Expect, values: np.ndarray, estimate: Estimate) -> tuple[bool | None, str | None]:
    low, high = bounds(expect)
    inside = (values >= low) & (values <= high)
    if expect.equals is not None:
        if inside.all():
            return True, None
        return False, f"{int((~inside).sum())} of {values.size} trials differ"
    if not estimate.interval_known:
        # Too few for an interval, they can still speak where all of them agree; we say how many they are.
        few = "one trial, no interval" if values.size == 1 else f"{values.size} trials, too few for an interval"
        return (bool(inside.all()) if inside.all() or not inside.any() else None), few
    if low <= estimate.low and estimate.high <= high:
        return True, None
    if estimate.high < low or estimate.low > high:
        return False, None
    return None, "the 95 % interval crosses the bound; more repetitions would tell"
