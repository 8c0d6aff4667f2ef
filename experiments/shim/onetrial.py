# SPDX-License-Identifier: MIT
"""The rows of one trial, as the metrics are worked out from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from harness.measure.rows import Cut, MetricRows

Row = Mapping[str, Any]
Tables = Mapping[str, pd.DataFrame]


class OneTrial:
    """The rows of one trial, and where its metrics go."""

    def __init__(self, rows: MetricRows, by_trial: Cut, arm: str, trial: int) -> None:
        self._rows, self._by_trial, self._key = rows, by_trial, (arm, trial)
        self._given: set[str] = set()

    def put(self, metric: str, value: float | None, reason: str | None = None) -> None:
        """One value; not where a part that it depends on was lost."""
        if metric not in self._given:
            self._given.add(metric)
            self._rows.put(*self._key, metric, value, reason=reason)

    def rows(self, table: str, **where: Any) -> pd.DataFrame:
        """Its rows of a table in which these columns have these values."""
        frame = self._by_trial.of(table, *self._key)
        for column, value in where.items():
            frame = frame[frame[column] == value]
        return frame

    def row(self, table: str, **where: Any) -> Row | None:
        """The first of these, if there is any."""
        frame = self.rows(table, **where)
        for record in frame.iloc[:1].to_dict("records"):
            return {str(name): None if _no_text(value, frame[name]) else value for name, value in record.items()}
        return None


def _no_text(value: object, column: pd.Series[Any]) -> bool:
    """Whether a cell is the null of a column of texts; that of numbers is NaN, and stays so."""
    return bool(pd.isna(value)) and not pd.api.types.is_numeric_dtype(column)  # type: ignore[call-overload]
