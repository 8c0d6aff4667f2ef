# SPDX-License-Identifier: MIT
"""Where decoders put rows and metrics, and the one policy for what is missing or damaged.

A part of a trial that cannot be decoded costs that part only: its rows are absent, the table `problems` says why, and
the metrics that would follow are absent with that reason. Other parts and other trials stand.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd

from harness.errors import HOSTS_ERRORS, KreproError, UsageError
from harness.experiment.scalar import Value, text_of
from harness.measure.declared import ARM, TRIAL, Metric, Table, Undeclared, family, string
from harness.measure.raw import Trial

METRIC_COLUMNS = ("arm", "trial", "metric", "value", "unit", "reason")
#: Why a claim's metric is absent where nothing is known to be wrong: an event did not come, or a part is misspelt.
NO_VALUE = "the analysis gives no value for this trial"
#: Of a table, parts that are kept one by one: a frame takes several KiB, however few rows it has.
MOST_PARTS = 64
PROBLEMS = Table(
    "problems",
    "one part of a trial that could not be decoded",
    (
        ARM,
        TRIAL,
        string("workload", "the workload whose part it is; null: of the whole trial"),
        string("part", "what was to be decoded"),
        string("reason", "why it could not: the file, and what is wrong with it"),
    ),
)


class TableRows:
    """The rows of an experiment's tables, as its decoders find them."""

    def __init__(self, declared: Sequence[Table]) -> None:
        self._declared = {table.name: table for table in (*declared, PROBLEMS)}
        self._parts: dict[str, list[pd.DataFrame]] = {name: [] for name in self._declared}
        self._joined: dict[str, list[pd.DataFrame]] = {name: [] for name in self._declared}
        self._open = 0

    def put(
        self,
        table: str,
        rows: pd.DataFrame | Sequence[Mapping[str, Any]] | Mapping[str, Any],
        trial: Trial,
        workload: str | None = None,
    ) -> None:
        """Rows of a trial; the columns arm, trial and, when one is given, workload are filled in.

        So are declared columns with the name of a dimension of its arm that the rows have not.

        Undeclared for a table or a column that is not declared.
        """
        declared = self._declared.get(table)
        if declared is None:
            raise Undeclared(f"table {table} is not declared (known: {', '.join(self._declared)})")
        frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame([rows] if isinstance(rows, Mapping) else rows)
        key: dict[str, Any] = {"arm": trial.arm, "trial": trial.repetition}
        if workload is not None:
            key["workload"] = workload
        places = {name: value for name, value in trial.dimensions.items() if name in declared.names}
        key |= {name: _cell(declared, name, value) for name, value in places.items() if name not in frame}
        self._parts[table].append(declared.typed(frame.assign(**key)))
        self._join()

    @contextmanager
    def part(self, trial: Trial, name: str, workload: str | None = None) -> Iterator[None]:
        """A part of a trial: rows that are put inside are kept if all of it succeeds, else `problems` says why not.

        A raw file may hold anything, so a decoder may fail in any way. What is no expected error is told with its place
        in the decoder, for it may as well be a mistake there. What is surely none of the trial passes: an error of the
        host, and what is not declared.
        """
        kept = {table: len(parts) for table, parts in self._parts.items()}
        self._open += 1
        try:
            yield
        except Exception as error:
            if (other := _not_the_trials(error)) is not None:
                raise other from None
            for table, parts in self._parts.items():
                del parts[kept[table] :]
            self.put("problems", {"workload": workload, "part": name, "reason": reason_of(error, trial)}, trial)
        finally:
            self._open -= 1
        self._join()

    def _join(self) -> None:
        """Make one frame of many, unless a part is open that may still fail: its frames would be dropped."""
        for name, parts in self._parts.items():
            if len(parts) >= MOST_PARTS and not self._open:
                self._joined[name].append(pd.concat(parts, ignore_index=True))
                parts.clear()

    def frames(self) -> dict[str, pd.DataFrame]:
        """Every declared table and `problems`, by name; those without rows too."""
        return {
            name: pd.concat(parts, ignore_index=True)
            if (parts := self._joined[name] + self._parts[name])
            else table.empty()
            for name, table in self._declared.items()
        }


