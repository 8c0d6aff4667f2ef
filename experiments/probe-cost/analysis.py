"""Raw output of probecost into runs, stages, a model, and its predictions of scripts that were held out."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from harness.errors import RunError, UsageError
from harness.measure.symbols import read_system_map
from harness.oracle.reader import LAP, Oracle, OracleAbsent

from .effects import effect_metrics, effect_rows
from .figures import draw
from .fit import PROVIDERS, Runs, accuracy, fit_model, per_round, stages_of
from .model.cost import CostModel
from .model.prediction import predict as by_model
from .predict import predict
from .report import summaries
from .scripts import counts, script, words

__all__ = ["documents", "figures", "metrics", "predict", "summary", "tables"]
_RUN = ("arm", "trial", "workload", "run", "work", "per_round", "cold", "rounds", "problem")


def tables(trials: Sequence[Any]) -> dict[str, pd.DataFrame]:
    """runs, stages (one row per arm, trial, provider and stage), validation (per script), effects, points."""
    runs, stage_rows, checks, effects, about = [], [], [], [], []
    for trial in trials:
        mine = _read(trial)
        laps = _laps(trial)
        for run in mine:
            runs.append(_run_row(trial, run))
        named = {run["run"]: run for run in mine}
        fitted = Runs(named, laps)
        stage_rows += [
            {"arm": trial.arm, "trial": trial.repetition, "provider": provider, "stage": stage, "value": value}
            for provider, stage, value in stages_of(fitted)
        ]
        checks += [(trial, run) for run in mine if "plain" in run and not run["problem"]]
        effects += effect_rows(trial, named, laps)
        about.append(
            {
                "arm": trial.arm,
                "trial": trial.repetition,
                "kernel": trial.kernel,
                "fidelity": trial.fidelity,
                "unit": "instructions" if trial.params.get("unit") == "ticks" else "ns",
            }
        )
    found = {
        "runs": pd.DataFrame(runs, columns=[*_RUN]),
        "stages": pd.DataFrame(stage_rows, columns=["arm", "trial", "provider", "stage", "value"]),
        "effects": pd.DataFrame(effects, columns=["arm", "trial", "effect", "what", "value"]),
        "trials": pd.DataFrame(about),
    }
    models = _models(found)
    found["validation"] = pd.DataFrame(
        [_check(trial, run, models[trial.arm]) for trial, run in checks if trial.arm in models],
        columns=[
            *("arm", "trial", "script", "base", "measured", "predicted", "low", "high", "firings", "misses"),
            *("slowdown", "predicted_slowdown", "error_added", "error_slowdown", "problem"),
        ],
    )
    found["workloads"] = pd.DataFrame(
        [
            {
                "arm": trial.arm,
                "trial": trial.repetition,
                "script": run["run"],
                "counts": counts(run).model_dump_json(),
            }
            for trial, run in checks
        ],
        columns=["arm", "trial", "script", "counts"],
    )
    return found


def _read(trial: Any) -> list[dict[str, Any]]:
    """The trial's runs in order, each with its workload and with laps counted over the whole trial."""
    runs: list[dict[str, Any]] = []
    offset = 0
    for workload in trial.workloads:
        path = trial.path / workload / "stdout"
        try:
            mine = [json.loads(line) for line in path.read_text().splitlines()]
        except (OSError, ValueError) as error:
            raise RunError(f"is not what probecost prints: {error}", where=str(path)) from error
        for run in mine:
            run["workload"] = workload
            if run["lap"] >= 0:
                run["lap"] += offset
        offset += sum(run["lap"] >= 0 for run in mine)
        runs += mine
    return runs


def _laps(trial: Any) -> pd.DataFrame | None:
    try:
        oracle = Oracle(trial.path)
        laps = oracle.functions(read_system_map(trial.system_map), kind=LAP)
    except OracleAbsent:
        return None
    return laps.rename(columns={"region": "lap"})


def _run_row(trial: Any, run: Mapping[str, Any]) -> dict[str, Any]:
    good = not run["problem"]
    middle = per_round(run) if good else math.nan
    return {
        "arm": trial.arm,
        "trial": trial.repetition,
        "workload": run["workload"],
        "run": run["run"],
        "work": words(run["script"].split("\n")[0])["work"],
        "per_round": middle,
        "cold": run["took"][0] / run["rounds"] - middle if good else math.nan,
        "rounds": run["rounds"],
        "problem": run["problem"] or None,
    }


