# SPDX-License-Identifier: MIT
"""The figures of page-trace, drawn from its tables and metrics in the style of harness.report.figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from harness.report.figures import INK, Series, draw_medians, series, spans_note
from harness.report.panels import legend_below, name_rows, panel, those_there

from .model_figures import access_model, reuse_distance, working_set, working_set_over_time

#: The arms in the order of their looks: one looks the same in every figure.
METHODS = (
    "traced", "window-2", "window-4", "window-16", "lackey", "damon", "faults", "soft-dirty", "packed", "lackey-data",
)  # fmt: skip
#: The arms of each clock.
WALL = ("traced-wall", "lackey-wall", "damon")
VIRTUAL = tuple(arm for arm in METHODS if arm not in WALL)
#: The same program, of several lengths.
LENGTHS = ("stream-1", "stream-4", "stream-16", "stream-long")
#: The neighbour's time may differ by so many percent: the claims' bounds.
NEIGHBOUR_BOUND = 3.0
#: Metric and arm, and what the figure calls them.
NEIGHBOURS = {
    "neighbour_slowdown/neighbour": "on another CPU",
    "neighbour_slowdown_fastest/neighbour": "fastest tenth\nof its chunks",
    "neighbour_slowdown/neighbour-same-cpu": "on the same CPU",
}


def draw(tables: dict[str, pd.DataFrame], metrics: pd.DataFrame) -> dict[str, Figure]:
    """One Figure per name; only those for which there is data."""
    values = metrics.dropna(subset=["value"])
    drawn = {
        "access-model": access_model(tables["map"]),
        "working-set": working_set(tables["curve"]),
        "working-set-over-time": working_set_over_time(tables["workingset"]),
        "reuse-distance": reuse_distance(tables["reuse"]),
        "cost": cost(values, VIRTUAL, "What each method costs, by the virtual clock"),
        "cost-wall": cost(values, WALL, "What each method costs, by the host's clock"),
        "cost-by-length": cost_by_length(values),
        "loss": loss(values),
        "neighbour": neighbour(values),
    }
    return those_there(drawn)


def _family(metrics: pd.DataFrame, name: str, arms: Sequence[str]) -> pd.DataFrame:
    """The rows NAME.PROGRAM of these arms, with the column workload."""
    rows = metrics[metrics["arm"].isin(arms) & metrics["metric"].str.startswith(f"{name}.")]
    return rows.assign(workload=[metric.partition(".")[2] for metric in rows["metric"]])


def _programs(*tables: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(name for table in tables for name in table["workload"]))


def cost(metrics: pd.DataFrame, arms: Sequence[str], title: str) -> Figure | None:
    """Slowdown and data volume of each method by program."""
    panels: list[tuple[pd.DataFrame, str]] = [
        (_family(metrics, "slowdown", arms), "times as long as untraced"),
        (_family(metrics, "bytes", arms), "bytes of data"),
    ]
    panels = [(rows, label) for rows, label in panels if len(rows)]
    if not panels:
        return None
    names = _programs(*(rows for rows, _ in panels))
    figure = Figure(figsize=(4 * len(panels), 1.6 + 0.42 * len(names)), layout="constrained")
    places = figure.subplots(1, len(panels), sharey=True, squeeze=False).flat
    for axes, (rows, label) in zip(places, panels, strict=True):
        _by_program(axes, rows, arms, names)
        axes.set_xscale("log")
        axes.set_xlabel(f"{label} ({_note(rows)})")
        if label.startswith("bytes"):
            axes.xaxis.set_major_formatter(FuncFormatter(_bytes))
        else:
            axes.axvline(1, color=INK, linewidth=0.8, linestyle=":")
    figure.suptitle(title)
    legend_below(figure)
    return figure


def _by_program(axes: Axes, rows: pd.DataFrame, arms: Sequence[str], names: Sequence[str]) -> None:
    """One row per program, one mark per arm; values that a logarithmic axis has no place for are left out."""
    here = [arm for arm in arms if arm in set(rows["arm"])]
    for place, arm in enumerate(here):
        own = rows[(rows["arm"] == arm) & (rows["value"] > 0)]
        samples = {str(name): group["value"].to_numpy() for name, group in own.groupby("workload", sort=False)}
        if samples:
            at = [names.index(name) + 0.13 * (place - (len(here) - 1) / 2) for name in samples]
            draw_medians(axes, at, list(samples.values()), _look(arm), label=arm, horizontal=True)
    name_rows(axes, names, apart=True)
    axes.grid(axis="x")


def _look(arm: str) -> Series:
    return series(METHODS.index(arm.removesuffix("-wall")))


def _note(rows: pd.DataFrame) -> str:
    return spans_note(int(rows.groupby(["arm", "workload"])["trial"].nunique().min()))


def _bytes(value: float, _place: object = None) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g} B"


def cost_by_length(metrics: pd.DataFrame) -> Figure | None:
    """Time and bytes of a visit, by how many the program makes; None with one length only."""
    rows = metrics[metrics["arm"].isin(LENGTHS)]
    visits = rows[rows["metric"] == "visits.long"].groupby("arm")["value"].median().sort_values()
    panels = {"visit_time": "ns for a visit, by the virtual clock", "bytes_per_visit": "bytes for a visit"}
    if len(visits) < 2:
        return None
    figure = Figure(figsize=(7.5, 2.9), layout="constrained")
    for axes, (name, label) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        own = rows[rows["metric"] == name]
        samples = [own.loc[own["arm"] == arm, "value"].to_numpy() for arm in visits.index]
        there = [place for place, values in enumerate(samples) if values.size]
        draw_medians(axes, visits.to_numpy()[there], [samples[at] for at in there], series(0), label="", joined=True)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"visits ({spans_note(min(samples[at].size for at in there))})")
        axes.set_ylabel(label)
        axes.grid(axis="y")
    figure.suptitle("What a visit costs, by the program's length")
    return figure


def loss(metrics: pd.DataFrame) -> Figure | None:
    """Share of the exact visits that each window misses."""
    rows = _family(metrics, "missing_share", METHODS)
    names = _programs(rows)
    if not names:
        return None
    figure, axes = panel(6, 1.5 + 0.36 * len(names))
    # A window of one may lose nothing: 0 has a place on this axis.
    _by_program(axes, rows.assign(value=(100 * rows["value"]).clip(lower=1e-9)), METHODS, names)
    axes.set_xscale("symlog", linthresh=0.01, linscale=0.5)
    axes.set_xlim(-0.002, 130)
    axes.set_xticks([0, 0.01, 0.1, 1, 10, 100], ["0", "0.01", "0.1", "1", "10", "100"])
    axes.set_xlabel(f"% of the exact visits that are missing ({_note(rows)})")
    axes.set_title("What a window of several pages loses")
    legend_below(figure)
    return figure


def neighbour(metrics: pd.DataFrame) -> Figure | None:
    """How much longer another process takes while a program is traced."""
    rows = metrics.assign(place=metrics["metric"] + "/" + metrics["arm"])
    samples = {label: 100 * rows.loc[rows["place"] == name, "value"].to_numpy() for name, label in NEIGHBOURS.items()}
    samples = {label: values for label, values in samples.items() if values.size}
    if not samples:
        return None
    figure, axes = panel(5.5, 2.4)
    axes.axvspan(-NEIGHBOUR_BOUND, NEIGHBOUR_BOUND, color="#e8e8e8", label=f"±{NEIGHBOUR_BOUND:g} %")
    axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
    draw_medians(axes, np.arange(len(samples)), list(samples.values()), series(0), label="neighbour", horizontal=True)
    name_rows(axes, list(samples))
    reach = max(1.5 * NEIGHBOUR_BOUND, 1.1 * max(float(np.abs(values).max()) for values in samples.values()))
    axes.set_xlim(-reach, reach)
    axes.set_xlabel(f"change of the neighbour's time, % ({spans_note(min(map(len, samples.values())))})")
    axes.set_title("A neighbour while another program is traced")
    legend_below(figure)
    return figure
