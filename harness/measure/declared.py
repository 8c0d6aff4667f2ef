# SPDX-License-Identifier: MIT
"""What an experiment declares of its data: tables by their columns, and families of metrics.

Declarations are checked when an experiment is loaded, and again against every table and metric that is written. They
are stored with the data, so that a reader of a set needs nothing else to know what a number is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd
from pydantic import BaseModel

from harness.errors import UsageError
from harness.measure.units import UNITS, Unit

ColumnType = Literal["string", "int64", "uint64", "float64", "bool"]
Direction = Literal["higher", "lower", "neither"]
#: Of a family: one, or those that its rows may have.
Units = Unit | tuple[Unit, ...]
#: The pandas types of columns.
_DTYPES: dict[str, Any] = {
    "string": "object",
    "int64": "int64",
    "uint64": "uint64",
    "float64": "float64",
    "bool": "bool",
}
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
METRIC_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Undeclared(UsageError):
    """A table or a column that no declaration has: a mistake of the analysis, whatever the raw files hold."""


@dataclass(frozen=True)
class Column:
    """One column of a table. A string has no unit, and may be null where the meaning says when; a number may be NaN
    only as a float64.
    """

    name: str
    type: ColumnType
    unit: Unit | None
    meaning: str


@dataclass(frozen=True)
class Table:
    """A table: `meaning` says what one row is. Columns are stored in this order."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def typed(self, rows: pd.DataFrame) -> pd.DataFrame:
        """`rows` with exactly the declared columns and types; a column that is not there is absent in every row.

        UsageError naming the column that is not declared, or whose values do not fit its type.
        """
        for name in rows.columns:
            if name not in self.names:
                known = ", ".join(self.names)
                raise Undeclared(f"table {self.name}: column {name} is not declared (known: {known})")
        columns = {column.name: self._column(column, rows) for column in self.columns}
        return pd.DataFrame(columns, index=pd.RangeIndex(len(rows)))

    def empty(self) -> pd.DataFrame:
        """No rows."""
        return self.typed(pd.DataFrame())

    def _column(self, column: Column, rows: pd.DataFrame) -> pd.Series[Any]:
        what = f"table {self.name}: column {column.name}"
        if column.name not in rows:
            if len(rows) and column.type not in ("string", "float64"):
                raise UsageError(f"{what} is missing, and a {column.type} cannot be absent")
            filler = None if column.type == "string" else np.nan
            values = pd.Series([filler] * len(rows), dtype=_DTYPES[column.type] if not len(rows) else "object")
        else:
            values = rows[column.name].reset_index(drop=True)
        if column.type == "string":
            strings = pd.Series([None if pd.isna(value) else value for value in values], dtype="object")
            wrong = next((value for value in strings if value is not None and not isinstance(value, str)), None)
            if wrong is not None:
                raise UsageError(f"{what} holds {wrong!r}, which is no string")
            return strings
        if values.dtype == _DTYPES[column.type]:
            return values
        try:
            if column.type in ("int64", "uint64", "bool") and values.isna().any():
                raise ValueError(f"a {column.type} cannot be absent")
            if column.type == "bool" and not values.isin([True, False]).all():
                raise ValueError("neither true nor false")
            typed = values.astype(_DTYPES[column.type])
            if column.type in ("int64", "uint64") and not (typed.astype("float64") == values.astype("float64")).all():
                raise ValueError("a value is no whole number that fits")
        except (TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"{what} is no {column.type}: {error}") from error
        return typed


@dataclass(frozen=True)
class Metric:
    """A family of metrics: NAME, or NAME.PART where `of` says what the parts are (`handler`, `workload`).

    direction  whether a higher or a lower value is better, or neither
    timing     whether the value depends on how the host ran the guest's CPUs: then a trial on the wall clock whose CPUs
               the host kept waiting gives none. So does a value of which nothing is said (None): nobody can tell
    A family whose unit depends on the arm (instructions under the virtual clock, else cycles) has several units, and
    every row says its own.
    """

    name: str
    unit: Units
    direction: Direction
    meaning: str
    of: str | None = None
    timing: bool | None = None

    @property
    def spoilt_by_waiting(self) -> bool:
        """Whether a trial that the host kept waiting gives no value."""
        return self.timing is not False

    @property
    def units(self) -> tuple[Unit, ...]:
        return self.unit if isinstance(self.unit, tuple) else (self.unit,)


#: Columns that nearly every table begins with.
ARM = Column("arm", "string", None, "the arm")
TRIAL = Column("trial", "int64", "1", "the repetition, from 0")
WORKLOAD = Column("workload", "string", None, "the workload")
KEY = (ARM, TRIAL, WORKLOAD)


def string(name: str, meaning: str) -> Column:
    """A column of text."""
    return Column(name, "string", None, meaning)