def _models(found: Mapping[str, pd.DataFrame]) -> dict[str, CostModel]:
    """The model of each arm whose trials fitted anything, without its accuracy."""
    models = {}
    for arm, mine in found["stages"].groupby("arm", sort=False):
        first = found["trials"][found["trials"]["arm"] == arm].iloc[0]
        about = {
            "experiment": "probe-cost",
            "arm": arm,
            "kernel": first["kernel"],
            "fidelity": first["fidelity"],
            "unit": first["unit"],
            "trials": int(mine["trial"].nunique()),
        }
        model = fit_model(mine, about)
        if model.providers:
            models[str(arm)] = model
    return models


def _check(trial: Any, run: Mapping[str, Any], model: CostModel) -> dict[str, Any]:
    """Predicted against measured, per batch."""
    held_out = script(run)
    row: dict[str, Any] = {"arm": trial.arm, "trial": trial.repetition, "script": run["run"]}
    base = counts(run).cost
    measured = per_round(run) * run["rounds"] - base
    row |= {"base": base, "measured": measured, "slowdown": 1 + measured / base}
    row["misses"] = float(sum(max(probe["misses"], 0) for probe in run["probes"])) / len(run["took"])
    try:
        prediction = by_model(model, held_out)
    except UsageError as error:  # a run of the fit failed, and a stage is missing: no reason to lose the others
        return row | {"problem": str(error)}
    return row | {
        "predicted": prediction.added,
        "low": prediction.low,
        "high": prediction.high,
        "firings": prediction.firings,
        "predicted_slowdown": prediction.slowdown,
        "error_added": prediction.added / measured - 1,
        "error_slowdown": prediction.slowdown / row["slowdown"] - 1,
    }


