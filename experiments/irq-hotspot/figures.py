# SPDX-License-Identifier: MIT
"""The figures of irq-hotspot, drawn from its tables and metrics in the style of harness.report.figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.oracle.truth import shares
from harness.report.figures import INK, Series, draw_bars, draw_medians, draw_paper, series, spans_note

from .decoding import SWEEP, SWEEP_WORKLOAD
from .mapfigure import bias_map
from .printed import AFTER, BEFORE, PAPER_N, WORKLOAD, Printed
from .printed import ARMS as PAPERS_ARMS

#: The arms that are compared with each other; an arm looks the same in every figure.
ARMS = ("tick", "irq-entry", "handler-only", "tick-sti", "nmi")
_TOP = 12
#: Shares below are drawn here: a logarithmic axis has no 0.
FLOOR = 1e-4
_OUTSIDE: Final = "outside lower center"

Tables = dict[str, pd.DataFrame]
Samples = list[npt.NDArray[np.float64]]


def draw(tables: Tables, metrics: pd.DataFrame) -> dict[str, Figure]:
    """One Figure per name; only those for which there is data."""
    drawn: dict[str, Figure | None] = {
        "hot-spots": _hot_spots(tables),
        "paper-tables": _paper_tables(tables),
        "n-sweep": _sweep(tables),
        "handler-time": _handler_time(metrics),
        "truth": _truth(tables["truth"]),
        "error": _error(tables["error"]),
        "bias-map": bias_map(tables["cells"]),
    }
    return {name: figure for name, figure in drawn.items() if figure is not None}


def _look(arm: str) -> Series:
    return series(ARMS.index(arm) if arm in ARMS else len(ARMS))


def _counts(tables: Tables, arm: str, workload: str) -> pd.DataFrame:
    """Counts of an arm's workload: one row per function, one column per good trial; 0 where nothing was counted."""
    buffers, profile = (
        frame[(frame["arm"] == arm) & (frame["workload"] == workload)]
        for frame in (tables["buffers"], tables["profile"])
    )
    wide = profile.pivot_table(index="function", columns="trial", values="ticks", aggfunc="sum")
    return wide.reindex(columns=sorted(buffers["trial"])).fillna(0.0)


def _rows(counts: pd.DataFrame, functions: Sequence[str]) -> Samples:
    return [row.to_numpy(dtype=np.float64) for _, row in counts.reindex(list(functions)).fillna(0.0).iterrows()]


def _count_axis(axes: Axes, functions: Sequence[str]) -> None:
    """Functions from top to bottom, counts to the right: logarithmic, but with a 0."""
    axes.set_yticks(np.arange(len(functions)), list(functions))
    axes.set_ylim(len(functions) - 0.4, -0.6)
    axes.set_xscale("symlog", linthresh=1, linscale=0.5)
    axes.set_xlim(-0.4, 3 * axes.get_xlim()[1])
    axes.grid(axis="y")


def _hot_spots(tables: Tables) -> Figure | None:
    counts = {arm: _counts(tables, arm, "edu") for arm in ARMS}
    counts = {arm: table for arm, table in counts.items() if not table.empty}
    if not counts:
        return None
    most = pd.concat([table.mean(axis=1) for table in counts.values()], axis=1).max(axis=1)
    functions = [str(name) for name in most.sort_values(ascending=False, kind="stable").index[:_TOP]]
    figure = Figure(figsize=(7, 5.2), layout="constrained")
    axes = figure.add_subplot()
    for i, (arm, table) in enumerate(counts.items()):
        places = np.arange(len(functions)) + 0.15 * (i - (len(counts) - 1) / 2)
        draw_medians(axes, places, _rows(table, functions), _look(arm), label=f"arm {arm}", horizontal=True)
    _count_axis(axes, functions)
    axes.set_xlabel(f"counts in /proc/profile ({_note(counts.values())})")
    axes.set_title("Workload edu: the same load, by each way to sample")
    figure.legend(loc=_OUTSIDE, ncols=len(counts))
    return figure


def _note(counts: Iterable[pd.DataFrame]) -> str:
    return spans_note(min(table.shape[1] for table in counts))


