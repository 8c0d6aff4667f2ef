# SPDX-License-Identifier: MIT
"""Parts of a plan: which trials a shard or a range of repetitions has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.trial.part import Part, parse_part, plan_id
from harness.trial.plan import ordered
from tests.unit.test_plan import THREE

PLAN = ordered(THREE, {"a": 5, "b": 5, "c": 2}, 1)


@pytest.mark.parametrize(
    ("repetitions", "shard", "part", "text"),
    [
        (None, None, Part(), ""),
        (5, None, Part(5), ""),
        ("5", None, Part(5), ""),
        ("5:9", None, Part(None, (5, 9)), "--repetitions 5:9"),
        ("5:9/30", None, Part(30, (5, 9)), "--repetitions 5:9/30"),
        (None, "3/10", Part(None, None, (3, 10)), "--shard 3/10"),
        ("30", "3/10", Part(30, None, (3, 10)), "--shard 3/10"),
    ],
)
def test_what_asks_for_a_part(repetitions, shard, part, text):
    assert parse_part(repetitions, shard) == part
    assert part.text == text


@pytest.mark.parametrize(
    ("repetitions", "shard", "says"),
    [
        ("five", None, "--repetitions five: must be a whole number, or FIRST:END"),
        ("0", None, "--repetitions 0: must be 1 or more"),
        (-1, None, "--repetitions -1: must be 1 or more"),
        ("9:5", None, "--repetitions 9:5: from the first to before the last"),
        ("5:9/8", None, "--repetitions 5:9/8: from"),
        (None, "0/10", "--shard 0/10: must be NUMBER/SHARDS"),
        (None, "11/10", "--shard 11/10: must be"),
        (None, "3", "--shard 3: must be"),
        ("1:2", "1/2", "--shard and --repetitions FIRST:END: give one of them"),
    ],
)
def test_what_asks_for_none(repetitions, shard, says):
    with pytest.raises(UsageError, match=f"^{says}"):
        parse_part(repetitions, shard)


@given(shards=st.integers(1, len(PLAN)))
def test_shards_are_the_plan(shards):
    parts = [Part(shard=(number, shards)).of(PLAN) for number in range(1, shards + 1)]
    assert sorted((t for part in parts for t in part), key=PLAN.index) == PLAN
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert all(sorted(part, key=PLAN.index) == part for part in parts), "in the order of the plan"


def test_repetitions_stay_together():
    """An arm is compared with another on one machine: both have the repetition there."""
    plan = ordered(THREE, {"a": 30, "b": 30, "c": 30}, 7)
    for number in range(1, 11):
        own = Part(shard=(number, 10)).of(plan)
        assert {trial.repetition for trial in own} == {3 * (number - 1), 3 * (number - 1) + 1, 3 * number - 1}


def test_a_range_is_as_in_python():
    own = Part(None, (1, 3)).of(PLAN)
    assert {(t.arm, t.repetition) for t in own} == {("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 1)}


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (Part(None, (3, 9)), r"--repetitions 3:9: the plan has 5 repetitions \(3:9/9 is of 9 repetitions\)"),
        (Part(shard=(1, 13)), "--shard 1/13: the plan has 12 trials"),
    ],
)
def test_parts_that_the_plan_does_not_have(part, says):
    with pytest.raises(UsageError, match=f"^{says}"):
        part.of(PLAN)


def test_a_plan_has_one_identity():
    one = plan_id(THREE, ordered(THREE, {"a": 3, "b": 3}, 1))
    assert one == plan_id(THREE, ordered(THREE, {"a": 3, "b": 3}, 1))
    arms = {**THREE.arms, "a": THREE.arms["a"].model_copy(update={"cpus": 2})}
    others = [
        plan_id(THREE, ordered(THREE, {"a": 3, "b": 3}, 2)),
        plan_id(THREE, ordered(THREE, {"a": 3, "b": 4}, 1)),
        plan_id(THREE, ordered(THREE, {"a": 3}, 1)),
        plan_id(THREE.model_copy(update={"arms": arms}), ordered(THREE, {"a": 3, "b": 3}, 1)),
    ]
    assert len({one, *others}) == 5
