# SPDX-License-Identifier: MIT
"""Verdicts: each claim of a paper, and each finding about it, against the metrics of its trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from harness.experiment.across import Across
from harness.experiment.claim import Claim
from harness.experiment.expect import Expect
from harness.measure.across import Comparison, comparisons, unit_of
from harness.measure.declared import family
from harness.measure.rows import METRIC_COLUMNS, NO_VALUE
from harness.measure.statistics import Estimate, median_estimate, more_trials
from harness.measure.verdict import Verdict
from harness.trial.model import TrialRecord
from harness.yamlfile import Strict

__all__ = ["METRIC_COLUMNS", "ClaimResult", "bounds", "judge"]

#: Whether an expectation holds in the words of each kind; None: nobody can tell.
_WORDS: dict[str, dict[bool | None, Verdict]] = {
    "paper": {True: "reproduced", False: "contradicted", None: "not-measurable"},
    "finding": {True: "confirmed", False: "refuted", None: "not-measurable"},
}
#: Which of a claim's comparisons over a matrix is shown.
_OF_SEVERAL: dict[bool | None, str] = {
    True: "holds in all {every} comparisons; nearest to its bound: {place}",
    False: "fails in {alike} of {every} comparisons, the most with {place}",
    None: "cannot be told in {alike} of {every} comparisons, such as {place}",
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
    controls: list[str] = []
    known: Verdict | None = None
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


def judge(
    claims: Sequence[Claim],
    metrics: pd.DataFrame,
    trials: pd.DataFrame | None = None,
    planned: Sequence[TrialRecord] = (),
) -> list[ClaimResult]:
    """One result per claim, in their order. `metrics` has METRIC_COLUMNS; a NaN value carries its reason.

    `trials` is the set's table of them (arm, trial): those of a claim's arm that have no row were left out. `planned`
    are all trials of the run, for claims that compare arms of a matrix.

    A claim whose negative control is not confirmed is not measurable, whatever its metric says.

    A claim of the paper that a confirmed finding refutes reads contradicted, whatever its own metric says. One without
    a metric is told by such findings alone.
    """
    ran = trials["arm"].value_counts().to_dict() if trials is not None else {}
    results = {
        claim.id: _judge(claim, metrics, ran.get(claim.arm, 0))
        if claim.across is None
        else _judge_across(claim, claim.across, metrics, planned)
        for claim in claims
    }
    for claim in claims:
        for effect in claim.controls:
            results[effect] = _controlled(results[effect], results[claim.id])
    for claim in claims:
        refuting = [results[other.id] for other in claims if other.refutes == claim.id]
        if refuting:
            results[claim.id] = _refuted(results[claim.id], refuting)
    return [results[claim.id] for claim in claims]


def _controlled(effect: ClaimResult, control: ClaimResult) -> ClaimResult:
    """An effect by its negative control: where that shows one too, or nobody can tell, nothing follows from it."""
    if control.verdict == "confirmed" or effect.verdict == "not-measurable":
        return effect
    how = "does not hold" if control.verdict == "refuted" else "cannot be told"
    why = f"its negative control {control.id} {how}" + (f": {control.reason}" if control.reason else "")
    reason = f"{why}; {effect.reason}" if effect.reason else why
    return effect.model_copy(update={"verdict": _WORDS[effect.kind][None], "reason": reason})


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


def _judge_across(claim: Claim, across: Across, metrics: pd.DataFrame, planned: Sequence[TrialRecord]) -> ClaimResult:
    """A claim about arms of a matrix holds if each of its comparisons does; the one that decides it is shown.

    Their intervals hold all at once with 95 %.
    """
    every = comparisons(claim, metrics, planned)
    units = metrics.loc[metrics["metric"] == claim.metric_name, "unit"].dropna().unique()
    result = _result(claim, unit=unit_of(across, str(units[0]) if len(units) else None))
    if isinstance(every, str):
        return result.model_copy(update={"reason": every})
    told = [_tell(one, len(every)) for one in every]
    deciding = min(range(len(told)), key=lambda index: told[index].rank)
    one, best = every[deciding], told[deciding]
    alike = sum(other.holds is best.holds for other in told)
    place = _OF_SEVERAL[best.holds].format(alike=alike, every=len(every), place=one.place) if len(every) > 1 else ""
    return result.model_copy(
        update={
            "measured": best.estimate.value if best.estimate else None,
            "interval": (best.estimate.low, best.estimate.high)
            if best.estimate and best.estimate.interval_known
            else None,
            "trials": one.values.size,
            "left_out": max(one.ran - one.values.size, 0),
            "verdict": _WORDS[claim.kind][best.holds],
            "reason": "; ".join(part for part in (place, best.reason, one.note) if part) or None,
        }
    )


@dataclass(frozen=True)
class _Told:
    """What one comparison says. `rank`: what does not hold decides first, then what nobody can tell, then the nearest
    to its bound.
    """

    holds: bool | None
    reason: str | None
    estimate: Estimate | None
    margin: float = 0.0

    @property
    def rank(self) -> tuple[int, float]:
        return {False: 0, None: 1, True: 2}[self.holds], self.margin


def _tell(one: Comparison, together: int) -> _Told:
    if one.reason is not None:
        return _Told(None, one.reason, None)
    estimate = median_estimate(one.values, comparisons=together)
    low, high = bounds(one.expect)
    margin = min(estimate.value - low, high - estimate.value)
    holds, reason = _holds(one.expect, one.values, estimate)
    return _Told(holds, reason, estimate, margin)


def _expected(claim: Claim) -> str:
    return " ".join(str(part) for part in (claim.across, claim.expect) if part is not None) or "—"


def _result(claim: Claim, *, unit: str | None) -> ClaimResult:
    """Of a claim that nothing was measured for."""
    return ClaimResult(
        **claim.model_dump(include=ClaimResult.model_fields.keys() & Claim.model_fields.keys()),
        unit=unit,
        expected=_expected(claim),
        measured=None,
        interval=None,
        trials=0,
        verdict="not-measurable",
        reason=None,
    )


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
        if values.size < (claim.least_trials or 1):
            ran_text = "1 trial" if values.size == 1 else f"{values.size} trials"
            holds, reason = None, f"{ran_text} of the {claim.least_trials} that it takes to tell; profile full has more"
    units = rows["unit"].dropna().unique()
    return _result(claim, unit=str(units[0]) if len(units) else None).model_copy(
        update={
            "measured": measured,
            "interval": interval,
            "trials": len(rows),
            "left_out": max(ran - len(rows), 0),
            "verdict": _WORDS[claim.kind][holds],
            "reason": reason,
        }
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
    return None, f"too noisy here: the 95 % interval crosses the bound; {_would_tell(values.size, estimate, low, high)}"


def _would_tell(trials: int, estimate: Estimate, low: float, high: float) -> str:
    """How many trials would set the interval off the nearest bound, if their median stays where it is."""
    distance = min(abs(estimate.value - bound) for bound in (low, high) if math.isfinite(bound))
    if not distance:
        return "no number of trials would tell, for the median lies on it"
    more = more_trials(trials, max(estimate.value - estimate.low, estimate.high - estimate.value), distance)
    return f"about {trials + max(more, 1)} trials would tell"
