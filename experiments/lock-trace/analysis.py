# SPDX-License-Identifier: MIT
"""Anisimov (2013): which waits for locks matter, filtered while they are traced.

declared.py and families.py say what the tables and metrics mean. decoding.py, known.py and exact.py make tables of raw
files, run.py reads them; measured.py makes metrics of tables, shown.py and figures.py show them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from harness.measure.raw import Trial
from harness.measure.rows import TableRows

from .declared import TABLES
from .decoding import (
    blame,
    block,
    contention,
    fill,
    filters,
    let_go,
    pairs,
    probes,
    site_sums,
    sums,
    trace_row,
    useful_locks,
)
from .exact import oracle_rows
from .families import METRICS
from .figures import draw as figures
from .hand import hand_rows
from .known import gap_rows, known_rows
from .locks.blocks import block_slices
from .locks.lockstat import read_lock_stat
from .measured import measured as metrics
from .run import CONTENTION, KPROBES, PERF, Run, every
from .shown import beside_the_paper as paper
from .shown import in_short as summary
from .told import told_rows

__all__ = ["METRICS", "TABLES", "figures", "metrics", "paper", "summary", "tables", "timeline"]

LOCK_STAT = "lock_stat.txt"


def tables(trials: Sequence[Trial]) -> dict[str, pd.DataFrame]:
    """Every workload of every trial, part by part: what cannot be decoded costs its part alone."""
    rows = TableRows(TABLES)
    first: dict[str, int] = {}
    for run in every(trials):
        first.setdefault(run.trial.arm, run.trial.repetition)
        _workload(rows, run)
        if run.trace == KPROBES:
            _part(rows, run, "probes", probes)
        elif run.trace == CONTENTION:
            _part(rows, run, "told_waits", told_rows)
        elif run.trace not in ("off", PERF):  # which is there for what it costs
            _trace(rows, run)
            if run.trace == "validate":
                _validation(rows, run)
            if run.trace in ("all", "validate"):
                _exact(rows, run, first=first[run.trial.arm] == run.trial.repetition)
    return rows.frames()


def _workload(rows: TableRows, run: Run) -> None:
    """What needs no trace."""
    trial, workload = run.trial, run.workload
    row: dict[str, object] = {"trace": run.trace, "seconds": np.nan, "operations": np.nan}
    with rows.part(trial, "answer", workload):
        row |= {"seconds": run.answer["elapsed_ns"] / 1e9, "operations": run.answer["operations"]}
    rows.put("runs", row, trial, workload)
    if run.timed_pairs:
        with rows.part(trial, "pair", workload):
            costs, quantiles = pairs(run)
            rows.put("pair", costs, trial, workload)
            rows.put("quantiles", quantiles, trial, workload)
    if (run.folder / LOCK_STAT).exists():
        with rows.part(trial, "lock_stat", workload):
            rows.put("lock_stat", read_lock_stat(run.folder / LOCK_STAT), trial, workload)


def _trace(rows: TableRows, run: Run) -> None:
    """What every trace has."""
    parts: dict[str, Callable[[Run], Any]] = {
        "traces": trace_row, "sums": sums, "contention": contention, "blame": blame, "fill": fill, "known": known_rows,
    }  # fmt: skip
    if run.trace in ("per-lock", "validate"):
        parts["useful"] = useful_locks
    if run.trace == "contended":
        parts["let_go"] = let_go
    if run.trace in ("contended", "validate"):
        parts["by_hand"] = hand_rows
    for name, decode in parts.items():
        _part(rows, run, name, decode)


def _part(rows: TableRows, run: Run, name: str, decode: Callable[[Run], Any]) -> None:
    """A table that is a part of its own."""
    with rows.part(run.trial, name, run.workload):
        rows.put(name, decode(run), run.trial, run.workload)


def _validation(rows: TableRows, run: Run) -> None:
    """What the full log and both filters tell together."""
    trial, workload = run.trial, run.workload
    with rows.part(trial, "filters", workload):
        compared, differences = filters(run)
        rows.put("filters", compared, trial, workload)
        rows.put("differences", differences, trial, workload)
    _part(rows, run, "gaps", gap_rows)
    _part(rows, run, "site_sums", site_sums)


def _exact(rows: TableRows, run: Run, *, first: bool) -> None:
    """What a full log tells: beside the oracle, and, of an arm's first trial, one block with its waiters."""
    trial, workload = run.trial, run.workload
    with rows.part(trial, "oracle", workload):
        calls, locks = oracle_rows(run)
        rows.put("oracle", calls, trial, workload)
        rows.put("oracle_locks", locks, trial, workload)
    if first:
        _part(rows, run, "block", block)


def timeline(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """One block per arm and workload, that with the longest chain of waiters: a track per thread, waits and holds."""
    parts = []
    for (arm, workload), chosen in tables["block"].groupby(["arm", "workload"], sort=False):
        frame = chosen.rename(columns={f"{name}_s": name for name in ("begin", "acquired", "end")})
        frame = frame.reset_index(drop=True)
        parts.append(block_slices(frame, f"{arm} {workload}", 1.0, frame["class"] + " at " + frame["caller"]))
    return pd.concat(parts, ignore_index=True) if parts else block_slices(pd.DataFrame(), "", 1.0, pd.Series(dtype=str))
