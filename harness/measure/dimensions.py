# SPDX-License-Identifier: MIT
"""Dimensions as columns: what a row's arm has, so that tables can be grouped, pivoted and drawn by them.

A dimension whose values are all numbers is a column of float64, NaN where the arm has none; any other is one of text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from harness.errors import UsageError
from harness.experiment.scalar import Value, text_of
from harness.measure.declared import Column, number, string
from harness.trial.model import TrialRecord

GROUP = string("group", "the arm of experiment.yaml whose matrix the arm is of; null: it is of none")


def dimension_columns(places: Iterable[Mapping[str, Value]]) -> tuple[Column, ...]:
    """A column for each dimension of these arms, in the order in which they come."""
    seen: dict[str, list[Any]] = {}
    for place in places:
        for name, value in place.items():
            seen.setdefault(name, []).append(value)
    return tuple(
        number(name, "1", f"dimension {name} of the arm, in its own unit; NaN: it has none")
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        else string(name, f"dimension {name} of the arm; null: it has none")
        for name, values in seen.items()
    )


def group_columns(trials: Sequence[TrialRecord], but: Collection[str] = ()) -> tuple[Column, ...]:
    """GROUP and the dimensions of these trials, without those called as in `but`; none where none is of a matrix."""
    if not any(trial.group for trial in trials):
        return ()
    columns = dimension_columns(trial.dimensions for trial in trials)
    return (GROUP, *(column for column in columns if column.name not in but))


def with_dimensions(frame: pd.DataFrame, trials: Sequence[TrialRecord], but: Collection[str] = ()) -> pd.DataFrame:
    """`frame`, which has the column arm, with a column for each dimension, after its own."""
    return _with(frame, trials, [column for column in group_columns(trials, but) if column is not GROUP])


def with_groups(frame: pd.DataFrame, trials: Sequence[TrialRecord], but: Collection[str] = ()) -> pd.DataFrame:
    """The same, and GROUP before them."""
    return _with(frame, trials, group_columns(trials, but))


def _with(frame: pd.DataFrame, trials: Sequence[TrialRecord], columns: Sequence[Column]) -> pd.DataFrame:
    places: dict[str, dict[str, Any]] = {trial.arm: {**trial.dimensions, GROUP.name: trial.group} for trial in trials}
    more = {}
    for column in columns:
        values = [places.get(arm, {}).get(column.name) for arm in frame["arm"]]
        if column.type == "string":
            texts = [value if value is None else text_of(value) for value in values]
            more[column.name] = pd.Series(texts, dtype="object", index=frame.index)
        else:
            more[column.name] = pd.Series(values, dtype="float64", index=frame.index)
    return frame.assign(**more)


def places(trials: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """By arm of a matrix its row of the table `trials`: its dimensions as text or float64, and its GROUP."""
    if GROUP.name not in trials:
        return {}
    rows = trials[trials[GROUP.name].notna()].drop_duplicates("arm")
    return {str(row["arm"]): {str(name): value for name, value in row.items()} for row in rows.to_dict("records")}


def matches_texts(wanted: Mapping[str, Value | Sequence[Value]], place: Mapping[str, Any]) -> bool:
    """`harness.experiment.matrix.matches` with one of `places`, whose values are as columns have them."""
    for name, value in wanted.items():
        allowed: list[Any] = [*value] if isinstance(value, list | tuple) else [value]
        here = place[name]
        if not any(text_of(one) == here if isinstance(here, str) else one == here for one in allowed):
            return False
    return True


def dimensions_of(metrics: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Names of the dimensions that a table of metrics has columns of: what is beyond its own `columns`."""
    return [str(name) for name in metrics.columns if name not in columns]


def pivot(metrics: pd.DataFrame, metric: str, rows: str, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Medians over trials of a metric: a row for each value of the dimension `rows`, a column for those of `columns`.

    `metrics` are a set's, with a column for each dimension. An arm that has not all of these takes no part. For a hook
    `summary`. UsageError when arms differ in another dimension: choose rows first.
    """
    own = metrics[metrics["metric"] == metric].dropna(subset=[rows, *columns])
    if (own.groupby([rows, *columns])["arm"].nunique() > 1).any():
        raise UsageError(f"{metric}: arms differ in more than {', '.join([rows, *columns])}")
    medians = own.groupby([*columns, rows])["value"].median()
    table = medians.unstack(list(columns)) if columns else medians.rename(metric).to_frame()
    keys: list[Any] = list(table.columns)
    names = [key if isinstance(key, tuple) else (key,) for key in keys]
    table.columns = pd.Index([" ".join(_word(part) for part in key) for key in names])
    return table.reset_index()


def _word(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
