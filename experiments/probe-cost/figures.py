"""The figures: cost by stage, predicted against measured, slowdown against the rate of firings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from harness.report.figures import series

from .fit import PROVIDERS

_STACK = ("trap", "dispatch", "consumer")


def draw(tables: Mapping[str, pd.DataFrame]) -> dict[str, Figure]:
    """Those for which there is data."""
    found: dict[str, Figure] = {}
    for arm, stages in tables["stages"].groupby("arm", sort=False):
        found[f"stages-{arm}"] = _stages(stages, _unit(tables, str(arm)))
    for arm, checks in tables["validation"].groupby("arm", sort=False):
        found[f"predicted-{arm}"] = _predicted(checks)
    rates = tables["effects"][tables["effects"]["effect"].str.startswith("rate-")]
    if not rates.empty:
        found["rate"] = _rates(tables["effects"])
    return found


def _unit(tables: Mapping[str, pd.DataFrame], arm: str) -> str:
    return str(tables["trials"][tables["trials"]["arm"] == arm]["unit"].iloc[0])


def _stages(stages: pd.DataFrame, unit: str) -> Figure:
    """One recorded firing of each provider, stacked by stage; under the wall clock the trap is in dispatch."""
    wide = stages.pivot_table(index="provider", columns="stage", values="value", aggfunc="median")
    order = [name for name in PROVIDERS if name in wide.index and name != "sample"]
    wide = wide.reindex(order).fillna(0.0)
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.add_subplot()
    left = np.zeros(len(wide))
    for index, stage in enumerate(name for name in _STACK if name in wide):
        look = series(index)
        label = "trap and dispatch" if stage == "dispatch" and "trap" not in wide else stage
        if stage == "consumer":
            label = "recording consumer"
        axes.barh(
            wide.index, wide[stage], left=left, label=label, color=look.color, hatch=look.hatch, edgecolor="black"
        )
        left = left + wide[stage].to_numpy()
    axes.invert_yaxis()
    axes.set_xlabel(f"one recorded firing, {unit}")
    axes.legend()
    return figure


def _predicted(checks: pd.DataFrame) -> Figure:
    """Each held-out script: added cost predicted against measured, and the 10 % band."""
    middle = checks.groupby("script")[["measured", "predicted", "base"]].median()
    figure = Figure(figsize=(4.8, 4.2), layout="constrained")
    axes = figure.add_subplot()
    measured, predicted = middle["measured"] / middle["base"], middle["predicted"] / middle["base"]
    edge = np.array([measured.min() / 2, measured.max() * 2])
    axes.fill_between(edge, 0.9 * edge, 1.1 * edge, color="0.85", label="within 10 %")
    axes.plot(edge, edge, color="0.4", linewidth=0.8)
    look = series(0)
    axes.plot(measured, predicted, look.marker, color=look.color, label="held-out script", linestyle="none")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("measured: added cost / untraced cost")
    axes.set_ylabel("predicted")
    axes.legend()
    return figure


def _rates(effects: pd.DataFrame) -> Figure:
    """Slowdown against firings per million instructions; samples until the kernel takes no shorter period."""
    figure = Figure(figsize=(5.6, 3.8), layout="constrained")
    axes = figure.add_subplot()
    providers = sorted({str(name) for name in effects["effect"] if str(name).startswith("rate-")})
    middle = effects.groupby(["effect", "what"])["value"].median()
    for index, provider in enumerate(providers):
        look = series(index)
        bases = sorted(float(what.split()[1]) for what in middle[provider].index if what.startswith("base "))
        slow = [float(middle[provider, f"slowdown {base:.0f}"]) for base in bases]
        axes.plot([1e6 / base for base in bases], slow, color=look.color, marker=look.marker, label=provider[5:])
    periods = {1e6 / float(what): float(value) for what, value in middle.get("period", pd.Series(dtype=float)).items()}
    if periods:
        look = series(len(providers))
        rates = sorted(periods)
        axes.plot(
            rates, [periods[rate] for rate in rates], color=look.color, marker=look.marker, label="sample (asked for)"
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("firings per million untraced instructions")
    axes.set_ylabel("slowdown")
    axes.legend()
    return figure
