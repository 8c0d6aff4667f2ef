# SPDX-License-Identifier: MIT
"""A profiler's estimate beside the truth: shares of kernel time per function, errors, agreement.

Truth is the share of the kernel's executed instructions; an estimate is anything that counts per function.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from harness.measure.symbols import SymbolMap
from harness.oracle.reader import WINDOW, WORKLOAD, Oracle

#: Chi-square needs this many expected in most cells; smaller ones are pooled, and the pool may have fewer
#: (Cochran 1954: some cells as few as 1).
LEAST_EXPECTED = 5.0
LEAST_POOLED = 1.0


def kernel_truth(oracle: Oracle, symbols: SymbolMap, region: int, *, kind: int = WORKLOAD) -> pd.DataFrame:
    """Per kernel function of one region, a workload or the WINDOW of a collector: instructions, entries, interrupt
    (instructions in hard interrupts), and samples (of the ideal profiler, idle ones left out; NaN when it did not run).
    Index: function.

    What runs in NMIs is left out: it is a profiler's own work, which NMIs cannot see.
    """
    counts = oracle.functions(symbols, kind=kind)
    counts = counts[(counts["region"] == region) & ~counts["context"].isin(["user", "nmi"])]
    table = counts.groupby("function")[["instructions", "entries"]].sum()
    hard = counts[counts["context"] == "interrupt"].groupby("function")["instructions"].sum()
    table["interrupt"] = hard.reindex(table.index).fillna(0).astype(np.int64)
    table["samples"] = np.nan
    if oracle.report.absent("sampler") is None:
        samples = oracle.samples(symbols)
        left_out = samples["user"] | samples["nmi"] | samples["idle"]
        inside = samples["window" if kind == WINDOW else "region"] == region
        measured = samples[inside & ~left_out]
        table["samples"] = measured["function"].value_counts().reindex(table.index).fillna(0.0)
    return table


def nmi_cost(oracle: Oracle, symbols: SymbolMap, region: int, *, kind: int = WORKLOAD) -> float:
    """Instructions executed in NMIs, as a part of all that the kernel executed in the region; NaN without any."""
    counts = oracle.functions(symbols, kind=kind)
    counts = counts[(counts["region"] == region) & (counts["context"] != "user")]
    whole = float(counts["instructions"].sum())
    return float(counts.loc[counts["context"] == "nmi", "instructions"].sum()) / whole if whole else float("nan")


def shares(counts: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Counts as parts of their sum; NaN when there are none."""
    values = np.asarray(counts, dtype=np.float64)
    whole = values.sum()
    return values / whole if whole else np.full(values.shape, np.nan)


def distance(truth: npt.ArrayLike, estimate: npt.ArrayLike) -> float:
    """Half the sum of absolute differences of shares: the part of the time that is in the wrong function, 0..1."""
    return float(np.abs(shares(truth) - shares(estimate)).sum() / 2)


def agreement(truth: npt.ArrayLike, estimate: npt.ArrayLike) -> float:
    """p of Pearson's chi-square that `estimate` (counts of independent samples) comes from the shares of `truth`.

    Samples of which each part of the time has its share are nearer to the truth than independent ones: their p is too
    large, so that a small one still says that they are biased, and a large one says nothing.

    NaN when there are fewer than two cells with LEAST_EXPECTED. A sample where the truth is 0 gives 0.
    """
    true, seen = np.asarray(truth, dtype=np.float64), np.asarray(estimate, dtype=np.float64)
    if seen[true == 0].sum() > 0:
        return 0.0
    expected = shares(true) * seen.sum()
    order = np.argsort(-expected, kind="stable")
    expected, seen = expected[order], seen[order]
    large = int((expected >= LEAST_EXPECTED).sum())
    if large and expected[large:].sum() < LEAST_POOLED:
        large -= 1  # the pool takes the smallest large cell
    if large < 1:
        return float("nan")
    expected = np.append(expected[:large], expected[large:].sum())
    seen = np.append(seen[:large], seen[large:].sum())
    return float(stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), large))


def against_independent(truth: npt.ArrayLike, estimate: npt.ArrayLike) -> float:
    """Error of an estimate, root of the summed squares of the differences of shares, over that (root of its mean
    square) of as many independent unbiased samples; NaN without samples, or where all of the truth is one cell.
    """
    exact, seen = shares(truth), np.asarray(estimate, dtype=np.float64)
    expected = 1 - float((exact**2).sum())
    if not seen.sum() or not expected > 0:
        return float("nan")
    return float(np.linalg.norm(shares(seen) - exact) / (expected / seen.sum()) ** 0.5)


def convergence(truth: npt.ArrayLike, estimate: npt.ArrayLike, sizes: npt.ArrayLike, seed: int) -> pd.DataFrame:
    """Error of the first n of an estimate's samples, in random order; columns n, error, expected.

    `error` is the root of the summed squares of the differences of shares; `expected` the same, root of its mean
    square, for n independent unbiased samples: sqrt((1 - sum of squared shares) / n).
    """
    exact = shares(truth)
    spread = 1 - float((exact**2).sum())
    counts = np.round(np.asarray(estimate, dtype=np.float64)).astype(np.int64)
    drawn = np.repeat(np.arange(counts.size), counts)
    np.random.default_rng(seed).shuffle(drawn)
    rows = [
        (n, float(np.linalg.norm(np.bincount(drawn[:n], minlength=counts.size) / n - exact)), (spread / n) ** 0.5)
        for n in np.asarray(sizes, dtype=np.int64).tolist()
        if 0 < n <= drawn.size
    ]
    return pd.DataFrame(rows, columns=["n", "error", "expected"])
