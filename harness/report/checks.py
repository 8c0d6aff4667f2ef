# SPDX-License-Identifier: MIT
"""A run against its reference: one case per claim, one for the digest, and the medians that moved most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.measure.claims import ClaimResult
from harness.measure.verdict import HOLDS
from harness.report.junit import Case
from harness.report.terminal import measured, number
from harness.store.reference import Reference, compare, first_input_difference, foreign_inputs, reference_of
from harness.store.resultset import ResultSet
from harness.store.verdicts import MetricMedian, Verdicts

MAX_SHIFTS = 10


def claim_cases(
    experiment: str,
    version: int,
    claims: Sequence[ClaimResult],
    fidelity: Mapping[str, str],
    reference: Verdicts | None,
) -> list[Case]:
    """One case per claim, those first that are in this run; `fidelity` is per arm.

    A claim fails when it does not hold here and holds in the reference. Where the two do not compare
    (no reference, another version, expectation or fidelity) one that does not hold is skipped, and why is said.
    """
    before = {claim.id: claim for claim in reference.claims} if reference is not None else {}
    cases = []
    for claim in claims:
        old = before.pop(claim.id, None)
        cases.append(_claim_case(experiment, claim, old, _incomparable(version, claim, old, fidelity, reference)))
    gone = [Case(name=name, status="skipped", message="in the reference, not in this run") for name in before]
    return cases + gone


def _claim_case(experiment: str, now: ClaimResult, before: ClaimResult | None, incomparable: str | None) -> Case:
    here = f"measured {measured(now)}, expected {now.expected}"
    there = f"reference {measured(before)} ({before.verdict})" if before is not None else "no reference value"
    if now.verdict == "not-measurable":
        return Case(name=now.id, status="skipped", message=f"not measurable: {now.reason}; {there}")
    if now.verdict in HOLDS:
        return Case(name=now.id, status="passed", message=f"{here}; {there}")
    if before is None or incomparable is not None:
        why = incomparable or "the reference does not have this claim"
        return Case(name=now.id, status="skipped", message=f"{now.verdict}, but not compared: {why}; {here}")
    if before.verdict in HOLDS:
        because = f" ({now.reason})" if now.reason else ""
        message = (
            f"{experiment}: claim {now.id} turned from {before.verdict} to {now.verdict}: {here}{because}; {there}"
        )
        return Case(name=now.id, status="failed", message=message)
    return Case(name=now.id, status="passed", message=f"{now.verdict}, and did not hold before; {here}; {there}")


def _incomparable(
    version: int,
    now: ClaimResult,
    before: ClaimResult | None,
    fidelity: Mapping[str, str],
    reference: Verdicts | None,
) -> str | None:
    """Why a claim's verdict does not compare with that of the reference; None when it does."""
    if reference is None:
        return "there is no reference (./inv reference makes one)"
    if reference.version != version:
        return f"the reference is of version {reference.version} of the experiment, this is {version}"
    if before is None or now.metric is None:
        return None
    if (before.metric, before.expected) != (now.metric, now.expected):
        return f"the claim has changed: the reference's is {before.metric} {before.expected}"
    arm = now.metric.split("/", 1)[1]
    here, there = fidelity.get(arm), reference.fidelity.get(arm)
    if here != there and before.verdict != "not-measurable":
        return f"the reference is {there}, this is {here}"
    return None


def digest_case(result: ResultSet, reference: Reference | None) -> Case:
    """Whether the bits of the trials that both have are equal; skipped where the distribution gave other inputs."""
    if result.manifest.digest is None:
        return Case(name="digest", status="skipped", message=result.manifest.absent["digest"])
    if reference is None:
        return Case(name="digest", status="skipped", message="there is no reference (./inv reference makes one)")
    mine = reference_of(result)
    difference = compare(reference, mine)
    if difference is None:
        return Case(name="digest", status="passed")
    changed = first_input_difference(foreign_inputs(reference), foreign_inputs(mine))
    if changed is not None:
        return Case(name="digest", status="skipped", message=f"the reference was made with another input: {changed}")
    return Case(
        name="digest",
        status="error",
        message=f"{result.manifest.experiment.name}: digest differs: {difference}; if that is meant: ./inv reference",
    )


def shifts(before: Sequence[MetricMedian], now: Sequence[MetricMedian]) -> tuple[str, ...]:
    """The medians that differ most, by change over the reference's magnitude; at most MAX_SHIFTS lines."""
    old = {(row.arm, row.metric): row for row in before}
    moved = []
    for row in now:
        was = old.get((row.arm, row.metric))
        if was is None or was.median is None or row.median is None or was.median == row.median:
            continue
        relative = abs(row.median - was.median) / (abs(was.median) or abs(row.median))
        text = f"{row.metric}/{row.arm}: {number(was.median)} → {number(row.median)} {row.unit or ''}".rstrip()
        moved.append((relative, text))
    return tuple(text for _, text in sorted(moved, key=lambda one: (-one[0], one[1]))[:MAX_SHIFTS])
