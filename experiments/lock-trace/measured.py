# SPDX-License-Identifier: MIT
"""Metrics of lock-trace's tables.

A metric of one workload is called NAME.WORKLOAD, of a filter NAME.FILTER.WORKLOAD. One without a workload is of the
whole trial; it is absent when one of its workloads could not be decoded, for a sum over the others is another figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from harness.measure.rows import MetricRows

from .decoding import PAIR_KINDS, READINGS
from .families import METRICS
from .filtered import filters, gaps
from .run import CONTENTION, KPROBES, PERF
from .values import KEY, PROGRAMS, Key, Tables, Told, Value, each, ratio, seconds, traced, whole

#: The workloads whose rings nobody reads: what they lose, they lose on purpose. In the first nobody waits on one CPU.
BUFFERS = ("buffer", "buffer-waits")
#: The paper's buffer of 1 GB a core, in events.
GIGABYTE = (1 << 30) // 64
NOT_NATIVE = "an emulated CPU makes its calls at the emulator's pace, not at a machine's"
FILTERING = ("paper", "per-lock", "validate")
#: What the kprobes are on; of a plain spin lock the release has no function.
PROBED = ("spin", "spin_irqsave")
#: How the names of the module's own locks begin.
MODULE_LOCKS = "known_"


def measured(tables: Tables) -> pd.DataFrame:
    """METRIC_COLUMNS, of the families of families.py."""
    told = Told(tables)
    rows = MetricRows(METRICS, tables["problems"])
    for (arm, trial), runs in told.trials().items():
        _sums(rows, told, arm, trial, runs)
        _shares(rows, told, arm, trial, runs)
        _buffer(rows, told, runs)
        _compared(rows, told, arm, trial, runs)
        if told.runs[runs[0]]["trace"] == "validate":
            filters(rows, told, arm, trial, runs)
            gaps(rows, told, runs)
    for (arm, trial), runs in told.trials(KPROBES).items():
        _slower(rows, told, arm, trial, runs)
        missed = {}
        for run in runs:
            probes, problem = told.of("probes", run), told.problem(run, "probes")
            missed[run] = Value(float(probes["missed"].sum())) if len(probes) else Value(np.nan, problem)
        each(rows, "missed", missed)
        whole(rows, "missed", arm, trial, missed)
    for (arm, trial), runs in told.trials(PERF).items():
        _slower(rows, told, arm, trial, runs)
    for (arm, trial), runs in told.trials(CONTENTION).items():
        for name, column in (("told_difference", "difference"), ("told_waits", "told"), ("told_share", "low")):
            values = {}
            for run in runs:
                waits, problem = told.of("told_waits", run), told.problem(run, "told_waits")
                nothing = Value(np.nan, problem or "the module counted nothing", applies=problem is not None)
                values[run] = Value(float(waits[column].sum())) if len(waits) else nothing
                if name == "told_share":
                    values[run] = ratio(Value(float(waits["told"].sum())), values[run])
            each(rows, name, values)
            if name != "told_share":
                whole(rows, name, arm, trial, values)
    _pairs(rows, told)
    _lock_stat(rows, told)
    return rows.frame()


# -- counts and shares -----------------------------------------------------------------------------------------------


def _sums(rows: MetricRows, told: Told, arm: str, trial: int, runs: Sequence[Key]) -> None:
    sums = {run: told.of("sums", run) for run in runs}
    for name, balance in (("unbalanced", True), ("wrong_sums", False)):
        values = {}
        for run, checks in sums.items():
            off = float(checks.loc[checks["balance"] == balance, "difference"].abs().sum())
            values[run] = Value(off) if len(checks) else Value(np.nan, told.problem(run, "sums"))
        each(rows, name, values)
        whole(rows, name, arm, trial, values)
    for name in ("nested", "untracked", "lost"):
        values = {run: traced(told, run, name) for run in runs}
        each(rows, name, values)
        whole(rows, name, arm, trial, {r: v for r, v in values.items() if name != "lost" or r[2] not in BUFFERS})


def _slower(rows: MetricRows, told: Told, arm: str, trial: int, runs: Sequence[Key]) -> None:
    slower = {run: _slowdown(told, run) for run in runs}
    each(rows, "slowdown", slower)
    whole(rows, "slowdown", arm, trial, slower, "median")


def _shares(rows: MetricRows, told: Told, arm: str, trial: int, runs: Sequence[Key]) -> None:
    _slower(rows, told, arm, trial, runs)
    if told.runs[runs[0]]["trace"] not in FILTERING:
        return
    useful = {}
    for run in runs:
        share = traced(told, run, "useful")
        useful[run] = Value(np.nan, "no event", applies=False) if share.absent and not share.reason else share
    each(rows, "useful", useful)
    whole(rows, "useful", arm, trial, useful, "median")
    programs = [run for run in runs if run[2] in PROGRAMS]
    if programs:
        kept, events = ([traced(told, run, name) for run in programs] for name in ("kept", "events"))
        reason = next((value.reason for value in kept if value.absent), None)
        total = sum(value.value for value in events)
        value = np.nan if reason or not total else sum(value.value for value in kept) / total
        rows.put(arm, trial, "useful_programs", value, reason=reason or "no event")


def _slowdown(told: Told, run: Key) -> Value:
    bare = told.base(run, "off")
    if bare is None:
        return Value(np.nan, "the workload did not run untraced on this kernel and clock", applies=False)
    return ratio(seconds(told, run), told.beside(bare, seconds(told, bare)))


# -- rings that nobody reads -------------------------------------------------------------------------------------


def _buffer(rows: MetricRows, told: Told, runs: Sequence[Key]) -> None:
    for run in (run for run in runs if run[2] in BUFFERS):
        for name, over, lasts in (
            ("full_s", "buffer_ratio", _full),
            ("full_work", "buffer_work_ratio", _work),
            ("first_loss_s", "first_loss_ratio", _first_loss),
        ):
            value = lasts(told, run)
            each(rows, name, {run: value})
            plain = told.base(run, "all")
            if plain is None:
                more = Value(np.nan, "no arm without a filter ran beside")
            else:
                more = ratio(value, told.beside(plain, lasts(told, plain)))
            each(rows, over, {run: more})
        each(rows, "gigabyte_s", {run: _gigabyte(told, run)})


def _full(told: Told, run: Key) -> Value:
    """At the rate at which the load fills them: the time of the first loss has in it what came before the load, when
    its threads are made and few locks are taken. It rewards what makes the load slow.
    """
    return _rings(told, run, seconds(told, run))


def _work(told: Told, run: Key) -> Value:
    """What the load gets done until then, however long that takes it."""
    return _rings(told, run, Value(told.runs[run]["operations"], told.problem(run, "answer")))


def _rings(told: Told, run: Key, spent: Value) -> Value:
    """As much of what the load spent as fills the rings once."""
    row = told.traces.get(run)
    if row is None:
        return Value(np.nan, told.problem(run, "traces"))
    if np.isnan(row["first_loss_s"]):
        return Value(np.nan, "no ring was full")
    return Value(row["ring_events"] * spent.value / row["kept"], spent.reason if spent.absent else None)


def _gigabyte(told: Told, run: Key) -> Value:
    """How long the paper's 1 GB a core lasts at the load's rate."""
    row, spent = told.traces.get(run), seconds(told, run)
    if told.runs[run]["fidelity"] in ("virtual", "emulated"):
        return Value(np.nan, NOT_NATIVE)
    if row is None or not row["kept"]:
        return Value(np.nan, told.problem(run, "traces") or "nothing was kept")
    return Value(GIGABYTE * row["cpus"] * spent.value / row["kept"], spent.reason)


def _first_loss(told: Told, run: Key) -> Value:
    value = traced(told, run, "first_loss_s")
    return Value(np.nan, "no ring was full") if value.absent and not value.reason else value


# -- what a pair costs -------------------------------------------------------------------------------------------


def _pairs(rows: MetricRows, told: Told) -> None:
    """In instructions under the virtual clock, else in cycles; beside no trace, and beside all events."""
    costs: dict[Key, dict[str, Any]] = {}
    for row in told.tables["pair"].to_dict("records"):
        costs.setdefault((row["arm"], row["trial"], row["workload"]), {})[row["kind"]] = row
    problems = told.tables["problems"]
    for run in told.runs:
        reason = told.problem(run, "pair") if (problems["part"] == "pair").any() else None
        if run not in costs and reason is None:
            continue
        unit = "instructions" if told.clocks[run[0], run[1]] == "virtual" else "cycles"
        for kind in (READINGS, *PAIR_KINDS):
            row = costs.get(run, {}).get(kind) or {}
            for metric, column in (("pair_mean100", "mean_first"), ("pair_mean", "mean"), ("pair_median", "median")):
                rows.put(run[0], run[1], f"{metric}.{kind}", row.get(column), unit=unit, reason=reason)
            if kind != READINGS and (told.runs[run]["trace"] != KPROBES or kind in PROBED):
                rows.put(run[0], run[1], f"pair.{kind}", row.get("net"), unit=unit, reason=reason)
                _beside(rows, told, run, kind, costs, reason)


def _beside(
    rows: MetricRows, told: Told, run: Key, kind: str, costs: Mapping[Key, Mapping[str, Any]], reason: str | None
) -> None:
    """How much more a pair costs than without a trace, and than with all events."""

    def cost(one: Key, column: str) -> Value:
        row = costs.get(one, {}).get(kind)
        return Value(float(row[column])) if row else Value(np.nan, told.problem(one, "pair") or "it timed no pair")

    for trace in ("off", "all"):
        if told.runs[run]["trace"] in (trace, "off"):
            continue
        base = told.base(run, trace)
        for family, column in (("pair", "net"), ("pair_mean100", "mean_first")):
            more = Value(np.nan, f"no pair was timed by an arm with trace {trace} on this kernel and clock")
            if reason is not None:
                more = Value(np.nan, reason)
            elif base is not None:
                more = ratio(cost(run, column), told.beside(base, cost(base, column)))
            rows.put(run[0], run[1], f"{family}_of_{trace}.{kind}", more.value, reason=more.reason)
    bare, plain = told.base(run, "off"), told.base(run, "all")
    if bare is None or plain is None or told.runs[run]["trace"] in ("off", "all"):
        return
    less = told.beside(bare, cost(bare, "net"))
    added = [Value(one.value - less.value, one.reason or less.reason) for one in (cost(run, "net"), cost(plain, "net"))]
    more = Value(np.nan, reason) if reason is not None else ratio(added[0], told.beside(plain, added[1]))
    rows.put(run[0], run[1], f"overhead_of_all.{kind}", more.value, reason=more.reason)


# -- against what is known without the trace --------------------------------------------------------------------------


def _compared(rows: MetricRows, told: Told, arm: str, trial: int, runs: Sequence[Key]) -> None:
    """The module's counts and the oracle's. What says why it cannot be told takes no part in the trial's sum."""
    for table, quantity, counts in (
        ("known", "known_difference", None),
        ("oracle", "oracle_difference", "calls"),
        ("by_hand", "hand_difference", None),
    ):
        differences, calls, counted = {}, {}, 0
        for run in runs:
            frame, problem = told.of(table, run), told.problem(run, table)
            if frame.empty and problem is None:
                continue
            reasons = frame["reason"].dropna() if "reason" in frame else ()
            reason = problem or (str(next(iter(reasons))) if len(reasons) else None)
            if reason is None:
                counted += len(frame)
                differences[run] = Value(float(frame["difference"].sum()))
                calls[run] = Value(float(frame[counts].sum())) if counts else Value(0)
            else:
                differences[run] = calls[run] = Value(np.nan, reason, applies=problem is not None)
        each(rows, quantity, differences)
        _total(rows, quantity, arm, trial, differences)
        if counts:
            each(rows, "oracle_calls", calls)
            _total(rows, "oracle_calls", arm, trial, calls)
        elif counted and table == "known":
            _total(rows, "known_counts", arm, trial, differences, counted)


