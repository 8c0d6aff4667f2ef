# SPDX-License-Identifier: MIT
"""The metrics, from the tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pandas as pd

from harness.measure.rows import Cut, MetricRows, problem_of

from .declared import METRICS
from .effects import NESTED
from .fit import PROVIDERS
from .fitted import unit_of
from .hand import OUTSIDE, RUNS
from .runs import ORACLE
from .validation import UNFITTED

#: As the field orders them, the cheapest first.
ORDER = ("tracepoint", "kprobe-ftrace", "kprobe-optimised", "kprobe-int3", "uprobe")
#: A period of sampling costs what the shortest does, within this share.
_SATURATED = 1e-3


class _Trial:
    """The metrics of one trial; an absent one has the reason of its decoding, else that of the run that it needs."""

    def __init__(self, rows: MetricRows, by_trial: Cut, arm: str, trial: int, clock: str) -> None:
        self._rows, self._by_trial, self.arm, self.trial, self._unit = rows, by_trial, arm, trial, unit_of(clock)
        problems = self.rows("problems")
        # Without an oracle only what it counts is absent, and says so.
        self._damage = problem_of(problems[problems["part"] != ORACLE], arm, trial)
        self.unread = bool((problems["part"] == "runs").any())
        self.runs: dict[str, dict[Any, Any]] = {str(row["run"]): row for row in self.records("runs")}
        self.stages: dict[tuple[str, str], float] = {
            (row["provider"], row["stage"]): row["value"] for row in self.records("stages") if not row["point"]
        }

    @property
    def only_drawn(self) -> bool:
        """Whether it traced what another one has predicted, and fitted nothing."""
        return bool(self.runs) and not self.stages and set(self.rows("validation")["source"]) == {"blind"}

    def rows(self, table: str) -> pd.DataFrame:
        return self._by_trial.of(table, self.arm, self.trial)

    def records(self, table: str) -> list[dict[Any, Any]]:
        return self.rows(table).to_dict("records")

    def put(self, metric: str, value: float, why: str = "a run that it needs is missing") -> None:
        unit = self._unit if metric.partition(".")[0] in ("cost", "firing") else None
        self._rows.put(self.arm, self.trial, metric, value, unit=unit, reason=self._damage or why)

    def of(self, run: str) -> float:
        """Cost of a round; NaN without the run."""
        return float(self.runs[run]["per_round"]) if run in self.runs else math.nan

    def why(self, *runs: str) -> str:
        """What is the matter with the first of these runs that has no cost."""
        for run in runs:
            if run not in self.runs:
                return f"there is no run {run}"
            if self.runs[run]["problem"]:
                return f"run {run}: {self.runs[run]['problem']}"
        return "a run that it needs is missing"


def metrics_of(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Long form, of every trial."""
    rows, by_trial = MetricRows(METRICS, tables["problems"]), Cut(tables, "arm", "trial")
    for row in tables["trials"].to_dict("records"):
        trial = _Trial(rows, by_trial, row["arm"], row["trial"], row["clock"])
        _stage_metrics(trial)
        if not trial.only_drawn and (not trial.runs or not all(name.startswith(RUNS) for name in trial.runs)):
            _structure_metrics(trial)
        _validation_metrics(trial)
        _blind_metrics(trial, tables["validation"])
        _advice_metrics(trial)
        _loss_metrics(trial)
        _saturation_metrics(trial)
        _hand_metrics(trial)
    return rows.frame()


def _stage_metrics(trial: _Trial) -> None:
    for row in trial.records("stages"):
        point = f"@{row['point'].replace('/', '.')}" if row["point"] else ""
        trial.put(f"cost.{row['provider']}.{row['stage']}{point}", row["value"])
    for row in trial.records("traps"):
        trial.put(f"exception.{row['provider']}", row["exception"])


