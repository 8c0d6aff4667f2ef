# SPDX-License-Identifier: MIT
"""Metrics of lock-trace's tables.

A metric of one workload is called NAME.WORKLOAD, of a filter NAME.FILTER.WORKLOAD. One without a workload is of the
whole trial; it is absent when one of its workloads could not be decoded, for a sum over the others is another figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from harness.measure.rows import Cut, MetricRows, problem_of
from harness.measure.trials import LEFT_OUT

from .decoding import PAIR_KINDS, READINGS
from .families import METRICS
from .run import CONTENTION, KPROBES

Tables = Mapping[str, pd.DataFrame]
KEY = ["arm", "trial", "workload"]
Key = tuple[str, int, str]
#: The workload whose rings nobody reads: what it loses, it loses on purpose.
BUFFER = "buffer"
#: What programs do; the other workloads are made.
PROGRAMS = ("files-one", "files-own", "pipes", "sockets", "forks")
FILTERING = ("paper", "per-lock", "validate")
#: What the kprobes are on; of a plain spin lock the release has no function.
PROBED = ("spin", "spin_irqsave")
#: How the names of the module's own locks begin.
MODULE_LOCKS = "known_"


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
        runs = tables["runs"].join(trials[["kernel", "clock"]], on=["arm", "trial"])
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
        """Runs of each trial that were traced: by our patch, or by KPROBES or CONTENTION."""
        grouped: dict[tuple[str, int], list[Key]] = {}
        for run, row in self.runs.items():
            if row["trace"] != "off" and by == (row["trace"] if row["trace"] in (KPROBES, CONTENTION) else ""):
                grouped.setdefault((run[0], run[1]), []).append(run)
        return grouped

    def of(self, table: str, run: Key) -> pd.DataFrame:
        """The run's rows of a table."""
        return self._by_run.of(table, *run)


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
            _filters(rows, told, arm, trial, runs)
            _gaps(rows, told, runs)
    for (arm, trial), runs in told.trials(KPROBES).items():
        _slower(rows, told, arm, trial, runs)
        missed = {}
        for run in runs:
            probes, problem = told.of("probes", run), told.problem(run, "probes")
            missed[run] = Value(float(probes["missed"].sum())) if len(probes) else Value(np.nan, problem)
        _each(rows, "missed", missed)
        _whole(rows, "missed", arm, trial, missed)
    for (arm, trial), runs in told.trials(CONTENTION).items():
        for name, column in (("told_difference", "difference"), ("told_waits", "told")):
            values = {}
            for run in runs:
                waits, problem = told.of("told_waits", run), told.problem(run, "told_waits")
                nothing = Value(np.nan, problem or "the module counted nothing", applies=problem is not None)
                values[run] = Value(float(waits[column].sum())) if len(waits) else nothing
            _each(rows, name, values)
            _whole(rows, name, arm, trial, values)
    _pairs(rows, told)
    _lock_stat(rows, told)
    return rows.frame()


def _text(cell: object) -> str | None:
    """A cell of text; None where it is null."""
    return cell if isinstance(cell, str) else None


def _each(rows: MetricRows, name: str, values: Mapping[Key, Value]) -> None:
    for (arm, trial, workload), value in values.items():
        rows.put(arm, trial, f"{name}.{workload}", value.value, reason=value.reason)


def _whole(rows: MetricRows, name: str, arm: str, trial: int, values: Mapping[Key, Value], how: str = "sum") -> None:
    """The figure of a trial; nothing where no run of it has one, nor should."""
    chosen = {run: value for run, value in values.items() if value.applies}
    reasons = [f"{run[2]}: {value.reason}" for run, value in chosen.items() if value.absent]
    if chosen:
        figures = [value.value for value in chosen.values()]
        value = np.nan if reasons else float(np.sum(figures) if how == "sum" else np.median(figures))
        rows.put(arm, trial, name, value, reason=reasons[0] if reasons else None)


# -- counts and shares -----------------------------------------------------------------------------------------------


