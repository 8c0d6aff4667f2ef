# SPDX-License-Identifier: MIT
"""Statistics of trials. The unit of analysis is the trial (a boot, or a restore with a new seed).

docs/statistics.md tells the choices; here are the formulas and where they come from.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from harness.experiment.expect import MIN_TRIALS

CONFIDENCE = 0.95
RESAMPLES = 9999
#: Two groups of equal values each are told apart from this many on: had the values only two levels, groups of n
#: would come out equal in themselves and unlike each other with probability 2 (1/2)^2n at most, 3 % at n = 3.
MIN_EQUAL = 3
#: A modified z-score beyond this is an outlier (Iglewicz and Hoaglin 1993, "How to Detect and Handle Outliers").
OUTLIER_SCORE = 3.5
#: Drift is told of below this probability: with dozens of metrics, 5 % would cry wolf in every run.
DRIFT_PROBABILITY = 0.01


def ratio(part: float, whole: float) -> float:
    """`part` / `whole`; NaN, so absent, of nothing."""
    return part / whole if whole else math.nan


@dataclass(frozen=True)
class Estimate:
    """A median over trials with its bootstrap interval; `low` = `high` = NaN with fewer than MIN_TRIALS that differ."""

    value: float
    low: float
    high: float
    trials: int

    @property
    def interval_known(self) -> bool:
        return bool(np.isfinite(self.low) and np.isfinite(self.high))


def median_estimate(values: ArrayLike, seed: int = 1, comparisons: int = 1) -> Estimate:
    """Median of one value per trial, with the 95 % BCa bootstrap interval (Efron 1987; scipy.stats.bootstrap).

    Of several `comparisons` that are judged together, all intervals hold at once with 95 % (Bonferroni); for that it
    takes more trials: each doubling of the comparisons one more, as the range of n trials leaves out their median with
    probability 2 (1/2)^n.

    `values`: shape (n,), float, n >= 1, NaN not allowed (ValueError). Values that are all equal have the
    degenerate interval [v, v]; BCa is undefined on medians with heavy ties, the percentile interval is used then.
    """
    from scipy import stats

    data = _sample(values)
    middle = float(np.median(data))
    if data.size > 1 and np.all(data == data[0]):
        return Estimate(middle, middle, middle, data.size)
    if data.size < least_trials(comparisons):
        return Estimate(middle, float("nan"), float("nan"), data.size)
    for method in ("BCa", "percentile"):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scipy on ties: the fallback is ours
            result = stats.bootstrap(
                (data,),
                np.median,
                confidence_level=1 - (1 - CONFIDENCE) / comparisons,
                n_resamples=RESAMPLES,
                method=method,
                rng=np.random.default_rng(seed),
            )
        low, high = float(result.confidence_interval.low), float(result.confidence_interval.high)
        if np.isfinite(low) and np.isfinite(high):
            break
    return Estimate(middle, low, high, data.size)


def least_trials(comparisons: int = 1) -> int:
    """How many trials that differ it takes for an interval of each of so many comparisons."""
    return MIN_TRIALS + math.ceil(math.log2(comparisons))


@dataclass(frozen=True)
class Effect:
    """How group B differs from group A: the ratio of medians B/A, or their difference B - A, in the metric's unit.

    `low` and `high` bound the 95 % interval, NaN when it is not known. `scale` is what 1 means in relative terms: 1
    for a ratio, the larger of the two medians' magnitudes for a difference. `trials` is that of the smaller group.
    """

    kind: Literal["ratio", "difference"]
    value: float
    low: float
    high: float
    scale: float
    trials: int

    @property
    def interval_known(self) -> bool:
        return bool(np.isfinite(self.low) and np.isfinite(self.high))

    @property
    def none(self) -> float:
        """The value of no effect."""
        return 1.0 if self.kind == "ratio" else 0.0

    @property
    def distinguishable(self) -> bool:
        """Whether the interval is known and leaves out that there is no effect."""
        return self.interval_known and not self.low <= self.none <= self.high

    @property
    def half_width(self) -> float:
        """Half of the interval's width, relative; NaN when it is not known."""
        return (self.high - self.low) / 2 / self.scale if self.scale else math.nan

    @property
    def largest(self) -> float:
        """The largest relative effect that the interval allows, either way; NaN when it is not known."""
        return max(abs(self.low - self.none), abs(self.high - self.none)) / self.scale if self.scale else math.nan


