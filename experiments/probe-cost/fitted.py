# SPDX-License-Identifier: MIT
"""From stages to the cost model: medians over an arm's trials as a table, and the typed model made of that table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.measure.statistics import median_estimate

from .fit import PROVIDERS
from .model.cost import CALLS, Accuracy, Cost, CostModel, Counts, Provider

#: In which arm the scripts are traced that an arm predicts.
TRACED_IN = {"virtual": "blind"}


def costs_of(stages: pd.DataFrame) -> pd.DataFrame:
    """The table `costs` of these rows of `stages`: median over the trials of each arm, with its interval."""
    keys = ["arm", "provider", "stage", "point"]
    rows = []
    for key, values in stages.groupby(keys, sort=False)["value"]:
        estimate = median_estimate(values.to_numpy())
        known = estimate.interval_known
        low, high = (estimate.low, estimate.high) if known else (values.min(), values.max())
        rows.append((*key, estimate.value, low, high, len(values)))
    return pd.DataFrame(rows, columns=[*keys, "value", "low", "high", "trials"])


def model_of(costs: pd.DataFrame, **fields: Any) -> CostModel:
    """The model whose stages are these rows of `costs`, of one arm; `fields` are its others."""
    providers: dict[str, Provider] = {}
    for name in PROVIDERS:
        rows = costs[costs["provider"] == name]
        plain = _stages(rows[rows["point"] == ""], "stage")
        points = _stages(rows[rows["point"] != ""], "point")
        delivery = plain.pop("delivery", None)
        if delivery is not None:  # no oracle has told its parts apart: they are predicted as one
            plain.setdefault("dispatch", delivery)
        if points:  # of a point that was not measured we know what recording costs at others
            values = sorted(cost.value for cost in points.values())
            plain["consumer"] = Cost(value=float(np.median(values)), low=values[0], high=values[-1])
        if "dispatch" in plain or (name == "sample" and plain):
            providers[name] = Provider.model_validate({"stages": plain, "points": points})
    general = _stages(costs[costs["provider"] == "general"], "stage")
    called = _stages(costs[costs["provider"] == "call"], "stage")
    calls = {name: {"each": called[name], "byte": called.get(f"{name}-byte")} for name in CALLS if name in called}
    return CostModel.model_validate(
        {"experiment": "probe-cost", **fields, "providers": providers, "general": general, "calls": calls}
    )


def _stages(rows: pd.DataFrame, name: str) -> dict[str, Cost]:
    return {
        str(row[name]): Cost(value=row["value"], low=row["low"], high=row["high"]) for row in rows.to_dict("records")
    }


def undisturbed(rows: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """The rows of those trials that the host did not keep waiting; `trials` is the table of that name.

    Of passes on the host itself nobody knows: what waiting did to them is in their range, and in their scripts' errors.
    """
    sound = trials.loc[trials["disturbed"].isna() | (trials["fidelity"] == "host"), ["arm", "trial"]]
    return rows.merge(sound, on=["arm", "trial"])


def unit_of(clock: str) -> str:
    """What a model of this clock counts."""
    return "instructions" if clock == "virtual" else "ns"


def models(tables: Mapping[str, pd.DataFrame]) -> dict[str, CostModel]:
    """The model of each arm whose trials fitted anything, with its workloads and its accuracy: from tables alone."""
    made = {}
    trials = {row["arm"]: row for row in tables["trials"].drop_duplicates("arm").to_dict("records")}
    checks = undisturbed(tables["validation"], tables["trials"])
    for arm, costs in tables["costs"].groupby("arm", sort=False):
        trial = trials[arm]
        model = model_of(
            costs,
            arm=arm,
            kernel=trial["kernel"],
            fidelity=trial["fidelity"],
            unit=unit_of(trial["clock"]),
            trials=int(costs["trials"].max()),
            workloads=_workloads(tables, str(arm)),
            accuracy=_quoted(checks[checks["arm"].isin([arm, TRACED_IN.get(str(arm), arm)])]),
        )
        if model.providers:
            made[str(arm)] = model
    return made


def _workloads(tables: Mapping[str, pd.DataFrame], arm: str) -> dict[str, Counts]:
    """As the first trial counted each."""
    workloads, firings = tables["workloads"], tables["firings"]
    made = {}
    first = workloads[workloads["arm"] == arm].drop_duplicates("script").sort_values("script")
    for row in first.to_dict("records"):
        script = firings[(firings["arm"] == arm) & (firings["script"] == row["script"])]
        own = script[script["trial"] == row["trial"]]
        made[str(row["script"])] = Counts(
            cost=row["cost"],
            syscalls=row["syscalls"],
            switches=row["switches"],
            firings=dict(zip(own["probe"], own["firings"], strict=True)),
        )
    return made


def _quoted(validation: pd.DataFrame) -> Accuracy | None:
    """Of scripts that were drawn, where any were; else of those that were seen."""
    blind = accuracy(validation[validation["source"] == "blind"])
    return blind or accuracy(validation[validation["source"] == "held-out"])


def _most(errors: npt.NDArray[np.float64]) -> float:
    """What 19 of 20 further ones are within, if they are like these: of few the worst, for a quantile would be less."""
    rank = math.ceil((len(errors) + 1) * 19 / 20)
    return float(np.sort(errors)[min(rank, len(errors)) - 1])


def accuracy(validation: pd.DataFrame) -> Accuracy | None:
    """The errors of one arm's held-out scripts: medians over trials first. None where nothing was predicted."""
    validation = validation[validation["problem"].isna()]
    if validation.empty or "error_added" not in validation:
        return None
    errors = validation.groupby("script")[["error_added", "error_slowdown"]].median().abs()
    return Accuracy(
        scripts=len(errors),
        added_median=float(errors["error_added"].median()),
        added_worst=float(errors["error_added"].max()),
        added_most=_most(errors["error_added"].to_numpy()),
        slowdown_median=float(errors["error_slowdown"].median()),
        slowdown_worst=float(errors["error_slowdown"].max()),
    )