def number(name: str, unit: Unit, meaning: str) -> Column:
    """A column of float64, NaN where there is no value."""
    return Column(name, "float64", unit, meaning)


def count(name: str, meaning: str) -> Column:
    """A column of whole numbers of something, never absent."""
    return Column(name, "int64", "count", meaning)


def flag(name: str, meaning: str) -> Column:
    """A column of yes and no, never absent."""
    return Column(name, "bool", "1", meaning)


def columns_of(answer: type[BaseModel]) -> tuple[Column, ...]:
    """A column for each field of a program's answer that says what it means (`harness.yamlfile.about`), in their order.

    So a field is declared once, where it is read; `Answer.as_columns` gives its values. Whole numbers without a unit
    are counts; a number that may be absent is a float64.
    """
    columns = []
    for name, field in answer.model_fields.items():
        if field.description is None:
            continue
        kinds = set(get_args(field.annotation)) or {field.annotation}
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        if str in kinds:
            columns.append(string(name, field.description))
        elif kinds == {bool}:
            columns.append(flag(name, field.description))
        else:
            unit = cast("Unit", extra.get("unit", "count"))
            columns.append(Column(name, "int64" if kinds == {int} else "float64", unit, field.description))
    return tuple(columns)


def fact(name: str, unit: Units, direction: Direction, meaning: str, of: str | None = None) -> Metric:
    """A family of metrics that are the same however the host runs the guest's CPUs: counts, checks, sizes."""
    return Metric(name, unit, direction, meaning, of, timing=False)


def timed(name: str, unit: Units, direction: Direction, meaning: str, of: str | None = None) -> Metric:
    """A family of metrics that differ when the host keeps a guest's CPU waiting."""
    return Metric(name, unit, direction, meaning, of, timing=True)


def as_stored(metrics: Sequence[Metric], stored: Sequence[Metric]) -> tuple[Metric, ...]:
    """Declarations that say nothing of timing, with what was stored for them: it once meant that they are facts."""
    timing = {metric.name: metric.timing for metric in stored}
    return tuple(
        replace(metric, timing=timing.get(metric.name)) if metric.timing is None else metric for metric in metrics
    )


def family(metric: str) -> str:
    """The family of a metric's name: what stands before its first dot."""
    return metric.partition(".")[0]


def check_tables(tables: Sequence[Table]) -> None:
    """UsageError naming the first thing that is wrong in these declarations."""
    _unique("table", [table.name for table in tables])
    for table in tables:
        what = f"table {table.name}"
        _known(f"{what}: name", METRIC_NAME.fullmatch(table.name) is not None, "lower-case letters, digits and _")
        _known(f"{what}: meaning", bool(table.meaning.strip()), "what one row is")
        _unique(f"{what}: column", table.names)
        for column in table.columns:
            here = f"{what}: column {column.name}"
            _known(f"{here}: name", NAME.fullmatch(column.name) is not None, "letters, digits and _")
            _known(f"{here}: type {column.type}", column.type in get_args(ColumnType), ", ".join(get_args(ColumnType)))
            numeric = column.type != "string"
            _known(
                f"{here}: unit {column.unit}", (column.unit in UNITS) == numeric, ", ".join(UNITS) + "; of text none"
            )
            _known(f"{here}: meaning", bool(column.meaning.strip()), "what it means")


def check_metrics(metrics: Sequence[Metric]) -> None:
    """UsageError naming the first thing that is wrong in these declarations."""
    _unique("metric", [metric.name for metric in metrics])
    for metric in metrics:
        what = f"metric {metric.name}"
        _known(f"{what}: name", METRIC_NAME.fullmatch(metric.name) is not None, "lower-case letters, digits and _")
        _known(f"{what}: unit {metric.unit}", all(unit in UNITS for unit in metric.units), ", ".join(UNITS))
        allowed = get_args(Direction)
        _known(f"{what}: direction {metric.direction}", metric.direction in allowed, ", ".join(allowed))
        _known(f"{what}: meaning", bool(metric.meaning.strip()), "what it means")


def dictionary(declared: Table | Metric) -> dict[str, Any]:
    """A declaration as it is stored with the data."""
    return asdict(declared)


def table_of(stored: Mapping[str, Any]) -> Table:
    """A stored declaration again."""
    columns = tuple(Column(**column) for column in stored["columns"])
    return Table(stored["name"], stored["meaning"], columns)


def metric_of(stored: Mapping[str, Any]) -> Metric:
    """A stored declaration again."""
    unit = stored["unit"]
    return Metric(**{**stored, "unit": tuple(unit) if isinstance(unit, list) else unit})


def _known(what: str, fits: bool, allowed: str) -> None:
    if not fits:
        raise UsageError(f"{what}: must be {allowed}")


def _unique(what: str, names: Sequence[str]) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise UsageError(f"{what} {name} is declared twice")
