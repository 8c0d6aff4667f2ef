# SPDX-License-Identifier: MIT
"""Metrics of the arms that stand beside the paper's tables, and of buffers that are read one off."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from harness.measure.rows import MetricRows
from harness.measure.statistics import ratio

from .decoding import BRACKET, BUFFER, CALLED, HANDLERS, LINES
from .printed import AFTER, ARMS, BEFORE, WORKLOAD
from .trialrows import TrialRows

_PARTS = (LINES, BRACKET, CALLED, BUFFER, HANDLERS)


def mixed_metrics(trial: TrialRows) -> None:
    """The paper's rows by the functions of today; its premises of section 3.1; what a CS test keeps out."""
    after = trial.sampling != "off"
    half, printed = ("after", AFTER) if after else ("before", BEFORE)
    problem = trial.problem(BUFFER, workload=WORKLOAD)
    profile = trial.rows("profile", WORKLOAD)
    counts = profile.groupby("function")["ticks"].sum()
    for row in printed:
        none = None if row.today else "nothing does its job alone today"
        trial.put(f"row_counts.{row.metric}", float(counts.get(row.today or "", 0.0)), problem, none)
    counted = sum(row.asked and float(counts.get(row.today or "", 0.0)) >= 1 for row in printed)
    trial.put(f"rows_counted.{half}", float(counted), problem)
    trial.put("idle_per_byte", trial.value("buffers", "idle_per_byte", WORKLOAD), problem)

    window, timer = trial.value("brackets", "window_s", WORKLOAD), trial.timer_interrupts(WORKLOAD)
    trial.put("tick_hz", ratio(timer, window), trial.problem(LINES, BRACKET, workload=WORKLOAD))
    if not after:
        sampled = ratio(trial.value("buffers", "total", WORKLOAD), timer)
        trial.put("sampled_ticks", sampled, trial.problem(LINES, BUFFER, workload=WORKLOAD))
        return
    entries, kernel = (trial.value("brackets", name, WORKLOAD) for name in ("counted_entries", "counted_interrupted"))
    untold = "the kernel has no tally of the fix" if math.isnan(entries) else None
    trial.put("user_interrupted", 1 - ratio(kernel, entries), trial.problem(BRACKET, workload=WORKLOAD), untold)


def misread_metrics(trial: TrialRows) -> None:
    """What becomes of names where the buffer is read one off."""
    rows, problem = trial.rows("misread"), trial.problem(*_PARTS)
    if rows.empty and problem is None:
        return  # an arm of the sweep
    sums = rows.groupby("reading", sort=False)[["idle_ticks", "entries", "entries_own", "entries_before"]].sum(
        min_count=1
    )
    true = float(sums["idle_ticks"].get("as_it_is", math.nan))
    for reading, row in sums.iterrows():
        none = "no handler entries were sampled" if math.isnan(row["entries"]) else None
        trial.put(f"misread_entries.{reading}", ratio(row["entries_before"], row["entries"]), problem, none)
        trial.put(f"misread_named.{reading}", ratio(row["entries_own"], row["entries"]), problem, none)
        trial.put(f"misread_idle.{reading}", ratio(row["idle_ticks"], true), problem)


def doubling(tables: Mapping[str, pd.DataFrame], out: MetricRows) -> None:
    """Counts of the idle function after the fix over those before it, in the same repetition."""
    buffers = tables["buffers"]
    rows = buffers[buffers["workload"] == WORKLOAD]
    before, after = (rows[rows["arm"] == arm].set_index("trial")["idle_ticks"] for arm in ARMS.values())
    trials = tables["trials"]
    for trial in trials.loc[trials["arm"] == ARMS["after"], "trial"]:
        value = ratio(float(after.get(trial, math.nan)), float(before.get(trial, math.nan)))
        why = "one of the two arms has no trial of this repetition with a buffer and ticks in its idle function"
        out.put(ARMS["after"], trial, "idle_doubling", value, reason=why)
