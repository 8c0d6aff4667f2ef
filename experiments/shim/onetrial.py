# SPDX-License-Identifier: MIT
"""The rows of one trial, as the metrics are worked out from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from harness.measure.rows import MetricRows

Row = Mapping[str, Any]
Tables = Mapping[str, pd.DataFrame]


class OneTrial:
    """The rows of one trial, and where its metrics go."""

    def __init__(self, rows: MetricRows, tables: Tables, arm: str, trial: int) -> None:
        self._rows, self._key = rows, (arm, trial)
        self._tables = {
            name: table[(table["arm"] == arm) & (table["trial"] == trial)] for name, table in tables.items()
        }
        self._given: set[str] = set()

    def put(self, metric: str, value: float | None, reason: str | None = None) -> None:
        """One value; not where a part that it depends on was lost."""
        if metric not in self._given:
            self._given.add(metric)
            self._rows.put(*self._key, metric, value, reason=reason)

    def rows(self, table: str, **where: Any) -> pd.DataFrame:
        """Its rows of a table in which these columns have these values."""
        frame = self._tables[table]
        for column, value in where.items():
            frame = frame[frame[column] == value]
        return frame

    def row(self, table: str, **where: Any) -> Row | None:
        """The first of these, if there is any."""
        frame = self.rows(table, **where).head(1)
        texts = {name for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])}
        for record in frame.to_dict("records"):
            return {str(name): None if name in texts and pd.isna(value) else value for name, value in record.items()}
        return None