def _paper_tables(tables: Tables) -> Figure | None:
    """The paper's table before and after its fix, beside this run's counts for the same jobs and the hottest ones."""
    panels = [
        ("before: tick sampling", PAPERS_ARMS["before"], BEFORE),
        ("after: the fix", PAPERS_ARMS["after"], AFTER),
    ]
    counts = {arm: _counts(tables, arm, WORKLOAD) for _, arm, _ in panels}
    panels = [panel for panel in panels if counts[panel[1]].shape[1]]
    if not panels:
        return None
    figure = Figure(figsize=(1 + 4 * len(panels), 4.4), layout="constrained")
    for axes, panel in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
        title, arm, printed = panel
        _paper_panel(axes, arm, counts[arm], sorted(printed, key=lambda row: -row.count))
        axes.set_title(title)
    heading = f"The paper's tables (another kernel and load), and workload {WORKLOAD} here; no mark: no count"
    figure.suptitle(f"{heading}\n({_note(counts[arm] for _, arm, _ in panels)})")
    _legend(figure)
    return figure


def _paper_panel(axes: Axes, arm: str, counts: pd.DataFrame, printed: Sequence[Printed]) -> None:
    """A row per function of the paper, ours at the function of the same job; then our hottest ones without a row."""
    place = {row.today: index for index, row in enumerate(printed) if row.today is not None}
    most = counts.mean(axis=1).sort_values(ascending=False, kind="stable").index
    more = [str(name) for name in most if name not in place][:3]
    place |= {name: len(printed) + index for index, name in enumerate(more)}
    shown = [name for name in place if name in counts.index]
    draw_medians(
        axes,
        [place[name] for name in shown],
        _rows(counts, shown),
        _look(arm.removesuffix(f"-{WORKLOAD}")),
        label=f"arm {arm}",
        horizontal=True,
    )
    draw_paper(axes, [row.count for row in printed], list(range(len(printed))), label="printed in the paper")
    _count_axis(axes, [*(row.function for row in printed), *more])
    axes.set_xlabel("counts")


def _sweep(tables: Tables) -> Figure | None:
    buffers = tables["buffers"]
    rows = buffers[buffers["arm"].isin(SWEEP) & (buffers["workload"] == SWEEP_WORKLOAD)]
    rows = rows.assign(share=rows["shared"] / (rows["total"] - rows["out_of_text"])).dropna(subset=["share"])
    if rows.empty:
        return None
    figure = Figure(figsize=(5.5, 3.8), layout="constrained")
    axes = figure.add_subplot()
    folded = tables["sweep"].dropna(subset=["neighbour_share"])
    for i, (label, frame, column) in enumerate(
        [
            ("measured with profile=N", rows, "share"),
            (f"samples of {SWEEP[0]}, folded to 2^N bytes", folded, "neighbour_share"),
        ]
    ):
        if frame.empty:
            continue
        steps = sorted(frame["step"].unique().tolist())
        draw_medians(
            axes,
            steps,
            [frame.loc[frame["step"] == step, column].to_numpy() for step in steps],
            series(2 * i),
            label=label,
            joined=True,
        )
    axes.axvline(2**PAPER_N, color=INK, linewidth=0.8, linestyle=":", label=f"N = {PAPER_N}, the paper's choice")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("bytes per counter, 2^N for profile=N")
    trials = int(rows.groupby("arm")["trial"].nunique().min())
    axes.set_ylabel(f"share of ticks in shared counters\n({spans_note(trials)})")
    axes.set_title("A larger N is coarser, not finer")
    axes.legend()
    return figure


def _handler_time(metrics: pd.DataFrame) -> Figure | None:
    wide = metrics[~metrics["arm"].isin(SWEEP)].pivot(index=["arm", "trial"], columns="metric", values="value")
    if not {"handler_time_known", "handler_time_ratio"} <= set(wide.columns):
        return None
    time = wide.dropna(subset=["handler_time_known", "handler_time_ratio"])
    if time.empty:
        return None
    sampled = time["handler_time_known"] * time["handler_time_ratio"]
    present = set(time.index.get_level_values("arm"))
    arms = [arm for arm in (*ARMS, *sorted(present.difference(ARMS))) if arm in present]
    place = np.arange(len(arms))
    figure = Figure(figsize=(1.6 + 0.85 * len(arms), 3.8), layout="constrained")
    axes = figure.add_subplot()
    for shift, look, label, values in (
        (-0.2, series(2), "known from the load", time["handler_time_known"]),
        (0.2, series(4), "by ticks inside the handler", sampled),
    ):
        samples = [values.loc[arm].to_numpy() for arm in arms]
        draw_bars(axes, place + shift, samples, look, label=label, width=0.38)
    as_in_paper = [place[i] + 0.2 for i, arm in enumerate(arms) if arm in ("tick", "tick-wall")]
    draw_paper(axes, as_in_paper, [0.0] * len(as_in_paper), label="the paper: handlers count 0")
    axes.set_xticks(place, arms, rotation=30, ha="right")
    counts = time.groupby(level="arm").size()
    note = spans_note(int(counts.min()))
    axes.set_ylabel(f"seconds in the edu handler\n({note if counts.min() > 1 else 'median over trials'})")
    axes.set_title("What tick sampling makes of a known handler time")
    figure.legend(loc=_OUTSIDE, ncols=3)
    return figure