def _total(
    rows: MetricRows, name: str, arm: str, trial: int, values: Mapping[Key, Value], instead: float | None = None
) -> None:
    """The sum over a trial, or `instead` where there is one; with the first reason where no run can tell."""
    if not values:
        return
    if not any(value.applies for value in values.values()):
        rows.put(arm, trial, name, None, reason=next(iter(values.values())).reason)
    elif instead is not None and not any(value.absent and value.applies for value in values.values()):
        rows.put(arm, trial, name, instead)
    else:
        whole(rows, name, arm, trial, values)


def _lock_stat(rows: MetricRows, told: Told) -> None:
    """Contentions of the module's locks: LOCK_STAT's, and how many more they are than the trace's."""
    statistics = told.tables["lock_stat"]
    of_module = statistics[statistics["class"].str.contains(MODULE_LOCKS, regex=False)]
    for (arm, trial, workload), frame in of_module.groupby(KEY):
        run = (str(arm), int(str(trial)), str(workload))
        traced = told.of("contention", run)
        contended = traced.loc[traced["class"].str.startswith(MODULE_LOCKS), "contended"].sum()
        reason = None if len(traced) else told.problem(run, "contention") or "no trace ran beside"
        contentions = float(frame["contentions"].sum())
        rows.put(run[0], run[1], f"lock_stat_contentions.{workload}", contentions)
        difference = np.nan if reason else contentions - float(contended)
        rows.put(run[0], run[1], f"lock_stat_difference.{workload}", difference, reason=reason)
