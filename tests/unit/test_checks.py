# SPDX-License-Identifier: MIT
"""A run against what is known: which verdicts are news, and which figures moved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.errors import exit_code
from harness.measure.claims import ClaimResult, Verdict
from harness.measure.known import news, news_lines, untold
from harness.paths import ROOT
from harness.report.checks import MAX_SHIFTS, claim_cases, digest_case, shifts
from harness.sets.reference import reference_of
from harness.sets.resultset import MANIFEST, ResultSet
from harness.sets.values import Value, Values

SET = ROOT / "tests/fixtures/20261121T061822.78Z-d26ba662"


def claim(verdict: Verdict, measured: float | None = 1.0, **fields: object) -> ClaimResult:
    base = ClaimResult(
        id="c", kind="paper", section="1", source=None, paper="says so", statement=None, metric="m/a", unit="ticks",
        expected="= 0", measured=measured, interval=None, trials=3, verdict=verdict, reason=None,
    )  # fmt: skip
    return base.model_copy(update=fields)


def value(measured: float | None, metric: str = "m/a", id_: str = "c") -> Value:
    return Value(id=id_, metric=metric, measured=measured, interval=None, unit="ticks", trials=3)


def reference(*claims: Value, version: int = 1, fidelity: str = "virtual") -> Values:
    return Values(
        experiment="x", version=version, result="r", profile="full", seed=1, fidelity={"a": fidelity},
        claims=list(claims),
    )  # fmt: skip


def test_news_names_experiment_claim_what_is_known_measured_and_reference_value():
    now = claim("contradicted", 17.25, interval=(17.0, 18.5), reason="3 of 3 trials differ")
    (case,) = claim_cases("x", [now], reference(value(0.0)))
    assert case.status == "news"
    assert case.message == (
        "x: claim c is contradicted, known as reproduced: measured 17.25 [17, 18.5] ticks, expected = 0 "
        "(3 of 3 trials differ); reference 0 ticks"
    )


@pytest.mark.parametrize(
    ("now", "status", "says"),
    [
        (claim("reproduced"), "ok", "reproduced, as known"),
        (claim("contradicted", known="contradicted"), "ok", "contradicted, as known"),
        (claim("refuted", kind="finding", known="refuted"), "ok", "refuted, as known"),
        (claim("reproduced", known="contradicted"), "news", "c is reproduced, known as contradicted"),
        (claim("refuted", kind="finding"), "news", "c is refuted, known as confirmed"),
        (claim("reproduced", known="not-measurable"), "news", "c is reproduced, known as not-measurable"),
        (claim("not-measurable", None, reason="no PMU"), "absent", "not measurable: no PMU; reference 4 ticks"),
        (claim("not-measurable", None, known="contradicted"), "absent", "not measurable"),
        (claim("not-measurable", None, known="not-measurable"), "ok", "not-measurable, as known"),
        (claim("contradicted", known="not-measurable"), "news", "c is contradicted, known as not-measurable"),
        (claim("confirmed", kind="finding"), "ok", "confirmed, as known"),
        (claim("confirmed", kind="finding", known="refuted"), "news", "c is confirmed, known as refuted"),
    ],
)
def test_a_verdict_against_what_is_known(now, status, says):
    (case,) = claim_cases("x", [now], reference(value(4.0)))
    assert case.status == status
    assert says in case.message
    assert bool(news([now])) == (status == "news")
    assert bool(news_lines([now])) == (status == "news") == exit_code(news=bool(news([now])))
    assert bool(untold([now])) == (status == "absent")
    assert "no reference value" in claim_cases("x", [now], None)[0].message


@pytest.fixture
def other(tmp_path: Path) -> ResultSet:
    """A copy of the old set, whose manifest tests change."""
    shutil.copytree(SET, tmp_path / "set")
    return ResultSet(tmp_path / "set")


def test_digests(other):
    mine = ResultSet(SET)
    assert digest_case(mine, reference_of(mine)).status == "ok"
    assert digest_case(mine, None).status == "absent"
    path = other.path / MANIFEST
    path.write_text(path.read_text().replace('"raw/left/0/job.exit": "', '"raw/left/0/job.exit": "f'))
    case = digest_case(ResultSet(other.path), reference_of(mine))
    assert case.status == "failed"
    assert "example: digest differs: raw/left/0/job.exit differs (all inputs are equal)" in case.message
    path.write_text(path.read_text().replace("QEMU 7.2", "QEMU 8"))
    case = digest_case(ResultSet(other.path), reference_of(mine))
    assert (case.status, "qemu: QEMU 7.2 there, QEMU 8 here" in case.message) == ("absent", True)


def test_the_figures_that_moved_most_come_first():
    def now(metric: str, measured: float | None) -> ClaimResult:
        return claim("reproduced", measured, id=metric, metric=f"{metric}/a")

    names = {"same": 1.0, "little": 10.0, "much": 1.0, "zero": 0.0, "gone": 1.0}
    before = reference(*(value(measured, f"{name}/a", name) for name, measured in names.items()))
    after = {"same": 1.0, "little": 11.0, "much": -4.0, "zero": 0.5, "gone": None, "new": 1.0}
    claims = [now(*one) for one in after.items()]
    told = ("much/a: 1 → -4 ticks", "zero/a: 0 → 0.5 ticks", "little/a: 10 → 11 ticks")
    assert shifts(before, 1, claims, {"a": "virtual"}) == told
    assert shifts(before, 2, claims, {"a": "virtual"}) == (), "another version"
    assert shifts(before, 1, claims, {"a": "kvm"}) == (), "another kind of time"
    many = reference(*(value(1.0, f"m{index}/a", f"m{index}") for index in range(30)))
    assert len(shifts(many, 1, [now(f"m{index}", 2.0) for index in range(30)], {"a": "virtual"})) == MAX_SHIFTS