def _truth(truth: pd.DataFrame) -> Figure | None:
    """Truth against estimate, one point per function: all trials of an arm together, one panel per arm."""
    rows = truth[truth["workload"] == "edu"]
    arms = [arm for arm in ARMS if arm in set(rows["arm"])]
    if not arms:
        return None
    figure = Figure(figsize=(7, 3.4 * ((len(arms) + 1) // 2)), layout="constrained")
    panels = figure.subplots((len(arms) + 1) // 2, 2, sharex=True, sharey=True, squeeze=False).flat
    for axes, arm in zip(panels, arms, strict=False):
        _truth_panel(axes, arm, rows[rows["arm"] == arm])
    for axes in figure.axes[len(arms) :]:
        axes.set_visible(False)
    figure.suptitle("Workload edu: every kernel function, exact and estimated")
    _legend(figure)
    return figure


def _truth_panel(axes: Axes, arm: str, truth: pd.DataFrame) -> None:
    summed = truth.groupby(["function", "role"])[["instructions", "ticks", "samples"]].sum(min_count=1)
    exact = np.maximum(shares(summed["instructions"]), FLOOR)
    for column, look, label in (("ticks", series(3), "/proc/profile"), ("samples", series(0), "ideal sampler")):
        if not summed[column].sum() > 0:
            continue
        share = np.maximum(shares(summed[column]), FLOOR)
        size = {"markersize": 5 if column == "ticks" else 2.5}
        axes.plot(exact, share, label=label, **(look.points() | size))
        for x, y, (function, role) in zip(exact, share, summed.index, strict=True):
            if role == "handler edu" and x > 0.01 and column == "ticks":
                axes.annotate(function, (x, y), (-4, -11 if y > FLOOR else 7), textcoords="offset points", ha="right")
    axes.plot([FLOOR, 1], [FLOOR, 1], color=INK, linewidth=0.8, linestyle="--", label="estimate = truth")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(f"arm {arm}")
    axes.set_xlabel("exact share of kernel instructions")
    axes.set_ylabel(f"estimated share ({FLOOR:g}: that or less)")


def _error(error: pd.DataFrame) -> Figure | None:
    """Distance from the truth against the number of samples; an unbiased profiler follows the dashed line."""
    rows = error[(error["workload"] == "edu") & error["arm"].isin(ARMS)]
    if rows.empty:
        return None
    figure = Figure(figsize=(7.5, 4), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    expected = rows.groupby("n")["expected"].mean()
    for axes, source in zip(panels, ("/proc/profile", "ideal sampler"), strict=True):
        for arm in ARMS:
            own = rows[(rows["arm"] == arm) & (rows["source"] == source)]
            if own.empty:
                continue
            spread = own.groupby("n")["error"].agg(["median", "min", "max"])
            axes.fill_between(spread.index, spread["min"], spread["max"], color=_look(arm).color, alpha=0.25, lw=0)
            axes.plot(spread.index, spread["median"], label=f"arm {arm}", **_look(arm).line())
        axes.plot(expected.index, expected, color=INK, linestyle=(0, (6, 2)), lw=1, label="unbiased: falls as 1/√n")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(source)
        axes.set_xlabel("samples (median; shaded: least to most)")
    panels[0].set_ylabel("distance of shares from the truth")
    figure.suptitle("Error against number of samples, workload edu")
    _legend(figure)
    return figure


def _legend(figure: Figure) -> None:
    """One legend below all panels, each label once."""
    pairs = [pair for axes in figure.axes for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    unique = {label: handle for handle, label in pairs}
    figure.legend(list(unique.values()), list(unique), loc=_OUTSIDE, ncols=min(3, len(unique)))