def _structure_metrics(trial: _Trial) -> None:
    """What the paper says of the shape of costs, as numbers."""
    linear, loop_apart, actions, false, cold = [], [], [], [], []
    others: dict[str, float] = {}
    firing: dict[str, float] = {}
    for provider in PROVIDERS:
        first = trial.runs.get(f"{provider}.one")
        if first is None or provider == "sample":
            continue
        one, bare = trial.of(f"{provider}.one"), trial.of(f"bare.{first['work']}")
        if math.isnan(one - bare):
            continue
        firing[provider] = one - bare
        trial.put(f"firing.{provider}", one - bare)
        if (provider, "trap") in trial.stages:
            trial.put(f"trap_share.{provider}", trial.stages[provider, "trap"] / (one - bare))
        steps = _unequal_consumers(trial, provider)
        linear += steps
        loop_apart += steps[1:] if (provider, "iteration") in trial.stages else steps
        actions += [
            abs((trial.of(f"{provider}.{name}") - one) / trial.stages[provider, name] - 1)
            for name in ("register", "memory", "comm")
            if (provider, name) in trial.stages
        ]
        delivery, consumer = (trial.stages.get((provider, stage), math.nan) for stage in ("delivery", "consumer"))
        false.append((trial.of(f"{provider}.false") - bare - delivery) / consumer)
        others[provider] = (trial.of(f"{provider}.others") - one) / (one - bare)
        cold.append(abs(first["cold"]) / firing[provider])
    nothing = "no provider was measured" if not firing else "a run that it needs is missing"
    trial.put("cold", _worst(cold), nothing)
    trial.put("nonlinear_consumers", _worst(linear), nothing)
    trial.put("nonlinear_consumers_loop_apart", _worst(loop_apart), nothing)
    trial.put("nonlinear_actions", _worst(actions), nothing)
    trial.put("false_over_true", _worst(false), nothing)
    trial.put("others_kernel", _worst([share for name, share in others.items() if name[0] != "u"]), nothing)
    trial.put("others_user", _worst([share for name, share in others.items() if name[0] == "u"]), nothing)
    stepped = firing.get("uprobe-step", math.nan) / firing.get("uprobe", math.nan)
    trial.put("stepped_over_emulated", stepped, trial.why("uprobe-step.one", "uprobe.one"))
    for cheap, dear in pairwise(ORDER):
        ratio = firing.get(dear, math.nan) / firing.get(cheap, math.nan)
        trial.put(f"order.{dear}_over_{cheap}", ratio, trial.why(f"{dear}.one", f"{cheap}.one"))


def _unequal_consumers(trial: _Trial, provider: str) -> list[float]:
    """How far what a further consumer costs, from one to two and from four to eight, differs from two to four."""
    one, two, four, eight = (trial.of(f"{provider}.{number}") for number in ("one", "two", "four", "eight"))
    consumer = (four - two) / 2
    return [abs(step / consumer - 1) for step in (two - one, (eight - four) / 4)]


def _worst(values: list[float]) -> float:
    """The largest; NaN when one is, or there is none."""
    return math.nan if not values or any(math.isnan(value) for value in values) else max(values)


def _validation_metrics(trial: _Trial) -> None:
    checks = trial.rows("validation")
    checks = checks[checks["source"] == "held-out"]
    if checks.empty:
        return
    for row in checks.to_dict("records"):
        trial.put(f"error.{row['script']}", row["error_added"], str(row["problem"]))
        trial.put(f"slowdown.{row['script']}", row["slowdown"], str(row["problem"]))
    good = checks[checks["problem"].isna()]
    why = "no held-out script was predicted"
    trial.put("held_out_scripts", len(good) or math.nan, why)
    for metric, part, whole in (
        ("held_out_missed", "misses", "missable"),
        ("held_out_lacking", "events_lacking", "events"),
    ):
        total = float(good[whole].sum())
        trial.put(metric, float(good[part].sum()) / total if total else math.nan, why)
    for name, errors in (
        ("added", good["error_added"].abs()),
        ("slowdown", good["error_slowdown"].abs()),
    ):
        trial.put(f"error_{name}_median", float(errors.median()), why)
        trial.put(f"error_{name}_worst", float(errors.max()), why)


def _blind_metrics(trial: _Trial, checks: pd.DataFrame) -> None:
    """Over all trials of the arm, each of which has drawn its own scripts: a worst of some hides the worst of all."""
    drawn = checks[(checks["arm"] == trial.arm) & (checks["source"] == "blind")]
    if drawn.empty or not (drawn["trial"] == trial.trial).any():
        return
    failed = drawn["error_added"].isna()
    errors = drawn.loc[~failed, "error_added"].abs()
    inside = drawn["measured"].between(drawn["low"], drawn["high"]) & ~failed
    why = "no script that was drawn could be predicted"
    if (drawn["problem"] == UNFITTED).any():  # that is no failure of theirs
        for name in ("error_blind_median", "error_blind_worst", "blind_scripts", "blind_failed", "blind_inside"):
            trial.put(name, math.nan, UNFITTED)
        return
    trial.put("error_blind_median", float(errors.median()), why)
    trial.put("error_blind_worst", float(errors.max()), why)
    trial.put("blind_scripts", len(drawn))
    trial.put("blind_failed", float(failed.mean()))
    held = checks[(checks["source"] == "held-out") & checks["error_added"].notna()]
    bare = set(drawn["trial"]) - set(held.loc[held["arm"] == trial.arm, "trial"]) if trial.stages else set()
    # Their intervals are widened by the errors of held-out scripts, if there are any; those of another boot always.
    trial.put("blind_inside", math.nan if bare else float(inside.mean()), "no script was held out")


