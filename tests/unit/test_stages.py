# SPDX-License-Identifier: MIT
"""Which claims can be told before all arms have run, and which trials run when."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from harness.errors import UsageError
from harness.experiment.claim import Claim
from harness.measure.claims import ClaimResult
from harness.run.stages import due, in_turn, settled, stages, told
from harness.trial.plan import PlannedTrial


def claim(name: str, metric: str | None = "total/one", **fields: object) -> Claim:
    base = {"id": name, "metric": metric, "because": "it says so"}
    base |= {"expect": {"equals": 1}} if metric else {"kind": "paper"}
    return Claim.model_validate(base | fields)


def result(name: str, verdict: str, kind: str = "paper", measured: float | None = 2.0) -> ClaimResult:
    return ClaimResult(
        id=name, kind=kind, section=None, source=None, paper=None, statement=None, metric="total/one", unit="1",
        expected="= 1", measured=measured, interval=None, trials=1, verdict=verdict, reason=None,
    )  # fmt: skip


def test_a_claim_of_an_arm_to_come_is_not_settled():
    claims = [claim("now"), claim("later", "total/two")]
    assert settled(claims, {"one"}) == {"now"}
    assert settled(claims, {"one", "two"}) == {"now", "later"}
    assert settled([claims[0].model_copy(update={"across": object()})], {"one"}) == set()


def test_a_claim_that_a_finding_to_come_may_refute_is_not_settled():
    refuting = claim("finding", "total/two", kind="finding", statement="it is not so", refutes="now")
    assert settled([claim("now"), refuting], {"one"}) == set()
    assert settled([claim("now"), refuting], {"one", "two"}) == {"now", "finding"}


def test_an_effect_waits_for_its_control():
    control = claim("control", "total/two", kind="finding", statement="no effect", controls=["effect"])
    assert settled([claim("effect"), control], {"one"}) == set()


def test_trials_of_the_wall_clock_run_last():
    specs = [
        SimpleNamespace(arm="a", repetition=0, machine=SimpleNamespace(clock="virtual")),
        SimpleNamespace(arm="b", repetition=0, machine=SimpleNamespace(clock="wall")),
        SimpleNamespace(arm="a", repetition=1, machine=SimpleNamespace(clock="virtual")),
    ]
    assert due(specs, {("a", 0)}, last=False) == [specs[2]]
    assert due(specs, {("a", 0)}, last=True) == specs[1:]


@pytest.mark.parametrize(("built", "parts"), [({"x", "y"}, [["a", "b", "c"]]), ({"x"}, [["a", "c"], ["b"]])])
def test_only_a_later_kernel_that_is_absent_makes_stages(monkeypatch, built, parts):
    monkeypatch.setattr("harness.run.stages.kernel_is_built", lambda store, recipe: recipe in built)
    kernels = {"a": "x", "b": "y", "c": "x"}
    experiment = SimpleNamespace(arms={arm: SimpleNamespace(kernel=kernel) for arm, kernel in kernels.items()})
    plan = [PlannedTrial(arm, 0, 1) for arm in "abc"]
    made = stages(None, experiment, plan, {"x": "x", "y": "y"})
    assert [[trial.arm for trial in part] for part in made] == parts


def test_what_is_told_is_short():
    results = [result("one", "reproduced"), result("two", "contradicted", measured=None)]
    results += [result(str(index), verdict, "finding") for index, verdict in enumerate(["confirmed"] * 2 + ["refuted"])]
    assert told(results, 3, 5) == [
        "3 of 5 arms: 1 reproduced, 1 contradicted, 2 confirmed, 1 refuted; the next kernel is built now",
        "  two is contradicted, known as reproduced",
        "  2 is refuted, known as confirmed: 2 where = 1 is expected",
    ]
    assert told(results[:1], 3, 5)[1:] == ["  all as known"]
    assert told([], 3, 5) == []


def test_what_is_predicted_comes_after_what_predicts_it():
    arms = {"b": SimpleNamespace(predicted_by="a"), "a": SimpleNamespace(predicted_by=None)}
    plan = [PlannedTrial(arm, repetition, 1) for repetition in (0, 1) for arm in "ba"]
    halves = in_turn(SimpleNamespace(arms=arms), plan)
    assert [[(trial.arm, trial.repetition) for trial in half] for half in halves] == [
        [("a", 0), ("a", 1)],
        [("b", 0), ("b", 1)],
    ]
    assert in_turn(SimpleNamespace(arms=arms), plan[1:2]) == [plan[1:2]]
    with pytest.raises(UsageError, match="trial b 1 is predicted by that of a, which is not in this run"):
        in_turn(SimpleNamespace(arms=arms), plan[:3])