def _sums(rows: MetricRows, told: Told, arm: str, trial: int, runs: Sequence[Key]) -> None:
    sums = {run: told.of("sums", run) for run in runs}
    for name, balance in (("unbalanced", True), ("wrong_sums", False)):
        values = {}
        for run, checks in sums.items():
            off = float(checks.loc[checks["balance"] == balance, "difference"].abs().sum())
            values[run] = Value(off) if len(checks) else Value(np.nan, told.problem(run, "sums"))
        _each(rows, name, values)
        _whole(rows, name, arm, trial, values)
    for name in ("nested", "untracked", "lost"):
        values = {run: _traced(told, run, name) for run in runs}
        _each(rows, name, values)
        _whole(rows, name, arm, trial, {r: v for r, v in values.items() if name != "lost" or r[2] != BUFFER})


def _traced(told: Told, run: Key, name: str) -> Value:
    """What the kernel counted."""
    row = told.traces.get(run)
    return Value(float(row[name])) if row is not None else Value(np.nan, told.problem(run, "traces"))


def _slower(rows: MetricRows, told: Told, arm: str, trial: int, runs: Sequence[Key]) -> None:
    slower = {run: _slowdown(told, run) for run in runs}
    _each(rows, "slowdown", slower)
    _whole(rows, "slowdown", arm, trial, slower, "median")


def _shares(rows: MetricRows, told: Told, arm: str, trial: int, runs: Sequence[Key]) -> None:
    _slower(rows, told, arm, trial, runs)
    if told.runs[runs[0]]["trace"] not in FILTERING:
        return
    useful = {}
    for run in runs:
        share = _traced(told, run, "useful")
        useful[run] = Value(np.nan, "no event", applies=False) if share.absent and not share.reason else share
    _each(rows, "useful", useful)
    _whole(rows, "useful", arm, trial, useful, "median")
    programs = [run for run in runs if run[2] in PROGRAMS]
    if programs:
        kept, events = ([_traced(told, run, name) for run in programs] for name in ("kept", "events"))
        reason = next((value.reason for value in kept if value.absent), None)
        total = sum(value.value for value in events)
        value = np.nan if reason or not total else sum(value.value for value in kept) / total
        rows.put(arm, trial, "useful_programs", value, reason=reason or "no event")


def _slowdown(told: Told, run: Key) -> Value:
    bare = told.base(run, "off")
    if bare is None:
        return Value(np.nan, "the workload did not run untraced on this kernel and clock", applies=False)
    return _ratio(_seconds(told, run), told.beside(bare, _seconds(told, bare)))


def _seconds(told: Told, run: Key) -> Value:
    seconds = told.runs[run]["seconds"]
    return Value(seconds, told.problem(run, "answer") if np.isnan(seconds) else None)


def _ratio(over: Value, under: Value) -> Value:
    if over.absent or under.absent:
        return Value(np.nan, over.reason or under.reason, applies=over.applies and under.applies)
    return Value(over.value / under.value) if under.value else Value(np.nan, "divided by 0")


# -- rings that nobody reads -------------------------------------------------------------------------------------


def _buffer(rows: MetricRows, told: Told, runs: Sequence[Key]) -> None:
    for run in (run for run in runs if run[2] == BUFFER):
        for name, lasts in (("full_s", _full), ("first_loss_s", _first_loss)):
            value = lasts(told, run)
            _each(rows, name, {run: value})
            plain = told.base(run, "all")
            if plain is None:
                ratio = Value(np.nan, "no arm without a filter ran beside")
            else:
                ratio = _ratio(value, told.beside(plain, lasts(told, plain)))
            _each(rows, {"full_s": "buffer_ratio"}.get(name, "first_loss_ratio"), {run: ratio})


def _full(told: Told, run: Key) -> Value:
    """At the rate at which the load fills them: the time of the first loss has in it what came before the load, when
    its threads are made and few locks are taken.
    """
    row, seconds = told.traces.get(run), _seconds(told, run)
    if row is None:
        return Value(np.nan, told.problem(run, "traces"))
    if np.isnan(row["first_loss_s"]):
        return Value(np.nan, "no ring was full")
    return Value(row["ring_events"] * seconds.value / row["kept"], seconds.reason)


