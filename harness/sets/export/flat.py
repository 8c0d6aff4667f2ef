# SPDX-License-Identifier: MIT
"""Tables, metrics and claims as plain files: CSV for anything, Parquet for what keeps types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from harness.measure.claims import ClaimResult
from harness.sets.resultset import ResultSet


def write_csv(result: ResultSet, folder: Path) -> None:
    """A folder of NAME.csv for each table, metrics.csv and claims.csv: RFC 4180, UTF-8, an absent value is empty.

    Numbers have as many digits as it takes to read the same value back.
    """
    _write_all(result, folder, "csv", lambda frame, path: frame.to_csv(path, index=False, lineterminator="\r\n"))


def write_parquet(result: ResultSet, folder: Path) -> None:
    """The same as NAME.parquet."""
    _write_all(result, folder, "parquet", lambda frame, path: frame.to_parquet(path, index=False))


def _write_all(result: ResultSet, folder: Path, ending: str, write: Callable[[pd.DataFrame, Path], None]) -> None:
    tables = folder / "tables"
    tables.mkdir(parents=True)
    for name, frame in result.tables.items():
        write(frame, tables / f"{name}.{ending}")
    metrics = result.metrics
    if not metrics.empty:
        write(metrics, folder / f"metrics.{ending}")
    write(_claims(result), folder / f"claims.{ending}")


def _claims(result: ResultSet) -> pd.DataFrame:
    """The claims as rows; the interval as two columns."""
    columns = [*ClaimResult.model_fields]
    place = columns.index("interval")
    columns[place : place + 1] = ["interval_low", "interval_high"]
    rows = []
    for claim in result.claims:
        low, high = claim.interval or (None, None)
        rows.append(claim.model_dump() | {"interval_low": low, "interval_high": high})
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype(dict.fromkeys(("measured", "interval_low", "interval_high"), "float64"))
