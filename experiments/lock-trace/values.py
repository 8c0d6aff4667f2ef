# SPDX-License-Identifier: MIT
"""What metrics are made of: a set's tables by run, and figures that are there or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.measure.rows import Cut, MetricRows, problem_of
from harness.measure.trials import LEFT_OUT

from .run import OTHERS

Tables = Mapping[str, pd.DataFrame]
KEY = ["arm", "trial", "workload"]
Key = tuple[str, int, str]
#: What programs do; the other workloads are made.
PROGRAMS = ("files-one", "files-own", "pipes", "sockets", "forks")


@dataclass(frozen=True)
class Value:
    """A figure, or why there is none. `applies`: whether a whole trial's figure has to do without it, too."""

    value: float
    reason: str | None = None
    applies: bool = True

    @property
    def absent(self) -> bool:
        return bool(np.isnan(self.value))


class Told:
    """A set's tables, by run."""

    def __init__(self, tables: Tables) -> None:
        self.tables, self._by_run = tables, Cut(tables, *KEY)
        trials = tables["trials"].drop_duplicates(["arm", "trial"]).set_index(["arm", "trial"])
        runs = tables["runs"].join(trials[["kernel", "clock", "fidelity"]], on=["arm", "trial"])
        self.runs = {(row["arm"], row["trial"], row["workload"]): row for row in runs.to_dict("records")}
        self.traces = {(row["arm"], row["trial"], row["workload"]): row for row in tables["traces"].to_dict("records")}
        self.clocks = trials["clock"].to_dict()
        self._disturbed = trials["disturbed"].dropna().to_dict()
        self._bases = {
            (row["trace"], row["kernel"], row["clock"], row["trial"], row["workload"]): run
            for run, row in reversed(list(self.runs.items()))
        }

    def problem(self, run: Key, part: str) -> str | None:
        """Why a part of a run could not be decoded."""
        problems = self.tables["problems"]
        of_part = problems[(problems["workload"] == run[2]) & (problems["part"] == part)]
        return problem_of(of_part, run[0], run[1])

    def base(self, run: Key, trace: str) -> Key | None:
        """The run of this workload, with the same seed, kernel and clock, that was traced so; None: there is none."""
        row = self.runs[run]
        return self._bases.get((trace, row["kernel"], row["clock"], row["trial"], row["workload"]))

    def beside(self, run: Key, value: Value) -> Value:
        """A value as what other arms are compared with: none where the host disturbed its trial."""
        disturbed = self._disturbed.get((run[0], run[1]))
        return value if disturbed is None else Value(np.nan, f"{LEFT_OUT}{disturbed}")

    def trials(self, by: str = "") -> dict[tuple[str, int], list[Key]]:
        """Runs of each trial that were traced: by our patch, or by one of OTHERS."""
        grouped: dict[tuple[str, int], list[Key]] = {}
        for run, row in self.runs.items():
            if row["trace"] != "off" and by == (row["trace"] if row["trace"] in OTHERS else ""):
                grouped.setdefault((run[0], run[1]), []).append(run)
        return grouped

    def of(self, table: str, run: Key) -> pd.DataFrame:
        """The run's rows of a table."""
        return self._by_run.of(table, *run)


def each(rows: MetricRows, name: str, values: Mapping[Key, Value]) -> None:
    for (arm, trial, workload), value in values.items():
        rows.put(arm, trial, f"{name}.{workload}", value.value, reason=value.reason)


def whole(rows: MetricRows, name: str, arm: str, trial: int, values: Mapping[Key, Value], how: str = "sum") -> None:
    """The figure of a trial; nothing where no run of it has one, nor should."""
    chosen = {run: value for run, value in values.items() if value.applies}
    reasons = [f"{run[2]}: {value.reason}" for run, value in chosen.items() if value.absent]
    if chosen:
        figures = [value.value for value in chosen.values()]
        value = np.nan if reasons else float(np.sum(figures) if how == "sum" else np.median(figures))
        rows.put(arm, trial, name, value, reason=reasons[0] if reasons else None)


def text(cell: object) -> str | None:
    """A cell of text; None where it is null."""
    return cell if isinstance(cell, str) else None


def traced(told: Told, run: Key, name: str) -> Value:
    """What the kernel counted."""
    row = told.traces.get(run)
    return Value(float(row[name])) if row is not None else Value(np.nan, told.problem(run, "traces"))


def seconds(told: Told, run: Key) -> Value:
    seconds = told.runs[run]["seconds"]
    return Value(seconds, told.problem(run, "answer") if np.isnan(seconds) else None)


def ratio(over: Value, under: Value) -> Value:
    if over.absent or under.absent:
        return Value(np.nan, over.reason or under.reason, applies=over.applies and under.applies)
    return Value(over.value / under.value) if under.value else Value(np.nan, "divided by 0")
