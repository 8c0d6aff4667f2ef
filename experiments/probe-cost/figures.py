# SPDX-License-Identifier: MIT
"""The figures: cost by stage, predicted against measured, slowdown against the rate of firings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from harness.report.figures import series

from .fit import PROVIDERS
from .fitted import undisturbed, unit_of

_LABELS = {"delivery": "trap and dispatch", "consumer": "recording consumer"}


def draw(tables: Mapping[str, pd.DataFrame]) -> dict[str, Figure]:
    """Those for which there is data."""
    made: dict[str, Figure] = {}
    clocks = tables["trials"].drop_duplicates("arm").set_index("arm")["clock"]
    for arm, costs in tables["costs"].groupby("arm", sort=False):
        wide = costs[costs["point"] == ""].pivot(index="provider", columns="stage", values="value")
        if "delivery" in wide and "consumer" in wide:
            made[f"stages-{arm}"] = _stages(wide, unit_of(clocks[arm]))
    for arm, checks in undisturbed(tables["validation"], tables["trials"]).groupby("arm", sort=False):
        if checks["error_added"].notna().any():
            made[f"predicted-{arm}"] = _predicted(checks)
    if not tables["rates"].empty:
        made["rate"] = _rates(tables["rates"], tables["periods"])
    return made


def _stages(wide: pd.DataFrame, unit: str) -> Figure:
    """One recorded firing of each provider, stacked by stage; without an oracle the trap is not told from dispatch."""
    order = [name for name in PROVIDERS if name in wide.index and name != "sample"]
    wide = wide.reindex(order).fillna(0.0)
    stacked = ("trap", "dispatch", "consumer") if "trap" in wide else ("delivery", "consumer")
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.add_subplot()
    left = np.zeros(len(wide))
    for index, stage in enumerate(stacked):
        axes.barh(wide.index, wide[stage], left=left, label=_LABELS.get(stage, stage), **series(index).bar())
        left = left + wide[stage].to_numpy()
    axes.invert_yaxis()
    axes.set_xlabel(f"one recorded firing [{unit}]")
    axes.legend()
    return figure


def _predicted(checks: pd.DataFrame) -> Figure:
    """Each script that took no part in the fit: added cost predicted against measured, and the 10 % band."""
    middle = checks[checks["source"] != "advice"].groupby("script")[["measured", "predicted", "base"]].median().dropna()
    figure = Figure(figsize=(4.8, 4.2), layout="constrained")
    axes = figure.add_subplot()
    measured, predicted = middle["measured"] / middle["base"], middle["predicted"] / middle["base"]
    plain = (measured > 0) & (predicted > 0)  # on a busy host's clock a trace can seem to cost less than nothing
    measured, predicted = measured[plain], predicted[plain]
    drawn = measured.index.str.startswith("b")
    if len(measured):
        edge = np.array([measured.min() / 2, measured.max() * 2])
        axes.fill_between(edge, 0.9 * edge, 1.1 * edge, color="0.85", label="within 10 %")
        axes.plot(edge, edge, color="0.4", linewidth=0.8)
    axes.plot(measured[~drawn], predicted[~drawn], label="seen while the model was revised", **series(3).points())
    axes.plot(measured[drawn], predicted[drawn], label="drawn by a seed", **series(1).points())
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("measured: added cost / untraced cost")
    axes.set_ylabel("predicted")
    axes.legend()
    return figure


def _rates(rates: pd.DataFrame, periods: pd.DataFrame) -> Figure:
    """Slowdown against firings per million instructions; samples until the kernel takes no shorter period."""
    figure = Figure(figsize=(5.6, 3.8), layout="constrained")
    axes = figure.add_subplot()
    curves = [(str(name), rows["base"], rows) for name, rows in rates.groupby("provider")]
    if not periods.empty:
        curves.append(("sample (asked for)", periods["period"], periods))
    for index, (label, between, rows) in enumerate(curves):
        slowdown = (rows["traced"] / rows["base"]).groupby(between).median()
        axes.plot(1e6 / slowdown.index.to_numpy(), slowdown.to_numpy(), label=label, **series(index).line())
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("firings per million untraced instructions")
    axes.set_ylabel("slowdown")
    axes.legend()
    return figure
