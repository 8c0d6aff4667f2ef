# SPDX-License-Identifier: MIT
"""A run against its reference: which claims turned, and what is not compared and why."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.measure.claims import ClaimResult, Verdict
from harness.paths import ROOT
from harness.report.checks import MAX_SHIFTS, claim_cases, digest_case, shifts
from harness.report.junit import Case
from harness.store.reference import reference_of
from harness.store.resultset import MANIFEST, ResultSet
from harness.store.verdicts import MetricMedian, Verdicts

SET = ROOT / "tests/fixtures/20261121T061822.78Z-72ebb59f"


def claim(verdict: Verdict, measured: float | None = 1.0, **fields: object) -> ClaimResult:
    base = ClaimResult(
        id="c", kind="paper", section="1", source=None, paper="says so", statement=None, metric="m/a", unit="ticks",
        expected="= 0", measured=measured, interval=None, trials=3, verdict=verdict, reason=None,
    )  # fmt: skip
    return base.model_copy(update=fields)


def reference(*claims: ClaimResult, version: int = 1, fidelity: str = "virtual") -> Verdicts:
    return Verdicts(
        experiment="x", version=version, result="r", profile="full", seed=1, fidelity={"a": fidelity},
        claims=list(claims), metrics=[],
    )  # fmt: skip


def only(now: ClaimResult, before: Verdicts | None) -> Case:
    (case,) = claim_cases("x", 1, [now], {"a": "virtual"}, before)
    return case


def test_a_claim_that_turns_names_experiment_claim_measured_and_reference_value():
    now = claim("contradicted", 17.25, interval=(17.0, 18.5), reason="3 of 3 trials differ")
    case = only(now, reference(claim("reproduced", 0.0)))
    assert case.status == "failed"
    assert case.message == (
        "x: claim c turned from reproduced to contradicted: measured 17.25 [17, 18.5] ticks, expected = 0 "
        "(3 of 3 trials differ); reference 0 ticks (reproduced)"
    )


@pytest.mark.parametrize(
    ("now", "before", "status", "says"),
    [
        (claim("reproduced"), reference(claim("reproduced")), "passed", "reference 1 ticks"),
        (claim("reproduced"), reference(claim("contradicted", 9.0)), "passed", "reference 9 ticks (contradicted)"),
        (claim("reproduced"), None, "passed", "no reference value"),
        (claim("contradicted"), reference(claim("contradicted")), "passed", "contradicted, and did not hold before"),
        (claim("contradicted"), reference(claim("not-measurable", None)), "passed", "did not hold before"),
        (
            claim("not-measurable", None, reason="no PMU"),
            reference(claim("reproduced", 4.0)),
            "skipped",
            "not measurable: no PMU; reference 4 ticks (reproduced)",
        ),
        (claim("contradicted"), None, "skipped", "not compared: there is no reference"),
        (claim("contradicted"), reference(claim("reproduced", id="d")), "skipped", "does not have this claim"),
        (
            claim("contradicted"),
            reference(claim("reproduced"), version=2),
            "skipped",
            "the reference is of version 2 of the experiment, this is 1",
        ),
        (
            claim("contradicted"),
            reference(claim("reproduced", expected="≥ 1")),
            "skipped",
            "the claim has changed: the reference's is m/a ≥ 1",
        ),
        (
            claim("contradicted"),
            reference(claim("reproduced"), fidelity="kvm"),
            "skipped",
            "the reference is kvm, this is virtual",
        ),
    ],
)
def test_what_is_no_turn(now, before, status, says):
    case = claim_cases("x", 1, [now], {"a": "virtual"}, before)[0]
    assert case.status == status
    assert says in case.message


def test_a_claim_that_is_gone_is_said_to_be():
    cases = claim_cases("x", 1, [claim("reproduced")], {"a": "virtual"}, reference(claim("reproduced", id="gone")))
    assert [(case.name, case.status) for case in cases] == [("c", "passed"), ("gone", "skipped")]


@pytest.fixture
def other(tmp_path: Path) -> ResultSet:
    """A copy of the old set, whose manifest tests change."""
    shutil.copytree(SET, tmp_path / "set")
    return ResultSet(tmp_path / "set")


def test_digests(other):
    mine = ResultSet(SET)
    assert digest_case(mine, reference_of(mine)).status == "passed"
    assert digest_case(mine, None).status == "skipped"
    path = other.path / MANIFEST
    path.write_text(path.read_text().replace('"raw/left/0/job.exit": "', '"raw/left/0/job.exit": "f'))
    case = digest_case(ResultSet(other.path), reference_of(mine))
    assert case.status == "error"
    assert "example: digest differs: raw/left/0/job.exit differs (all inputs are equal)" in case.message
    path.write_text(path.read_text().replace("QEMU 7.2", "QEMU 8"))
    case = digest_case(ResultSet(other.path), reference_of(mine))
    assert (case.status, "qemu: QEMU 7.2 there, QEMU 8 here" in case.message) == ("skipped", True)


def median(metric: str, value: float | None, arm: str = "a") -> MetricMedian:
    return MetricMedian(arm=arm, metric=metric, unit="s", median=value, trials=1, reason=None if value else "none")


def test_the_medians_that_moved_most_come_first():
    before = [median("same", 1.0), median("little", 10.0), median("much", 1.0), median("zero", 0.0), median("gone", 1)]
    now = [median("same", 1.0), median("little", 11.0), median("much", -4.0), median("zero", 0.5), median("new", 1.0)]
    now += [median("gone", None)]
    assert shifts(before, now) == ("much/a: 1 → -4 s", "zero/a: 0 → 0.5 s", "little/a: 10 → 11 s")
    many = [median(f"m{index}", 1.0) for index in range(30)]
    assert len(shifts(many, [row.model_copy(update={"median": 2.0}) for row in many])) == MAX_SHIFTS
