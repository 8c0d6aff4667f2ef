# SPDX-License-Identifier: MIT
"""Histograms of the observer's period: buckets [low, high) of begin-to-begin intervals in cycles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from numpy.typing import ArrayLike

from harness.errors import RunError
from harness.measure.raw import read_csv

COLUMNS = ("low", "high", "windows", "trusted")
MOST = 2.0**62


def read_periods(path: Path) -> pd.DataFrame:
    """periods.csv: low, high (cycles), windows, trusted. RunError where buckets overlap or more are trusted than are
    there.
    """
    table = read_csv(path, COLUMNS)
    if (table[list(COLUMNS)].astype("float64").abs() > MOST).any(axis=None):
        raise RunError("has a number that is no count of cycles or windows", where=str(path))
    table = table.astype(dict.fromkeys(COLUMNS, "int64"))
    low, high = table["low"].to_numpy(), table["high"].to_numpy()
    wrong = (high <= low) | (table["trusted"] > table["windows"]).to_numpy() | (table["trusted"] < 0).to_numpy()
    wrong[1:] |= low[1:] < high[:-1]
    if wrong.any():
        line = int(np.flatnonzero(wrong)[0]) + 2
        raise RunError("is no bucket after the one before", where=f"{path}, line {line}")
    return table[list(COLUMNS)]


def quantile(table: pd.DataFrame, share: float) -> float:
    """The period below which this share of windows lies, in cycles; NaN without windows.

    Within a bucket windows are taken as spread evenly; a bucket of one value is that value.
    """
    count = table["windows"].to_numpy(dtype=np.float64)
    if count.sum() == 0:
        return float("nan")
    below = np.cumsum(count)
    wanted = share * below[-1]
    at = min(int(np.searchsorted(below, wanted)), len(table) - 1)
    low, high = int(table["low"].iloc[at]), int(table["high"].iloc[at])
    if high - low == 1:
        return float(low)
    inside = (wanted - (below[at] - count[at])) / count[at] if count[at] else 0.0
    return float(low + inside * (high - low))


def coarser(table: pd.DataFrame, per_octave: int = 2) -> pd.DataFrame:
    """The same with wider buckets, for a figure: `per_octave` for each doubling. Empty ones are left out."""
    edge = np.floor(np.log2(np.maximum(table["low"].to_numpy(dtype=np.float64), 1.0)) * per_octave + 1e-9)
    grouped = table.assign(edge=edge).groupby("edge", sort=True)
    wide = grouped.agg(low=("low", "min"), high=("high", "max"), windows=("windows", "sum"), trusted=("trusted", "sum"))
    return wide[wide["windows"] > 0].reset_index(drop=True)


def histogram(values: ArrayLike, per_octave: int = 4) -> pd.DataFrame:
    """Counts of positive values in buckets of equal ratio: low, high, count; empty ones are left out."""
    data = np.asarray(values, dtype=np.float64)
    data = data[data > 0]
    place = np.floor(np.log2(data) * per_octave).astype(np.int64)
    number, count = np.unique(place, return_counts=True)
    edges: npt.NDArray[np.float64] = number / per_octave
    return pd.DataFrame({"low": 2.0**edges, "high": 2.0 ** (edges + 1 / per_octave), "count": count})
