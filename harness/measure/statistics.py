"""Statistics of trials. The unit of analysis is the trial (a boot, or a restore with a new seed)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 9999
#: With fewer, the bootstrap of a median is no 95 % interval: it covers 52 % at 2 trials, 74 % at 3, 94 % at 5.
MIN_TRIALS = 5


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


def median_estimate(values: ArrayLike, seed: int = 1) -> Estimate:
    """Median of one value per trial, with the 95 % BCa bootstrap interval (Efron 1987; scipy.stats.bootstrap).

    `values`: shape (n,), float, n >= 1, NaN not allowed (ValueError). Values that are all equal have the
    degenerate interval [v, v]; BCa is undefined on medians with heavy ties, the percentile interval is used then.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or data.size == 0 or not np.all(np.isfinite(data)):
        raise ValueError("values must be a non-empty 1-d array of finite numbers")
    middle = float(np.median(data))
    if data.size > 1 and np.all(data == data[0]):
        return Estimate(middle, middle, middle, data.size)
    if data.size < MIN_TRIALS:
        return Estimate(middle, float("nan"), float("nan"), data.size)
    for method in ("BCa", "percentile"):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scipy on ties: the fallback is ours
            result = stats.bootstrap(
                (data,),
                np.median,
                confidence_level=CONFIDENCE,
                n_resamples=RESAMPLES,
                method=method,
                rng=np.random.default_rng(seed),
            )
        low, high = float(result.confidence_interval.low), float(result.confidence_interval.high)
        if np.isfinite(low) and np.isfinite(high):
            break
    return Estimate(middle, low, high, data.size)
