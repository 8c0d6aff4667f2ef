# SPDX-License-Identifier: MIT
"""Metrics of what the filters keep, beside a replay, beside the truth, and of the module's locks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from harness.measure.rows import MetricRows

from .locks.comparison import COUNTER, WAITED
from .values import PROGRAMS, Key, Told, Value, each, text, whole

#: Filters of the kernel's; the paper's other sentence is followed offline alone.
KEPT = ("per-lock", "paper")
COMPARED = ("missing", "extra", "different")
JUDGED = ("selected", "dropped_waits", "dropped_holders", "idle")


def filters(rows: MetricRows, told: Told, arm: str, trial: int, runs: Sequence[Key]) -> None:
    by = {run: told.of("filters", run) for run in runs}
    for which in (*KEPT, COUNTER):
        for name in (*COMPARED, *JUDGED) if which in KEPT else JUDGED:
            values = _of_filter(told, by, which, name)
            each(rows, f"{name}.{which}", values)
            whole(rows, f"{name}.{which}", arm, trial, values)
        idle, kept = (_of_filter(told, by, which, name).values() for name in ("idle", "acquisitions"))
        share, why = _share(idle, kept, "no acquisition was kept")
        rows.put(arm, trial, f"idle_share.{which}", share, reason=why)
    programs = {run: frame for run, frame in by.items() if run[2] in PROGRAMS}
    if programs:
        waited, log = (_of_filter(told, programs, WAITED, name).values() for name in ("selected", "log"))
        share, why = _share(waited, log, "no event")
        rows.put(arm, trial, "waited_programs", share, reason=why)
    values = {}
    for run in runs:
        frame, problem = told.of("site_sums", run), told.problem(run, "site_sums")
        if frame.empty:
            values[run] = Value(np.nan, problem)
        else:
            reason = text(frame["reason"].iloc[0])
            values[run] = Value(float(frame["different"].iloc[0]), reason, applies=reason is None)
    each(rows, "sites_different", values)
    whole(rows, "sites_different", arm, trial, values)


def _of_filter(told: Told, by: Mapping[Key, pd.DataFrame], which: str, name: str) -> dict[Key, Value]:
    """What a table says of one filter, by run."""
    values = {}
    for run, frame in by.items():
        row = frame[frame["filter"] == which]
        here = len(row) and Value(float(row[name].iloc[0]), text(row["reason"].iloc[0]))
        values[run] = here or Value(np.nan, told.problem(run, "filters"))
    return values


def _share(part: Iterable[Value], whole: Iterable[Value], otherwise: str) -> tuple[float, str]:
    """A sum over another, and why there is none."""
    parts, wholes = list(part), list(whole)
    reason = next((value.reason for value in parts if value.absent), None)
    total = sum(value.value for value in wholes)
    return (np.nan if reason or not total else sum(value.value for value in parts) / total), reason or otherwise


def gaps(rows: MetricRows, told: Told, runs: Sequence[Key]) -> None:
    for run in runs:
        frame, problem = told.of("gaps", run), told.problem(run, "gaps")
        for which in (*KEPT, COUNTER):
            share = frame[(frame["filter"] == which) & (frame["events"] > 0)]
            if len(share):
                value = Value(float(share["kept"].iloc[0]) / float(share["events"].iloc[0]))
            elif problem is not None:
                value = Value(np.nan, problem)
            else:
                continue
            each(rows, f"gap_kept.{which}", {run: value})
            if value.absent or share["after"].iloc[0]:
                dropped = Value(np.nan, value.reason) if value.absent else Value(float(share["after_dropped"].iloc[0]))
                each(rows, f"gap_dropped.{which}", {run: dropped})