def effect(a: ArrayLike, b: ArrayLike, seed: int = 1) -> Effect:
    """Effect of B against A with the 95 % percentile bootstrap interval, groups resampled apart.

    Efron and Tibshirani 1993, "An Introduction to the Bootstrap", section 13.3 (percentile intervals) and chapter 8
    (two samples). `a`, `b`: shapes (n,) and (m,), one finite value per trial, else ValueError. A ratio where all
    values are positive, otherwise a difference. No interval with fewer than MIN_TRIALS in a group, but where the
    values of each group are all equal MIN_EQUAL do.
    """
    from scipy import stats

    left, right = _sample(a), _sample(b)
    before, after = float(np.median(left)), float(np.median(right))
    kind: Literal["ratio", "difference"] = "ratio" if min(left.min(), right.min()) > 0 else "difference"
    value = after / before if kind == "ratio" else after - before
    scale = 1.0 if kind == "ratio" else max(abs(before), abs(after))
    trials = min(left.size, right.size)
    low = high = math.nan
    if np.all(left == left[0]) and np.all(right == right[0]):
        if trials >= MIN_EQUAL:
            low = high = value
    elif trials >= MIN_TRIALS:
        result = stats.bootstrap(
            (left, right),
            _ratio_of_medians if kind == "ratio" else _difference_of_medians,
            vectorized=True,
            confidence_level=CONFIDENCE,
            n_resamples=RESAMPLES,
            method="percentile",
            rng=np.random.default_rng(seed),
        )
        low, high = float(result.confidence_interval.low), float(result.confidence_interval.high)
    return Effect(kind, value, low, high, scale, trials)


def more_trials(trials: int, half_width: float, target: float) -> int:
    """How many more trials make the half-width of an interval `target`, when `trials` of them gave `half_width`.

    The width of an interval of a median falls as 1/sqrt(n) (Serfling 1980, "Approximation Theorems of Mathematical
    Statistics", section 2.3.3), so n (half_width / target)^2 are needed. Without an interval (NaN): as many as are
    missing to MIN_TRIALS. An estimate: the half-width of few trials is itself uncertain. ValueError when `target`
    is not positive.
    """
    if not target > 0:
        raise ValueError("target must be positive")
    if not math.isfinite(half_width):
        return max(MIN_TRIALS - trials, 0)
    return max(math.ceil(trials * (half_width / target) ** 2 - 1e-9) - trials, 0)


def modified_z_scores(values: ArrayLike) -> npt.NDArray[np.float64]:
    """0.6745 (x - median) / MAD of each value, shape (n,): Iglewicz and Hoaglin 1993; an outlier is beyond 3.5.

    MAD is the median of |x - median|. Where it is 0 (more than half of the values are equal) the mean of
    |x - median| times sqrt(pi/2) takes the place of MAD / 0.6745; both estimate a normal's standard deviation.
    All 0 when all values are equal.
    """
    from scipy import stats

    data = _sample(values)
    away = data - np.median(data)
    scale = float(np.median(np.abs(away))) / float(stats.norm.ppf(0.75))
    if scale == 0:
        scale = float(np.mean(np.abs(away))) * math.sqrt(math.pi / 2)
    return away / scale if scale else np.zeros_like(data)


def drift(values: ArrayLike) -> tuple[float, float]:
    """Kendall's tau between values and their order, and its two-sided probability without a trend (Mann 1945).

    `values`: shape (n,), n >= 2, finite, in the order in which they were measured. With equal values throughout
    there is no trend: (0, 1).
    """
    from scipy import stats

    data = _sample(values)
    if data.size < 2 or np.all(data == data[0]):
        return 0.0, 1.0
    found = stats.kendalltau(np.arange(data.size), data)
    return float(found.statistic), float(found.pvalue)


def _sample(values: ArrayLike) -> npt.NDArray[np.float64]:
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or data.size == 0 or not np.all(np.isfinite(data)):
        raise ValueError("values must be a non-empty 1-d array of finite numbers")
    return data


def _ratio_of_medians(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64], axis: int = -1) -> Any:
    return np.median(b, axis=axis) / np.median(a, axis=axis)


def _difference_of_medians(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64], axis: int = -1) -> Any:
    return np.median(b, axis=axis) - np.median(a, axis=axis)
