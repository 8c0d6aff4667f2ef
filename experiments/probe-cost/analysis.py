# SPDX-License-Identifier: MIT
"""probe-cost: what probecost printed into runs, stages, a cost model, and its predictions of held-out scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from harness.measure.claims import ClaimResult
from harness.measure.raw import Trial
from harness.measure.rows import TableRows
from harness.measure.trials import trial_table

from .declared import METRICS, TABLES
from .effects import losses, periods, rates
from .figures import draw
from .fit import Runs, stages_of, traps_of
from .fitted import costs_of, models, undisturbed
from .foretold import TRACED, predictions, put_traced
from .hand import hand_rows
from .metrics import metrics_of
from .predict import predict
from .report import paper_tables, summaries
from .runs import ORACLE, Run, read_laps, read_runs
from .validation import put_scripts

__all__ = [
    "METRICS",
    "TABLES",
    "documents",
    "figures",
    "metrics",
    "paper",
    "predict",
    "predictions",
    "summary",
    "tables",
]


def tables(trials: Sequence[Trial]) -> dict[str, pd.DataFrame]:
    """Each trial by itself; then the medians over an arm's undisturbed trials, as the table `costs`."""
    rows = TableRows(TABLES)
    for trial in trials:
        _put_trial(rows, trial)
    frames = rows.frames()
    frames["costs"] = costs_of(undisturbed(frames["stages"], trial_table(trials)))
    return frames


def _put_trial(rows: TableRows, trial: Trial) -> None:
    read: dict[str, list[Run]] = {}
    for workload in trial.workloads:
        with rows.part(trial, "runs", workload):
            runs = read_runs(trial.path / workload / "stdout")
            rows.put("runs", [_run_row(run) for run in runs], trial, workload)
            read[workload] = runs
    laps: pd.DataFrame | None = None
    with rows.part(trial, ORACLE):
        laps = read_laps(trial, read)
    named = {run.run: run for runs in read.values() for run in runs}
    stages: list[dict[str, Any]] = []
    with rows.part(trial, "stages", "fit"):
        if "fit" in read:
            fitted = Runs(named, laps, least=trial.fidelity == "host")
            stages = stages_of(fitted)
            rows.put("stages", stages, trial)
            rows.put("traps", traps_of(fitted), trial)
    with rows.part(trial, "scripts that are predicted", "validate"):
        put_scripts(rows, trial, read, stages)
    with rows.part(trial, "scripts that were predicted", TRACED):
        if TRACED in read:
            put_traced(rows, trial, read[TRACED])
    with rows.part(trial, "lost hits and saturation", "effects"):
        rows.put("losses", list(losses(named, laps)), trial)
        rows.put("rates", list(rates(named)), trial)
        rows.put("periods", list(periods(named)), trial)
    with rows.part(trial, "counts on paper"):
        rows.put("by_hand", list(hand_rows(named, laps, trial.clock)), trial)


def _run_row(run: Run) -> dict[str, Any]:
    row = run.as_columns() | {"work": run.work, "batches": run.batches, "problem": run.problem or None}
    if not run.problem:
        took = run.took or run.plain  # what is only counted is not traced
        row |= {"per_round": run.per_round, "cold": took[0] / run.rounds - run.per_round}
    return row


def metrics(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """See METRICS."""
    return metrics_of(tables)


def documents(tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """model: that of the virtual clock; model-ARM: of the others."""
    return {
        "model" if model.fidelity == "virtual" else f"model-{arm}": model.model_dump(mode="json")
        for arm, model in models(tables).items()
    }


def paper(
    tables: Mapping[str, pd.DataFrame], metrics: pd.DataFrame, claims: Sequence[ClaimResult]
) -> dict[str, pd.DataFrame]:
    """What the paper has, row by row, and what is there here."""
    return paper_tables(tables, metrics, claims)


def summary(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Tables for people."""
    return summaries(tables)


def figures(tables: Mapping[str, pd.DataFrame]) -> dict[str, Figure]:
    """One Figure per name; they are drawn in figures.py."""
    return draw(tables)