def _cell(declared: Table, name: str, value: Value) -> Any:
    """A dimension's value for this column: of text as a guest gets it."""
    kind = next(column.type for column in declared.columns if column.name == name)
    return text_of(value) if kind == "string" else value


def _not_the_trials(error: Exception) -> Exception | None:
    """The error that no raw file is to blame for, which may have been wrapped where the file was read."""
    for one in (error, error.__cause__):
        if isinstance(one, MemoryError | Undeclared) or (isinstance(one, OSError) and one.errno in HOSTS_ERRORS):
            return one
    return None


def reason_of(error: Exception, trial: Trial) -> str:
    """What went wrong, in one line, without the folders of the host: it must not depend on where it was made."""
    if isinstance(error, KreproError):
        text = str(error)
    else:
        place = traceback.extract_tb(error.__traceback__)[-1]
        file = place.filename.rpartition("/")[2]
        text = f"{type(error).__name__}: {error} (at {file}:{place.lineno})"
    for folder in (trial.path.parent.parent, trial.path.parent.parent.parent):
        text = text.replace(f"{folder}/", "")
    return " ".join(text.split())


class MetricRows:
    """Metrics in long form; names and units are those that the experiment declares."""

    def __init__(self, declared: Sequence[Metric], problems: pd.DataFrame) -> None:
        self._declared = {metric.name: metric for metric in declared}
        self._problems = problems
        self._rows: list[dict[str, Any]] = []

    def put(
        self,
        arm: str,
        trial: int,
        metric: str,
        value: float | None,
        *,
        unit: str | None = None,
        reason: str | None = None,
    ) -> None:
        """One value. None, NaN and infinity are absent values: `reason` says why, or else a problem of the trial does.

        UsageError for a metric, a part or a unit that is not declared, and for an absent value without any reason.
        """
        declared = self._declared.get(family(metric))
        if declared is None:
            raise UsageError(f"metric {metric} is not declared (known: {', '.join(self._declared)})")
        if metric != declared.name and declared.of is None:
            raise UsageError(f"metric {metric}: {declared.name} has no parts, by its declaration")
        if unit is None and len(declared.units) == 1:
            unit = declared.units[0]
        if unit not in declared.units:
            raise UsageError(f"metric {metric}: unit {unit} is not declared (known: {', '.join(declared.units)})")
        number = math.nan if value is None else float(value)
        why: str | None = None
        if not math.isfinite(number):
            number = math.nan
            why = reason or problem_of(self._problems, arm, trial)
            if why is None:
                raise UsageError(f"metric {metric} of {arm} {trial} is absent without a reason")
        row = {"arm": str(arm), "trial": int(trial), "metric": metric, "value": number, "unit": unit, "reason": why}
        self._rows.append(row)

    def first_unit(self, metric: str) -> str:
        """The unit of a declared metric; of several the first."""
        return self._declared[family(metric)].units[0]

    def frame(self) -> pd.DataFrame:
        """All of them, with METRIC_COLUMNS."""
        frame = pd.DataFrame(self._rows, columns=list(METRIC_COLUMNS))
        reasons = pd.Series([row["reason"] for row in self._rows], dtype="object")  # None stays None
        return frame.astype({"trial": "int64", "value": "float64"}).assign(reason=reasons)


class Cut:
    """Tables cut by columns, each once: what metrics of one trial, or of one workload of it, are worked out from."""

    def __init__(self, tables: Mapping[str, pd.DataFrame], *by: str) -> None:
        self._tables, self._by = tables, list(by)
        self._parts: dict[str, dict[Any, pd.DataFrame]] = {}

    def of(self, table: str, *key: object) -> pd.DataFrame:
        """The rows of a table in which the columns have these values, in order; none, where there are none."""
        if table not in self._parts:
            self._parts[table] = dict(iter(self._tables[table].groupby(self._by, sort=False, observed=True)))
        part = self._parts[table].get(key)
        return self._tables[table].iloc[:0] if part is None else part


def problem_of(problems: pd.DataFrame, arm: str, trial: int) -> str | None:
    """Why something of this trial is absent, if its decoding had a problem: the first, and how many more."""
    rows = problems[(problems["arm"] == arm) & (problems["trial"] == trial)]
    if rows.empty:
        return None
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    return f"{rows['reason'].iloc[0]}{more}"