def _advice_metrics(trial: _Trial) -> None:
    checks = trial.rows("validation")
    rows = {row["script"]: row for row in checks[checks["source"] == "advice"].to_dict("records")}
    names = sorted({name.rpartition(".")[0] for name in rows})
    if not names:
        return
    if all(row["problem"] == UNFITTED for row in rows.values()):
        trial.put("advice_right", math.nan, UNFITTED)
        trial.put("advice_error", math.nan, UNFITTED)
        return
    right, errors = [], []
    for name in names:
        before, after = (rows.get(f"{name}.{when}", {}) for when in ("before", "after"))
        measured, predicted = (
            _of_base(after, column) / _of_base(before, column) for column in ("measured", "predicted")
        )
        right.append((measured < 1) == (predicted < 1) and not math.isnan(measured + predicted))
        errors.append(abs(predicted - measured))
    trial.put("advice_right", sum(right) / len(right))
    trial.put("advice_error", _worst(errors))


def _of_base(row: Mapping[Any, Any], column: str) -> float:
    """What a script adds, over its workload alone: one that is read has more rounds of that."""
    return float(row.get(column, math.nan) / row.get("base", math.nan))


def _loss_metrics(trial: _Trial) -> None:
    losses = {row["effect"]: row for row in trial.records("losses")}
    if not losses:
        return

    def share(metric: str, effect: str, *columns: str) -> None:
        row = losses.get(effect, {})
        part = math.fsum(row.get(column, math.nan) for column in columns)
        executed = row.get("executed", math.nan)
        why = "no oracle counted how often the place was executed" if row else "the run did not succeed"
        trial.put(metric, part / executed if executed else math.nan, why)

    for name in NESTED:
        share(f"nested_missed.{name}", f"nested-{name}", "misses")
    for name in ("enough", "short"):
        share(f"maxactive_{name}_missed", f"maxactive-{name}", "misses")
    for depth in (64, 100):
        share(f"depth_{depth}_recorded", f"depth-{depth}", "recorded")
        share(f"depth_{depth}_reported", f"depth-{depth}", "hits")
    share("overrun_accounted", "overrun-some", "recorded", "lost")
    share("overrun_lost", "overrun-some", "lost")
    share("table_lost", "full-table", "lost")


def _saturation_metrics(trial: _Trial) -> None:
    feedback = trial.runs.get("feedback.refresh")
    if feedback is not None:
        pages = feedback["pages"] / feedback["wakes"] if feedback["wakes"] else math.nan
        trial.put("feedback_pages", pages, trial.why("feedback.refresh"))
    rates = trial.rows("rates")
    if not rates.empty:
        costs = (rates["traced"] - rates["base"]).groupby(rates["provider"])
        trial.put("rate_spread", float((costs.max() / costs.min() - 1).max()))
    periods = trial.rows("periods")
    if not periods.empty:
        slowdown = (periods["traced"] / periods["base"]).to_numpy()
        shortest = slowdown[periods["period"].to_numpy().argmin()]
        same = abs(slowdown / shortest - 1) < _SATURATED
        trial.put("sampling_floor", float(periods["period"].to_numpy()[same].max()))
        trial.put("sampling_slowdown_worst", float(slowdown.max()))


def _hand_metrics(trial: _Trial) -> None:
    rows = trial.rows("by_hand")
    if rows.empty:
        return
    right, outside = rows["told"] == rows["by_hand"], rows["run"] == OUTSIDE
    difference = (rows["told"] - rows["second"]).abs().sum()
    values = {"hand_right": (right & ~outside).sum(), "second_difference": difference}
    if outside.any():
        values["hand_right_outside"] = (right & outside).sum()
    for metric, value in values.items():
        # Of a workload that could not be read nothing is counted, which makes no count wrong.
        trial.put(metric, math.nan if trial.unread else float(value))
