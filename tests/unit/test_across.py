# SPDX-License-Identifier: MIT
"""Claims that compare arms of a matrix: ratio, slope, order, equality, and negative controls."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from harness.experiment.claim import Claim
from harness.measure.claims import METRIC_COLUMNS, ClaimResult, judge
from harness.measure.statistics import least_trials, median_estimate
from harness.trial.model import TrialRecord
from tests.records import trial_record

KERNELS, METHODS, SIZES = ("old", "new"), ("read", "mmap"), (1, 2, 4, 8)
Place = Mapping[str, Any]
REPETITIONS = 5


def record(arm: str, place: Place, repetition: int, status: str = "ok", group: str = "copy") -> TrialRecord:
    told = {"status": status, "group": group, "dimensions": dict(place)}
    return trial_record(arm, repetition, seed=repetition, workloads=("w",), **told)


class Run:
    """Trials of 2 kernels x 2 methods x 4 sizes, and a metric `m` by its place and repetition; None is absent."""

    def __init__(self, value: Callable[[Place, int], float | None], repetitions: int = REPETITIONS) -> None:
        self.trials: list[TrialRecord] = []
        self.rows: list[tuple[Any, ...]] = []
        for kernel, method, size in itertools.product(KERNELS, METHODS, SIZES):
            place = {"kernel": kernel, "method": method, "mib": size}
            arm = f"copy.{kernel}.{method}.mib-{size}"
            for repetition in range(repetitions):
                self.trials.append(record(arm, place, repetition))
                number = value(place, repetition)
                reason = "not counted" if number is None else None
                self.rows.append((arm, repetition, "m", np.nan if number is None else number, "ns", reason))
        self.rows.append(("copy.old.read.mib-1", 0, "m2", -1e9, "ns", None))
        self.trials.append(record("other", {"mib": 1}, 0, group="other"))
        self.rows.append(("other", 0, "m", 1e9, "ns", None))

    def without(self, *arms: str, status: str | None = None, repetition: int | None = None) -> Run:
        """Without what these arms (or one repetition of them) gave; with a status, their trials are there still."""
        mine = [one for one in self.trials if one.arm in arms and repetition in (None, one.repetition)]
        keys = {(one.arm, one.repetition) for one in mine}
        self.rows = [row for row in self.rows if row[:2] not in keys]
        gone = [one for one in self.trials if one in mine]
        self.trials = [one for one in self.trials if one not in mine]
        self.trials += [one.model_copy(update={"status": status}) for one in gone if status]
        return self

    def judge(self, *claims: Mapping[str, Any]) -> list[ClaimResult]:
        models = [Claim.model_validate({"id": "c", "metric": "m/copy", "because": "so", **claim}) for claim in claims]
        return judge(models, pd.DataFrame(self.rows, columns=list(METRIC_COLUMNS)), None, self.trials)

    def verdict(self, across: Mapping[str, Any], **expect: Any) -> ClaimResult:
        return self.judge({"across": across, **({"expect": expect} if expect else {})})[0]


def jitter(place: Place, repetition: int) -> float:
    """A few parts in a thousand, of one repetition in all arms a bit alike."""
    number = hash((place["kernel"] == "old", place["method"] == "read", place["mib"])) % 7
    return 1 + 0.001 * (repetition - 2) + 0.0002 * number * (-1) ** repetition


def linear(place: Place, repetition: int) -> float:
    """100 per MiB, mmap half of it, the new kernel a tenth less."""
    factor = (0.5 if place["method"] == "mmap" else 1.0) * (0.9 if place["kernel"] == "new" else 1.0)
    return 100 * place["mib"] * factor * jitter(place, repetition)


def square(place: Place, repetition: int) -> float:
    return 7.0 * place["mib"] ** 2 * jitter(place, repetition)


# -- ratio -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expect", "verdict"),
    [
        ({"between": [0.45, 0.55]}, "reproduced"),
        ({"at_most": 0.4}, "contradicted"),
        ({"at_least": 0.5}, "not-measurable"),
    ],
)
def test_a_ratio_in_every_combination(expect, verdict):
    result = Run(linear, 12).verdict({"ratio": {"method": ["mmap", "read"]}}, **expect)
    assert result.verdict == verdict
    assert result.measured == pytest.approx(0.5, rel=0.01)
    assert result.interval is not None
    assert result.interval[0] <= result.measured <= result.interval[1]
    assert (result.unit, result.trials, result.left_out) == ("1", 12, 0)
    assert "of 8 comparisons" in result.reason or "all 8 comparisons" in result.reason


def test_a_ratio_is_that_of_equal_repetitions():
    """By blocks it is exactly 2 in all of them, however much they differ from each other."""
    run = Run(lambda place, repetition: 10.0**repetition * (2 if place["kernel"] == "old" else 1))
    where = {"method": "read", "mib": 4}
    result = run.verdict({"ratio": {"kernel": ["old", "new"]}, "where": where}, equals=2)
    assert (result.verdict, result.measured, result.interval, result.reason) == ("reproduced", 2.0, (2.0, 2.0), None)
    assert result.expected == "kernel old / new = 2"


def test_one_combination_that_differs_contradicts_and_is_named():
    run = Run(
        lambda place, repetition: (
            linear(place, repetition) * (3 if place["mib"] == 4 and place["method"] == "mmap" else 1)
        )
    )
    result = run.verdict({"ratio": {"method": ["mmap", "read"]}}, at_most=0.6)
    assert result.verdict == "contradicted"
    assert result.measured == pytest.approx(1.5, rel=0.01)
    assert "fails in 2 of 8 comparisons, the most with kernel=" in result.reason
    assert "mib=4" in result.reason


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_a_ratio_needs_a_divisor_above_0(low):
    run = Run(lambda place, repetition: low if place["method"] == "read" else 1.0)
    result = run.verdict({"ratio": {"method": ["mmap", "read"]}, "where": {"kernel": "old", "mib": 1}}, at_most=1)
    assert (result.verdict, result.measured) == ("not-measurable", None)
    assert result.reason == "a ratio needs values above 0 of copy.old.read.mib-1"


# -- slope -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expect", "verdict"),
    [
        (linear, {"between": [0.98, 1.02]}, "reproduced"),
        (square, {"between": [0.98, 1.02]}, "contradicted"),
        (square, {"between": [1.98, 2.02]}, "reproduced"),
    ],
)
def test_a_slope_of_logarithms_is_the_power(value, expect, verdict):
    result = Run(value, 8).verdict({"slope": "mib", "scale": "log-log"}, **expect)
    assert result.verdict == verdict
    assert result.unit == "1"
    assert "a line through 4 values of mib, 1 to 8; the farthest point is 0." in result.reason


def test_a_linear_slope_is_scipys_of_each_repetition():
    run = Run(lambda place, repetition: 5 + (3 + repetition) * place["mib"] ** 1.1)
    where = {"kernel": "old", "method": "read"}
    result = run.verdict({"slope": "mib", "scale": "linear", "where": where}, between=[0, 100])
    y = [[5 + (3 + repetition) * size**1.1 for size in SIZES] for repetition in range(REPETITIONS)]
    slopes = [stats.linregress(SIZES, row).slope for row in y]
    estimate = median_estimate(slopes)
    assert result.measured == pytest.approx(np.median(slopes))
    assert result.interval == pytest.approx((estimate.low, estimate.high))
    assert (result.unit, result.expected) == ("ns/mib", "slope over mib, linear 0 … 100")


def test_the_reason_says_how_far_points_are_off_the_line():
    run = Run(lambda place, repetition: 1000.0 if place["mib"] == 8 else 100.0 * place["mib"])
    result = run.verdict({"slope": "mib", "scale": "linear", "where": {"kernel": "old", "method": "read"}}, at_least=0)
    fit = stats.linregress(SIZES, [100, 200, 400, 1000])
    away = max(abs(fit.intercept + fit.slope * x - y) for x, y in zip(SIZES, [100, 200, 400, 1000], strict=True)) / 1000
    assert f"the farthest point is {100 * away:.2g} % of the largest off it" in result.reason


@pytest.mark.parametrize("bad", [0.0, -3.0])
def test_logarithms_need_values_above_0(bad):
    run = Run(lambda place, repetition: bad if place["mib"] == 1 else 1.0)
    result = run.verdict({"slope": "mib", "scale": "log-log"}, at_least=0)
    assert (result.verdict, result.measured) == ("not-measurable", None)
    assert "a log-log slope needs sizes and values above 0" in result.reason


def test_two_sizes_make_no_slope():
    arms = [f"copy.{kernel}.{method}.mib-{size}" for kernel in KERNELS for method in METHODS for size in (4, 8)]
    result = Run(linear).without(*arms).verdict({"slope": "mib", "scale": "log-log"}, at_least=0)
    assert result.verdict == "not-measurable"
    assert result.reason == "in this run, no arms of copy differ in mib alone and have 3 values or more of it"


# -- order and equality ------------------------------------------------------------------------------------


def test_an_order_holds_at_every_step():
    result = Run(linear, 12).verdict({"order": {"mib": [1, 2, 4, 8]}})
    assert result.verdict == "reproduced"
    assert (
        "holds in all 12 comparisons; nearest to its bound: kernel=new, method=mmap, from mib 1 to 2" in result.reason
    )
    assert (result.unit, result.expected) == ("ns", "mib: 1 < 2 < 4 < 8")
    assert result.measured == pytest.approx(45, rel=0.01)


@pytest.mark.parametrize("order", [[1, 2, 8, 4], [8, 1]])
def test_an_order_that_is_another_is_contradicted(order):
    assert Run(linear, 12).verdict({"order": {"mib": order}}).verdict == "contradicted"


def test_values_that_are_equal_have_no_order():
    result = Run(lambda place, repetition: 5.0).verdict({"order": {"method": ["read", "mmap"]}})
    assert result.verdict == "contradicted"
    assert result.measured == 0


def test_counts_that_are_equal_for_every_kernel():
    run = Run(lambda place, repetition: 1000.0 * place["mib"] + repetition)
    result = run.verdict({"equal": "kernel"})
    assert (result.verdict, result.measured, result.expected) == ("reproduced", 0.0, "equal for every kernel")
    assert run.verdict({"equal": "mib"}).verdict == "contradicted"


def test_one_count_that_differs_contradicts():
    def value(place: Place, repetition: int) -> float:
        return 1001.0 if (place["kernel"], place["mib"], repetition) == ("new", 8, 3) else 1000.0

    result = Run(value).verdict({"equal": "kernel"})
    assert result.verdict == "contradicted"
    assert "fails in 2 of 8 comparisons" in result.reason
    assert "1 of 5 trials differ" in result.reason


@pytest.mark.parametrize(("within", "verdict"), [(0.2, "reproduced"), (0.05, "contradicted")])
def test_equal_within_a_relative_difference(within, verdict):
    result = Run(linear, 12).verdict({"equal": "kernel", "within": within})
    assert result.verdict == verdict
    assert result.measured == pytest.approx(0.1, rel=0.02)
    assert f"within {100 * within:g} %" in result.expected


def test_zeros_are_equal():
    assert Run(lambda place, repetition: 0.0).verdict({"equal": "kernel"}).verdict == "reproduced"


# -- what is not there -------------------------------------------------------------------------------------

ONE = {"ratio": {"method": ["mmap", "read"]}, "where": {"kernel": "old", "mib": 1}}


def test_an_arm_without_a_good_trial_is_not_passed_over():
    arm = "copy.old.read.mib-8"
    run = Run(linear).without(arm, status="failed")
    result = run.verdict({"slope": "mib", "scale": "log-log", "where": {"method": "read"}}, between=[0.9, 1.1])
    assert result.verdict == "not-measurable"
    assert f"cannot be told in 1 of 2 comparisons, such as kernel=old; {arm}: no trial was good" == result.reason
    across = {"slope": "mib", "scale": "log-log", "where": {"method": "read"}}
    held = Run(linear).without(arm).verdict(across, between=[0.9, 1.1])
    assert held.verdict == "reproduced", "it took no part: the run was of three sizes there"


def test_an_absent_value_gives_its_reason():
    run = Run(lambda place, repetition: None if (place["mib"], repetition) == (1, 2) else 1.0)
    result = run.verdict(ONE, at_least=0)
    assert (result.verdict, result.reason) == ("not-measurable", "copy.old.mmap.mib-1: not counted")


def test_a_repetition_that_lacks_an_arm_is_left_out():
    run = Run(linear, 6).without("copy.old.read.mib-1", repetition=3, status="ok")
    result = run.verdict(ONE, between=[0.4, 0.6])
    assert (result.verdict, result.trials, result.left_out) == ("reproduced", 5, 1)
    assert result.of_trials == "5 of 6 trials; 1 left out"


def test_repetitions_of_which_none_has_both_arms():
    run = Run(linear, 2)
    run.without("copy.old.read.mib-1", repetition=0, status="ok").without(
        "copy.old.mmap.mib-1", repetition=1, status="ok"
    )
    assert run.verdict(ONE, at_least=0).reason == "no repetition is good in all arms compared"


@pytest.mark.parametrize(
    ("gone", "across", "reason"),
    [
        ("old", {"equal": "kernel"}, "no arms of copy differ in kernel alone and have several values of it"),
        ("old", {"order": {"kernel": ["old", "new"]}}, "no arms of copy differ in kernel alone and have old and new"),
    ],
)
def test_a_run_that_has_not_the_arms(gone, across, reason):
    run = Run(linear)
    run.without(*{one.arm for one in run.trials if one.dimensions.get("kernel") == gone})
    assert run.verdict(across).reason == f"in this run, {reason}"


def test_a_run_without_the_matrix():
    run = Run(linear)
    run.without(*{one.arm for one in run.trials if one.group == "copy"})
    assert run.verdict({"equal": "kernel"}).reason == "no arm of copy that it is about took part in this run"


# -- how sure ----------------------------------------------------------------------------------------------


def test_several_comparisons_need_more_repetitions_for_an_interval():
    """As many as make the range of all leave out the median as seldom as 5 do for one comparison."""
    assert [least_trials(count) for count in (1, 2, 3, 8, 16)] == [5, 6, 7, 8, 9]
    across = {"ratio": {"method": ["mmap", "read"]}}
    few = Run(linear, 7).verdict(across, between=[0.4, 0.6])
    assert (few.verdict, few.interval) == ("reproduced", None)
    assert "7 trials, too few for an interval" in few.reason
    assert Run(linear, 8).verdict(across, between=[0.4, 0.6]).interval is not None


def test_they_hold_together_as_often_as_they_say():
    """Of 8 comparisons whose medians are all 0, all 8 intervals have it in about 95 % of runs or more."""
    random = np.random.default_rng(7)
    runs = 60
    whole = sum(
        all(
            estimate.low <= 0 <= estimate.high
            for estimate in (median_estimate(random.normal(size=12), comparisons=8) for _ in range(8))
        )
        for _ in range(runs)
    )
    assert stats.binomtest(whole, runs, 0.95, alternative="less").pvalue > 0.001


# -- negative controls -------------------------------------------------------------------------------------


def effect_and_control(run: Run, bound: Sequence[float]) -> dict[str, ClaimResult]:
    effect = {
        "id": "effect",
        "across": {"ratio": {"kernel": ["new", "old"]}, "where": {"method": "read"}},
        "expect": {"at_most": 0.95},
    }
    control = {
        "id": "control",
        "kind": "finding",
        "across": {"ratio": {"kernel": ["new", "old"]}, "where": {"method": "mmap"}},
        "expect": {"between": list(bound)},
        "controls": ["effect"],
    }
    return {result.id: result for result in run.judge(effect, control)}


def only_read(place: Place, repetition: int) -> float:
    return (0.9 if (place["kernel"], place["method"]) == ("new", "read") else 1.0) * jitter(place, repetition)


def test_an_effect_with_a_control_that_shows_none_stands():
    told = effect_and_control(Run(only_read), [0.98, 1.02])
    assert (told["control"].verdict, told["effect"].verdict) == ("confirmed", "reproduced")
    assert told["control"].controls == ["effect"]


def test_an_effect_whose_control_shows_it_too_is_not_measurable():
    told = effect_and_control(Run(linear), [0.98, 1.02])
    assert (told["control"].verdict, told["effect"].verdict) == ("refuted", "not-measurable")
    assert told["effect"].measured == pytest.approx(0.9, rel=0.01)
    assert told["effect"].reason.startswith("its negative control control does not hold: fails in 4 of 4 comparisons")


def test_an_effect_whose_control_cannot_be_told_is_not_measurable():
    def value(place: Place, repetition: int) -> float | None:
        return None if place["method"] == "mmap" else only_read(place, repetition)

    told = effect_and_control(Run(value), [0.98, 1.02])
    assert (told["control"].verdict, told["effect"].verdict) == ("not-measurable", "not-measurable")
    assert told["effect"].reason.startswith("its negative control control cannot be told: ")
    assert "not counted" in told["effect"].reason


def test_an_effect_that_is_not_there_keeps_its_own_reason():
    def value(place: Place, repetition: int) -> float | None:
        return None if place["method"] == "read" else linear(place, repetition)

    told = effect_and_control(Run(value), [0.98, 1.02])
    assert told["effect"].verdict == "not-measurable"
    assert "control" not in told["effect"].reason


def test_a_finding_whose_control_fails_refutes_nothing():
    ratio = {"across": {"ratio": {"kernel": ["new", "old"]}}, "expect": {"at_most": 0.95}}
    claims = [
        {"id": "paper", "across": {"equal": "kernel", "within": 0.5}},
        {"id": "against", "kind": "finding", "refutes": "paper", **ratio},
    ]
    control = {"id": "control", "kind": "finding", "across": {"equal": "kernel"}, "controls": ["against"]}
    assert [one.verdict for one in Run(linear).judge(*claims)] == ["contradicted", "confirmed"]
    verdicts = [one.verdict for one in Run(linear).judge(*claims, control)]
    assert verdicts == ["reproduced", "not-measurable", "refuted"]
