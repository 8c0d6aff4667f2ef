"""The bootstrap interval: exact where it can be, inside the data, and right about as often as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.measure import statistics
from harness.measure.statistics import MIN_TRIALS, median_estimate


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


def test_equal_values_have_a_point():
    estimate = median_estimate([0.1] * 5)
    assert (estimate.value, estimate.low, estimate.high, estimate.interval_known) == (0.1, 0.1, 0.1, True)


def test_the_same_values_give_the_same_interval():
    assert median_estimate([1, 2, 4, 8, 16]) == median_estimate([1, 2, 4, 8, 16])


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
