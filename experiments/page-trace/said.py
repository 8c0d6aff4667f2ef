# SPDX-License-Identifier: MIT
"""What the report says of the programs whose advice is followed, by their traces: arm `short-traced`."""

from __future__ import annotations

from typing import Any

import pandas as pd

from harness.errors import RunError
from harness.measure.raw import Trial
from harness.measure.rows import MetricRows, TableRows

from .report.advice import Advice
from .report.measured import Measured
from .report.names import Names
from .report.spaces import Spaces
from .report.told import tell
from .trace.maps import read_maps
from .trace.records import Trace

#: The parameter `advice` of the arm, and the part of a trial, as the table problems has it.
TRACED, SAID = "traced", "advice on a program"
#: The kind in the row of a program that the report gives no advice on.
NOTHING = "none"
#: What is done where the advice on a program is followed: the kind of advice that this is.
FOLLOWED = {"short-columns": "order", "short-keep": "keep", "short-drop": "drop"}
KEYS = ["arm", "trial", "workload"]


def decode_said(rows: TableRows, trial: Trial) -> None:
    """The table said of one trial."""
    for workload in trial.workloads:
        with rows.part(trial, SAID, workload):
            folder = trial.path / workload
            spaces = Spaces(Trace(folder / "trace"))
            measured = Measured(spaces)
            if not measured.totals.visits:
                raise RunError("has no visit", where=str(folder / "trace"))
            # Functions and lines are not told: the programs' files are in the guest.
            names = Names({spaces.main: read_maps(folder / "maps")}, spaces.main, folder / "no files", "")
            told = tell(measured, names)
            largest = max(told.regions, key=lambda region: region[1])[2]
            for one in told.advice or [Advice(NOTHING, "", "", 0.0)]:
                row = {"kind": one.kind, "subject": one.subject, "share": one.share, "text": one.text}
                rows.put("said", row | {"largest": one.subject == largest}, trial, workload)


def put_said(tables: dict[str, pd.DataFrame], rows: MetricRows) -> None:
    """advice_said of each program: 1 if what is followed is said of the memory that has most pages."""
    said, problems = tables["said"], tables["problems"]
    lacking = problems[problems["part"] == SAID]
    programs = pd.concat([said[KEYS], lacking[KEYS]]).drop_duplicates()
    for arm, trial, workload in programs.itertuples(index=False):
        own, lacks = _of(said, arm, trial, workload), _of(lacking, arm, trial, workload)
        reason = str(lacks["reason"].iloc[0]) if len(lacks) else None
        value = float((own["largest"] & (own["kind"] == FOLLOWED.get(workload))).any())
        rows.put(arm, int(trial), f"advice_said.{workload}", None if reason else value, reason=reason)


def _of(table: pd.DataFrame, arm: Any, trial: Any, workload: str) -> pd.DataFrame:
    found: pd.DataFrame = table[(table["arm"] == arm) & (table["trial"] == trial) & (table["workload"] == workload)]
    return found
