# SPDX-License-Identifier: MIT
"""Intervals are right about as often as they say; effects, advice, outliers and drift as scipy and hand say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.measure import statistics
from harness.measure.statistics import (
    DRIFT_PROBABILITY,
    MIN_TRIALS,
    OUTLIER_SCORE,
    drift,
    effect,
    median_estimate,
    modified_z_scores,
    more_trials,
)


@pytest.fixture
def few_resamples(monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 199)


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], [1.0, math.nan], [math.inf, 1.0], 3.0])
def test_what_is_no_sample_is_refused(values):
    with pytest.raises(ValueError, match="finite numbers"):
        median_estimate(values)


@pytest.mark.parametrize("values", [[7.0], [6.0, 8.0], [6.0, 7.0, 8.0], [6.0, 7.0, 7.0, 8.0]])
def test_few_trials_have_no_interval(values):
    estimate = median_estimate(values)
    assert (estimate.value, estimate.trials, estimate.interval_known) == (7.0, len(values), False)
    assert math.isnan(estimate.low)


@given(values=st.lists(st.integers(-1000, 1000), min_size=MIN_TRIALS, max_size=12))
def test_the_interval_is_known_and_within_the_data(few_resamples, values):
    estimate = median_estimate(values)
    assert estimate.interval_known
    assert min(values) <= estimate.low <= estimate.high <= max(values)
    assert estimate.value == np.median(values)


def test_more_trials_give_a_narrower_interval(few_resamples):
    rng = np.random.default_rng(3)
    widths = [
        np.mean([(e := median_estimate(rng.normal(size=size))).high - e.low for _ in range(10)]) for size in (8, 200)
    ]
    assert widths[1] < widths[0] / 2


@pytest.mark.parametrize("draw", ["normal", "exponential"])
def test_coverage(few_resamples, draw):
    """200 data sets of 20 trials: the true median lies in the 95 % interval in 95 % of them, give or take chance."""
    rng = np.random.default_rng(11)
    true = {"normal": 0.0, "exponential": math.log(2)}[draw]
    estimates = [median_estimate(getattr(rng, draw)(size=20)) for _ in range(200)]
    inside = np.mean([estimate.low <= true <= estimate.high for estimate in estimates])
    assert 0.90 <= inside <= 0.985


# -- effect ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "kind", "value", "scale"),
    [
        ([2, 4, 6], [6, 8, 10], "ratio", 2.0, 1.0),
        ([0, 4, 6], [6, 8, 10], "difference", 4.0, 8.0),
        ([2, 4, 6], [-6, -8, -10], "difference", -12.0, 8.0),
        ([0], [0], "difference", 0.0, 0.0),
    ],
)
def test_an_effect_is_a_ratio_where_it_can_be(a, b, kind, value, scale):
    found = effect(a, b)
    assert (found.kind, found.value, found.scale, found.interval_known) == (kind, value, scale, False)
    assert not found.distinguishable
    assert math.isnan(found.half_width)


@pytest.mark.parametrize("wrong", [[], [math.nan], [[1.0]]])
def test_effects_need_samples(wrong):
    with pytest.raises(ValueError, match="finite numbers"):
        effect(wrong, [1.0])
    with pytest.raises(ValueError, match="finite numbers"):
        effect([1.0], wrong)


@pytest.mark.parametrize(("size", "told"), [(1, False), (2, False), (3, True)])
def test_groups_of_equal_values_are_told_apart_from_three_on(size, told):
    """With two equally likely values, groups of 3 look so by chance in 1 of 32 cases, of 2 in 1 of 8."""
    assert effect([5.0] * size, [6.0] * size).distinguishable is told
    assert not effect([5.0] * size, [5.0] * size).distinguishable


def test_the_effect_s_interval_is_scipy_s():
    a, b = [10.0, 11.0, 12.0, 13.0, 15.0, 18.0], [11.0, 14.0, 15.0, 16.0, 19.0]
    for kind, shift, function in (
        ("ratio", 0.0, lambda x, y, axis: np.median(y, axis=axis) / np.median(x, axis=axis)),
        ("difference", -20.0, lambda x, y, axis: np.median(y, axis=axis) - np.median(x, axis=axis)),
    ):
        groups = np.add(a, shift), np.add(b, shift)
        interval = stats.bootstrap(
            groups, function, vectorized=True, n_resamples=20_000, method="percentile", rng=np.random.default_rng(9)
        ).confidence_interval
        found = effect(*groups)
        assert found.kind == kind
        assert found.low == pytest.approx(interval.low, rel=0.02, abs=0.02)
        assert found.high == pytest.approx(interval.high, rel=0.02, abs=0.02)


@pytest.mark.parametrize("size", [5, 20])
@pytest.mark.parametrize("kind", ["ratio", "difference"])
def test_coverage_of_the_effect(few_resamples, kind, size):
    """300 pairs of groups: the true effect lies in the 95 % interval in 95 % of them, give or take chance."""
    rng = np.random.default_rng(7)
    shift, true = (100.0, 1.05) if kind == "ratio" else (-2.5, 5.0)
    inside = 0
    for _ in range(300):
        a, b = rng.normal(shift, 5.0, size), rng.normal(shift + 5.0, 5.0, size)
        found = effect(a, b)
        assert found.kind == kind
        inside += found.low <= true <= found.high
    assert 0.91 <= inside / 300 <= 0.99


def test_no_effect_is_rarely_taken_for_one(few_resamples):
    rng = np.random.default_rng(8)
    told = sum(effect(rng.exponential(size=8), rng.exponential(size=8)).distinguishable for _ in range(300))
    assert told / 300 <= 0.08


# -- advice ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trials", "half_width", "target", "more"),
    [
        (10, 0.10, 0.05, 30),
        (10, 0.05, 0.05, 0),
        (10, 0.01, 0.05, 0),
        (10, 0.051, 0.05, 1),
        (3, math.nan, 0.05, 2),
        (1, math.nan, 0.05, 4),
        (7, math.nan, 0.05, 0),
    ],
)
def test_advice_on_trials(trials, half_width, target, more):
    assert more_trials(trials, half_width, target) == more


@pytest.mark.parametrize("target", [0.0, -1.0, math.nan])
def test_advice_needs_a_target(target):
    with pytest.raises(ValueError, match="must be positive"):
        more_trials(5, 0.1, target)


def test_who_follows_the_advice_gets_the_interval(few_resamples):
    """On average over 40 data sets: the interval after as many more trials has about the width that was asked for."""
    rng = np.random.default_rng(5)
    widths = []
    for _ in range(40):
        first = median_estimate(rng.normal(100, 10, 20))
        more = more_trials(20, (first.high - first.low) / 2, 2.5)
        then = median_estimate(rng.normal(100, 10, 20 + more))
        widths.append((then.high - then.low) / 2)
    assert np.mean(widths) == pytest.approx(2.5, rel=0.2)


# -- outliers and drift ------------------------------------------------------------------------------------


def test_modified_z_scores_are_deviations_in_scipy_s_normal_mad():
    values = np.array([2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3])  # Iglewicz and Hoaglin's example
    expected = (values - np.median(values)) / stats.median_abs_deviation(values, scale="normal")
    scores = modified_z_scores(values)
    assert scores == pytest.approx(expected)
    assert np.flatnonzero(np.abs(scores) > OUTLIER_SCORE).tolist() == [8, 9]


def test_one_that_differs_among_equals_is_an_outlier():
    scores = modified_z_scores([7.0] * 9 + [8.0])
    assert scores[-1] == pytest.approx(10 / math.sqrt(math.pi / 2))
    assert scores[-1] > OUTLIER_SCORE
    assert not scores[:-1].any()
    assert not modified_z_scores([3.0] * 5).any()


def test_few_good_trials_are_called_outliers():
    rng = np.random.default_rng(2)
    scores = np.concatenate([modified_z_scores(rng.normal(size=30)) for _ in range(100)])
    assert np.mean(np.abs(scores) > OUTLIER_SCORE) < 0.005


@pytest.mark.parametrize(
    ("values", "tau", "probability"),
    [
        ([1, 2, 3, 4, 5], 1.0, 2 / 120),
        ([5, 4, 3, 2, 1], -1.0, 2 / 120),
        # S = 8 - 2 = 6 of 10 pairs; 1 + 4 + 9 of 120 orders have S >= 6 (Kendall 1970, appendix table 1)
        ([1, 3, 2, 5, 4], 0.6, 2 * 14 / 120),
        ([4, 4, 4], 0.0, 1.0),
        ([4], 0.0, 1.0),
    ],
)
def test_drift_by_hand(values, tau, probability):
    assert drift(values) == pytest.approx((tau, probability))


def test_drift_is_found_and_rarely_where_there_is_none():
    rng = np.random.default_rng(4)
    still = [drift(rng.normal(size=20))[1] < DRIFT_PROBABILITY for _ in range(500)]
    moving = [drift(rng.normal(size=20) + 0.2 * np.arange(20))[1] < DRIFT_PROBABILITY for _ in range(50)]
    assert np.mean(still) <= 0.025
    assert np.mean(moving) >= 0.9
