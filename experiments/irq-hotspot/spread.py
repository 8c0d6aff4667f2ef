# SPDX-License-Identifier: MIT
"""Loads of many functions against the exact counts, and what the switched-off patches cost."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from harness.measure.rows import MetricRows
from harness.measure.statistics import ratio
from harness.oracle.truth import against_independent, distance

from .decoding import BUFFER, CALLED, TRUTH
from .trialrows import TrialRows

#: The patched kernel with everything off, and the one without patches, on the same load.
PATCHED, STOCK, LOAD = "patched", "stock", "syscalls"
#: Of the functions that the patches change, those that run at each interrupt of the timer.
HOT_PATH = ("__handle_irq_event_percpu", "profile_tick")
#: Loads whose truth is nearly all in two loops have metrics of their own.
LOOPS = ("edu", "edu-light", "idle", "step", "peers")


def spread_metrics(trial: TrialRows) -> None:
    """How far the buffer and the ideal sampler are from the truth; the idle function is left out, which waits."""
    for workload in trial.workloads:
        truth = trial.rows("truth", workload)
        problem = trial.problem(TRUTH, workload=workload)
        if workload in LOOPS or (truth.empty and problem is None):
            continue
        whole = float(truth["instructions"].sum())
        interrupts = ratio(float(truth["interrupt"].sum()), whole)
        trial.put(f"interrupt_share.{workload}", interrupts, problem)
        busy = truth[truth["role"] != "idle"]
        waits = trial.problem(CALLED, BUFFER, workload=workload)
        if waits is None and trial.rows("buffers", workload)["idle_function"].isna().all():
            waits = "no CPU was seen idle"
        for name, column in (("profile", "ticks"), ("sampler", "samples")):
            ran = busy[(busy["instructions"] > 0) | (busy[column] > 0)]
            none = "the ideal sampler did not run" if ran[column].isna().any() else None
            both = ran["instructions"], ran[column]
            trial.put(f"{name}_error.{workload}", distance(*both), problem, waits, none)
            trial.put(f"{name}_of_independent.{workload}", against_independent(*both), problem, waits, none)


def off_cost(tables: Mapping[str, pd.DataFrame], out: MetricRows) -> None:
    """Instructions that a call takes on the patched kernel beyond those on the stock one, in the same repetition."""
    truth = tables["truth"]
    rows = truth[(truth["workload"] == LOAD) & truth["function"].isin(HOT_PATH)]
    each = (rows["instructions"] / rows["entries"].where(rows["entries"] > 0)).to_numpy()
    per_call = pd.Series(each, index=pd.MultiIndex.from_frame(rows[["arm", "trial", "function"]]))
    trials = tables["trials"]
    for trial in trials.loc[trials["arm"] == PATCHED, "trial"]:
        for function in HOT_PATH:
            patched, stock = (float(per_call.get((arm, trial, function), math.nan)) for arm in (PATCHED, STOCK))
            why = f"one of arms {PATCHED} and {STOCK} has no trial of this repetition in which {function} ran"
            # Both are quotients of whole numbers: a difference of 1 must not be more than 1 in its last bit.
            out.put(PATCHED, trial, f"off_cost.{function}", round(patched - stock, 9), reason=why)


def spread_table(metrics: pd.DataFrame) -> pd.DataFrame:
    """A row per arm and load of many functions, medians over trials."""
    names = {
        "interrupt_share": "in interrupts",
        "profile_error": "buffer: wrong",
        "profile_of_independent": "over independent",
        "sampler_error": "ideal: wrong",
        "sampler_of_independent": "ideal/independent",
    }
    if metrics.empty:
        return pd.DataFrame()
    parts = metrics["metric"].str.partition(".")
    rows = metrics.assign(name=parts[0], workload=parts[2])
    rows = rows[rows["name"].isin(list(names))]
    if rows["value"].isna().all():
        return pd.DataFrame()
    wide = rows.pivot_table(index=["arm", "workload"], columns="name", values="value", aggfunc="median")
    return wide.reindex(columns=list(names)).rename(columns=names).round(3).rename_axis(None, axis=1).reset_index()