def documents(tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """model: that of the virtual clock (or of the only arm there is); model-ARM: of the others."""
    made = {}
    for arm, model in _models(tables).items():
        checks = tables["validation"][tables["validation"]["arm"] == arm]
        counted = tables["workloads"][tables["workloads"]["arm"] == arm].drop_duplicates("script")
        workloads = {row["script"]: json.loads(row["counts"]) for _, row in counted.sort_values("script").iterrows()}
        full = CostModel.model_validate({**model.model_dump(), "workloads": workloads, "accuracy": accuracy(checks)})
        made["model" if model.fidelity == "virtual" else f"model-{arm}"] = full.model_dump(mode="json")
    return made


# -- metrics ----------------------------------------------------------------------------------------------


class _Metrics:
    def __init__(self) -> None:
        self.rows: list[tuple[str, int, str, float, str, str | None]] = []

    def add(
        self, key: tuple[str, int], name: str, value: float, unit: str, why: str = "a run that it needs failed"
    ) -> None:
        self.rows.append((*key, name, value, unit, None if math.isfinite(value) else why))


def metrics(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Long form: arm, trial, metric, value, unit, reason (only where the value is absent)."""
    out = _Metrics()
    units = dict(zip(tables["trials"]["arm"], tables["trials"]["unit"], strict=True))
    for (arm, trial), stages in tables["stages"].groupby(["arm", "trial"], sort=False):
        key = (str(arm), int(trial))
        _stage_metrics(out, key, stages, units[str(arm)])
        _structure_metrics(out, key, tables["runs"], stages)
    for (arm, trial), checks in tables["validation"].groupby(["arm", "trial"], sort=False):
        _validation_metrics(out, (str(arm), int(trial)), checks)
    for (arm, trial), effects in tables["effects"].groupby(["arm", "trial"], sort=False):
        for name, value, unit, why in effect_metrics(effects):
            out.add((str(arm), int(trial)), name, value, unit, why)
    return pd.DataFrame(out.rows, columns=["arm", "trial", "metric", "value", "unit", "reason"])


def _stage_metrics(out: _Metrics, key: tuple[str, int], stages: pd.DataFrame, unit: str) -> None:
    for row in stages.itertuples():
        out.add(key, f"cost.{row.provider}.{row.stage.replace('/', '.')}", float(row.value), unit)


def _structure_metrics(out: _Metrics, key: tuple[str, int], runs: pd.DataFrame, stages: pd.DataFrame) -> None:
    """What the paper says of the shape of costs, as numbers."""
    mine = runs[(runs["arm"] == key[0]) & (runs["trial"] == key[1])].set_index("run")
    cost = mine["per_round"].to_dict()
    work = mine["work"].to_dict()
    stage = stages.set_index(["provider", "stage"])["value"].to_dict()
    linear, actions, false, others = [], [], [], {}
    firing = {}
    for provider in PROVIDERS:
        one, bare = cost.get(f"{provider}.one", math.nan), cost.get(f"bare.{work.get(f'{provider}.one')}", math.nan)
        if provider == "sample" or math.isnan(one - bare):
            continue
        firing[provider] = one - bare
        out.add(key, f"firing.{provider}", one - bare, "per firing")
        consumer = (cost[f"{provider}.four"] - cost[f"{provider}.two"]) / 2
        linear.append(abs((cost[f"{provider}.eight"] - cost[f"{provider}.four"]) / 4 / consumer - 1))
        if (provider, "iteration") not in stage:
            linear.append(abs((cost[f"{provider}.two"] - one) / consumer - 1))
        actions += [
            abs((cost[f"{provider}.{name}"] - one) / stage[provider, name] - 1)
            for name in ("register", "memory", "comm")
            if (provider, name) in stage
        ]
        delivery = stage[provider, "dispatch"] + stage.get((provider, "trap"), 0.0)
        false.append((cost[f"{provider}.false"] - bare - delivery) / stage[provider, "consumer"])
        others[provider] = (cost[f"{provider}.others"] - one) / (one - bare)
        if (provider, "trap") in stage:
            out.add(key, f"trap_share.{provider}", stage[provider, "trap"] / (one - bare), "of a firing")
    nothing = "no provider was measured"
    cold = [abs(mine["cold"][f"{name}.one"]) / firing[name] for name in firing]
    out.add(key, "cold", max(cold, default=math.nan), "of a firing", nothing)
    out.add(key, "nonlinear_consumers", max(linear, default=math.nan), "ratio", nothing)
    out.add(key, "nonlinear_actions", max(actions, default=math.nan), "ratio", nothing)
    out.add(key, "false_over_true", max(false, default=math.nan), "ratio", nothing)
    kernel = [share for provider, share in others.items() if provider[0] != "u"]
    user = [share for provider, share in others.items() if provider[0] == "u"]
    out.add(key, "others_kernel", max(kernel, default=math.nan), "of a firing", nothing)
    out.add(key, "others_user", max(user, default=math.nan), "of a firing", nothing)
    stepped = firing.get("uprobe-step", math.nan) / firing.get("uprobe", math.nan)
    out.add(key, "stepped_over_emulated", stepped, "ratio", "one of the two was not measured")
    order = ("tracepoint", "kprobe-ftrace", "kprobe-optimised", "kprobe-int3", "uprobe")
    for less, more in pairwise(order):
        ratio = firing.get(more, math.nan) / firing.get(less, math.nan)
        out.add(key, f"order.{more}_over_{less}", ratio, "ratio", "one of the two was not measured")


def _validation_metrics(out: _Metrics, key: tuple[str, int], checks: pd.DataFrame) -> None:
    for row in checks.itertuples():
        error, why = float(row.error_added), str(row.problem)
        out.add(key, f"error.{row.script}", error, "predicted/measured - 1, added cost", why)
        out.add(key, f"slowdown.{row.script}", float(row.slowdown), "ratio")
    checks = checks[checks["problem"].isna()]
    added, slowdown = checks["error_added"].abs(), checks["error_slowdown"].abs()
    missed = checks["misses"].sum() / checks["firings"].sum()
    out.add(key, "held_out_missed", float(missed), "missed/fired")
    out.add(key, "held_out_scripts", float(len(checks)), "scripts")
    out.add(key, "error_added_median", float(added.median()), "ratio")
    out.add(key, "error_added_worst", float(added.max()), "ratio")
    out.add(key, "error_slowdown_median", float(slowdown.median()), "ratio")
    out.add(key, "error_slowdown_worst", float(slowdown.max()), "ratio")


def summary(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Tables for people."""
    return summaries(tables)


def figures(tables: dict[str, pd.DataFrame]) -> dict[str, Figure]:
    """One Figure per name; they are drawn in figures.py."""
    return draw(tables)
