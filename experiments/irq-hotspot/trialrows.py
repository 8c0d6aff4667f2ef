# SPDX-License-Identifier: MIT
"""The rows of one trial, and where its metrics go."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from harness.measure.rows import Cut, MetricRows

Tables = Mapping[str, pd.DataFrame]
#: The tables by trial, and by workload of a trial.
Cuts = tuple[Cut, Cut]
#: The part of a workload, as the table `problems` names it, without which none of it is decoded.
EXIT = "exit"
_NOTHING = "0 divided by 0: nothing was counted"


class TrialRows:
    """The rows of one trial, and where its metrics go."""

    def __init__(self, cuts: Cuts, arm: str, trial: int, out: MetricRows) -> None:
        self.arm, self.trial, self._cuts, self._out = arm, trial, cuts, out
        runs = self.rows("runs")
        self.workloads: list[str] = runs["workload"].tolist()
        self.sampling = str(runs["sampling"].iloc[0]) if len(runs) else "off"

    def rows(self, table: str, workload: str | None = None) -> pd.DataFrame:
        """Of all workloads, or of one."""
        of_trial, of_workload = self._cuts
        if workload is None:
            return of_trial.of(table, self.arm, self.trial)
        return of_workload.of(table, self.arm, self.trial, workload)

    def value(self, table: str, column: str, workload: str) -> float:
        """Of a table that has one row per workload; NaN when that row is absent."""
        rows = self.rows(table, workload)
        return float(rows[column].iloc[0]) if len(rows) else math.nan

    def problem(self, *parts: str, workload: str | None = None) -> str | None:
        """Why one of these parts of a workload, or of any, could not be decoded; None: they all were."""
        rows = self.rows("problems")
        if rows.empty:
            return None
        rows = rows[rows["part"].isin([EXIT, *parts])]
        if workload is not None:
            rows = rows[rows["workload"] == workload]
        return None if rows.empty else str(rows["reason"].iloc[0])

    def timer_interrupts(self, workload: str) -> float:
        """On the lines that have the timer as an action, and of the local timers."""
        rows = self.rows("interrupts", workload)
        timer = [
            irq == "LOC" or "timer" in names.split(", ")
            for irq, names in zip(rows["irq"], rows["actions"], strict=True)
        ]
        return float(rows.loc[timer, "interrupts"].sum()) if len(rows) else math.nan

    def put(self, metric: str, value: float, *reasons: str | None) -> None:
        """A metric. The first reason that is one says why it is absent: then its value is of no matter."""
        why = next((reason for reason in reasons if reason), None)
        if why is not None:
            value = math.nan
        self._out.put(self.arm, self.trial, metric, value, reason=why or _NOTHING)
