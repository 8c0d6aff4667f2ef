# SPDX-License-Identifier: MIT
"""The figure of the bias map: the share told against the exact one, over the phase, a panel per sampler."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report.figures import series
from harness.report.panels import legend_below

from .stepped import SAMPLERS, TICK, interval

#: Between the marks of two duties at one phase.
_APART = 0.013


def bias_map(cells: pd.DataFrame) -> Figure | None:
    """Counts of all trials together; of the ideal sampler, those beside arm map-tick."""
    rows = cells[(cells["sampler"] != SAMPLERS[-1]) | (cells["arm"] == TICK)]
    shown = [sampler for sampler in SAMPLERS if sampler in set(rows["sampler"])]
    if not shown:
        return None
    figure = Figure(figsize=(7.5, 0.8 + 2.5 * ((len(shown) + 1) // 2)), layout="constrained")
    panels = figure.subplots((len(shown) + 1) // 2, 2, sharex=True, sharey=True, squeeze=False).flat
    for axes, sampler in zip(panels, shown, strict=False):
        _panel(axes, rows[rows["sampler"] == sampler])
        axes.set_title(sampler)
    for axes in figure.axes[len(shown) :]:
        axes.set_visible(False)
    for axes in figure.axes[max(0, len(shown) - 2) : len(shown)]:
        axes.set_xlabel("phase of the tick at which work begins\n(parts of its period)")
        axes.tick_params(labelbottom=True)
    for axes in figure.axes[::2]:
        axes.set_ylabel("share of samples in the work")
    figure.suptitle("A load in step with the tick: told (marks, with 95 % intervals) and exact (lines)")
    legend_below(figure, columns=3)
    return figure


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    for place, (duty, cells) in enumerate(rows.groupby("duty")):
        look = series(2 * place)
        summed = cells.groupby("phase").agg({"inside": "sum", "samples": "sum", "exact": "mean"})
        summed = summed[summed["samples"] > 0]
        told = summed["inside"] / summed["samples"]
        ends = [interval(part, whole) for part, whole in summed[["inside", "samples"]].itertuples(index=False)]
        spread = np.abs(np.array(ends).T - told.to_numpy())
        label = f"work takes {100 * float(str(duty)):.0f} % of each cycle"
        axes.plot(summed.index, summed["exact"], color=look.color, linewidth=1)
        beside = summed.index.to_numpy() + _APART * (place - 1)  # told shares are often equal
        axes.errorbar(beside, told, yerr=spread, label=label, capsize=0, **(look.points() | {"markersize": 3.5}))
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.04, 1.04)
