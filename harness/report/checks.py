# SPDX-License-Identifier: MIT
"""A run against what is known: one case per claim, one for the digest, and the figures that moved most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.measure.claims import ClaimResult
from harness.measure.known import expected, is_news, is_untold
from harness.report.junit import Case
from harness.report.terminal import measured, number
from harness.sets.reference import Reference, compare, first_input_difference, foreign_inputs, reference_of
from harness.sets.resultset import ResultSet
from harness.sets.values import Value, Values

MAX_SHIFTS = 10


def claim_cases(experiment: str, claims: Sequence[ClaimResult], reference: Values | None) -> list[Case]:
    """One case per claim: news where its verdict is (`harness.measure.known`), absent where it has none.

    The reference's figure is told beside; it decides nothing.
    """
    return [
        _claim_case(experiment, claim, reference.of(claim.id) if reference is not None else None) for claim in claims
    ]


def _claim_case(experiment: str, claim: ClaimResult, before: Value | None) -> Case:
    here = f"measured {measured(claim)}, expected {claim.expected}"
    there = f"reference {measured(before)}" if before is not None else "no reference value"
    if is_untold(claim):
        return Case(name=claim.id, status="absent", message=f"not measurable: {claim.reason}; {there}")
    if is_news(claim):
        because = f" ({claim.reason})" if claim.reason else ""
        known = f"known as {expected(claim)}"
        message = f"{experiment}: claim {claim.id} is {claim.verdict}, {known}: {here}{because}; {there}"
        return Case(name=claim.id, status="news", message=message)
    return Case(name=claim.id, status="ok", message=f"{claim.verdict}, as known; {here}; {there}")


def digest_case(result: ResultSet, reference: Reference | None) -> Case:
    """Whether the bits of the trials that both have are equal; absent where the distribution gave other inputs."""
    if result.manifest.digest is None:
        return Case(name="digest", status="absent", message=result.manifest.absent["digest"])
    if reference is None:
        return Case(name="digest", status="absent", message="there is no reference (./inv reference makes one)")
    mine = reference_of(result)
    difference = compare(reference, mine)
    if difference is None:
        return Case(name="digest", status="ok")
    changed = first_input_difference(foreign_inputs(reference), foreign_inputs(mine))
    if changed is not None:
        return Case(name="digest", status="absent", message=f"the reference was made with another input: {changed}")
    return Case(
        name="digest",
        status="failed",
        message=f"{result.manifest.experiment.name}: digest differs: {difference}; if that is meant: ./inv reference",
    )


def shifts(
    reference: Values, version: int, claims: Sequence[ClaimResult], fidelity: Mapping[str, str]
) -> tuple[str, ...]:
    """The claims' figures that differ most, by change over the reference's magnitude; at most MAX_SHIFTS lines.

    Those of another version of the experiment, metric or kind of time (`fidelity` is per arm) do not compare.
    """
    moved = []
    for claim in claims:
        was = reference.of(claim.id)
        if was is None or claim.metric != was.metric or reference.version != version:
            continue
        arm = was.metric.split("/", 1)[1]
        if fidelity.get(arm) != reference.fidelity.get(arm):
            continue
        if was.measured is None or claim.measured is None or was.measured == claim.measured:
            continue
        relative = abs(claim.measured - was.measured) / (abs(was.measured) or abs(claim.measured))
        text = f"{was.metric}: {number(was.measured)} → {number(claim.measured)} {claim.unit or ''}".rstrip()
        moved.append((relative, text))
    return tuple(dict.fromkeys(text for _, text in sorted(moved, key=lambda one: (-one[0], one[1]))))[:MAX_SHIFTS]
