# SPDX-License-Identifier: MIT
"""Anisimov (2013): which waits for locks matter, filtered while they are traced.

declared.py and families.py say what the tables and metrics mean. decoding.py, known.py and exact.py make tables of raw
files, run.py reads them; measured.py makes metrics of tables, shown.py and figures.py show them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

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
from .figures import draw
from .hand import hand_rows
from .known import gap_rows, known_rows
from .locks.blocks import block_slices
from .locks.lockstat import read_lock_stat
from .measured import measured
from .run import CONTENTION, KPROBES, PERF, Run, every
from .shown import beside_the_paper, in_short
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
            with rows.part(run.trial, "probes", run.workload):
                rows.put("probes", probes(run), run.trial, run.workload)
        elif run.trace == CONTENTION:
            with rows.part(run.trial, "told_waits", run.workload):
                rows.put("told_waits", told_rows(run), run.trial, run.workload)
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
    trial, workload = run.trial, run.workload
    with rows.part(trial, "traces", workload):
        rows.put("traces", trace_row(run), trial, workload)
    with rows.part(trial, "sums", workload):
        rows.put("sums", sums(run), trial, workload)
    with rows.part(trial, "contention", workload):
        rows.put("contention", contention(run), trial, workload)
    with rows.part(trial, "blame", workload):
        rows.put("blame", blame(run), trial, workload)
    with rows.part(trial, "fill", workload):
        rows.put("fill", fill(run), trial, workload)
    with rows.part(trial, "known", workload):
        rows.put("known", known_rows(run), trial, workload)
    if run.trace in ("per-lock", "validate"):
        with rows.part(trial, "useful", workload):
            rows.put("useful", useful_locks(run), trial, workload)
    if run.trace == "contended":
        with rows.part(trial, "let_go", workload):
            rows.put("let_go", let_go(run), trial, workload)
    if run.trace in ("contended", "validate"):
        with rows.part(trial, "by_hand", workload):
            rows.put("by_hand", hand_rows(run), trial, workload)


def _validation(rows: TableRows, run: Run) -> None:
    """What the full log and both filters tell together."""
    trial, workload = run.trial, run.workload
    with rows.part(trial, "filters", workload):
        compared, differences = filters(run)
        rows.put("filters", compared, trial, workload)
        rows.put("differences", differences, trial, workload)
    with rows.part(trial, "gaps", workload):
        rows.put("gaps", gap_rows(run), trial, workload)
    with rows.part(trial, "site_sums", workload):
        rows.put("site_sums", site_sums(run), trial, workload)


def _exact(rows: TableRows, run: Run, *, first: bool) -> None:
    """What a full log tells: beside the oracle, and, of an arm's first trial, one block with its waiters."""
    trial, workload = run.trial, run.workload
    with rows.part(trial, "oracle", workload):
        calls, locks = oracle_rows(run)
        rows.put("oracle", calls, trial, workload)
        rows.put("oracle_locks", locks, trial, workload)
    if first:
        with rows.part(trial, "block", workload):
            rows.put("block", block(run), trial, workload)


def metrics(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """measured.py makes them."""
    return measured(tables)


def summary(tables: dict[str, pd.DataFrame], metrics: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """shown.py makes it."""
    return in_short(tables, metrics)


def paper(metrics: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """shown.py makes it."""
    return beside_the_paper(metrics)


def figures(tables: dict[str, pd.DataFrame], metrics: pd.DataFrame) -> dict[str, Figure]:
    """figures.py draws them."""
    return draw(tables, metrics)


def timeline(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """One block per arm and workload, that with the longest chain of waiters: a track per thread, waits and holds."""
    parts = []
    for (arm, workload), chosen in tables["block"].groupby(["arm", "workload"], sort=False):
        frame = chosen.rename(columns={f"{name}_s": name for name in ("begin", "acquired", "end")})
        frame = frame.reset_index(drop=True)
        parts.append(block_slices(frame, f"{arm} {workload}", 1.0, frame["class"] + " at " + frame["caller"]))
    return pd.concat(parts, ignore_index=True) if parts else block_slices(pd.DataFrame(), "", 1.0, pd.Series(dtype=str))