def _first_loss(told: Told, run: Key) -> Value:
    value = _traced(told, run, "first_loss_s")
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
            ratio = Value(np.nan, f"no pair was timed by an arm with trace {trace} on this kernel and clock")
            if reason is not None:
                ratio = Value(np.nan, reason)
            elif base is not None:
                ratio = _ratio(cost(run, column), told.beside(base, cost(base, column)))
            rows.put(run[0], run[1], f"{family}_of_{trace}.{kind}", ratio.value, reason=ratio.reason)


# -- against what is known without the trace --------------------------------------------------------------------------


def _compared(rows: MetricRows, told: Told, arm: str, trial: int, runs: Sequence[Key]) -> None:
    """The module's counts and the oracle's. What says why it cannot be told takes no part in the trial's sum."""
    for table, quantity, counts in (("known", "known_difference", None), ("oracle", "oracle_difference", "calls")):
        differences, calls, counted = {}, {}, 0
        for run in runs:
            frame, problem = told.of(table, run), told.problem(run, table)
            if frame.empty and problem is None:
                continue
            reasons = frame["reason"].dropna()
            reason = problem or (str(reasons.iloc[0]) if len(reasons) else None)
            if reason is None:
                counted += len(frame)
                differences[run] = Value(float(frame["difference"].sum()))
                calls[run] = Value(float(frame[counts].sum())) if counts else Value(0)
            else:
                differences[run] = calls[run] = Value(np.nan, reason, applies=problem is not None)
        _each(rows, quantity, differences)
        _total(rows, quantity, arm, trial, differences)
        if counts:
            _each(rows, "oracle_calls", calls)
            _total(rows, "oracle_calls", arm, trial, calls)
        elif counted:
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
        _whole(rows, name, arm, trial, values)


def _filters(rows: MetricRows, told: Told, arm: str, trial: int, runs: Sequence[Key]) -> None:
    for which in ("per-lock", "paper"):
        told_by = {}
        for run in runs:
            frame = told.of("filters", run)
            told_by[run] = frame[frame["filter"] == which]
        for name in ("missing", "extra", "different", "selected", "dropped_waits", "idle"):
            values = {run: _of_filter(told, run, frame, name) for run, frame in told_by.items()}
            _each(rows, f"{name}.{which}", values)
            _whole(rows, f"{name}.{which}", arm, trial, values)
        sums = {
            name: [_of_filter(told, run, frame, name) for run, frame in told_by.items()]
            for name in ("idle", "acquisitions")
        }
        reason = next((value.reason for values in sums.values() for value in values if value.absent), None)
        idle, kept = (sum(value.value for value in sums[name]) for name in ("idle", "acquisitions"))
        share = np.nan if reason or not kept else idle / kept
        rows.put(arm, trial, f"idle_share.{which}", share, reason=reason or "no acquisition was kept")
    values = {}
    for run in runs:
        frame, problem = told.of("site_sums", run), told.problem(run, "site_sums")
        if frame.empty:
            values[run] = Value(np.nan, problem)
        else:
            reason = _text(frame["reason"].iloc[0])
            values[run] = Value(float(frame["different"].iloc[0]), reason, applies=reason is None)
    _each(rows, "sites_different", values)
    _whole(rows, "sites_different", arm, trial, values)


def _of_filter(told: Told, run: Key, frame: pd.DataFrame, name: str) -> Value:
    """What a table says of one filter in one run."""
    if frame.empty:
        return Value(np.nan, told.problem(run, "filters"))
    return Value(float(frame[name].iloc[0]), _text(frame["reason"].iloc[0]))


def _gaps(rows: MetricRows, told: Told, runs: Sequence[Key]) -> None:
    for run in runs:
        frame, problem = told.of("gaps", run), told.problem(run, "gaps")
        for which in ("per-lock", "paper"):
            share = frame[(frame["filter"] == which) & (frame["events"] > 0)]
            if len(share):
                value = Value(float(share["kept"].iloc[0]) / float(share["events"].iloc[0]))
            elif problem is not None:
                value = Value(np.nan, problem)
            else:
                continue
            _each(rows, f"gap_kept.{which}", {run: value})
            if value.absent or share["after"].iloc[0]:
                dropped = Value(np.nan, value.reason) if value.absent else Value(float(share["after_dropped"].iloc[0]))
                _each(rows, f"gap_dropped.{which}", {run: dropped})


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
