"""Reading what a set stores for people and tools: tables, metrics and claims."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from harness.errors import RunError
from harness.measure.claims import ClaimResult
from harness.store.resultset import ResultSet


def read_tables(result: ResultSet) -> dict[str, pd.DataFrame]:
    """The stored tables by name; RunError naming one that cannot be read."""
    return {path.stem: _frame(path) for path in sorted((result.path / "tables").glob("*.parquet"))}


def read_metrics(result: ResultSet) -> pd.DataFrame | None:
    """The metrics; None in a set without a good trial, RunError when they cannot be read."""
    path = result.path / "metrics.parquet"
    return _frame(path) if path.exists() else None


def read_claims(result: ResultSet) -> list[ClaimResult]:
    """The claims; RunError when they cannot be read."""
    try:
        return result.claims
    except (OSError, ValueError) as error:  # pydantic's own errors are ValueErrors
        raise RunError(f"cannot be read: {error}", where=str(result.path / "claims.json")) from error


def _frame(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:  # as pyarrow's are
        raise RunError(f"cannot be read: {error}", where=str(path)) from error
