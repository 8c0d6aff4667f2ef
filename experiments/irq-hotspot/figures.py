# SPDX-License-Identifier: MIT
"""The figures of irq-hotspot, drawn from its tables and metrics in the style of harness.report.figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.oracle.truth import shares
from harness.report.figures import INK, Series, draw_bars, draw_medians, draw_paper, series, spans_note
from harness.report.panels import legend_below, name_rows, panel, those_there

from .decoding import SWEEP, SWEEP_WORKLOAD
from .mapfigure import bias_map
from .printed import AFTER, BEFORE, PAPER_N, WORKLOAD, Printed
from .printed import ARMS as PAPERS_ARMS
from .stepped import interval

#: The arms that are compared with each other; an arm looks the same in every figure.
ARMS = ("tick", "irq-entry", "handler-only", "tick-sti", "nmi")
_TOP = 12
#: Axes of shares are linear below, so that they have a 0.
LEAST_SHARE = 1e-3

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
    return those_there(drawn)


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


def _function_axis(axes: Axes, functions: Sequence[str], least: float) -> None:
    """Functions from top to bottom; what they have to the right: logarithmic from `least` on, and with a 0."""
    name_rows(axes, functions)
    axes.set_xscale("symlog", linthresh=least, linscale=0.5)
    axes.set_xlim(-0.4 * least, 3 * axes.get_xlim()[1])
    axes.grid(axis="y")


def _hot_spots(tables: Tables) -> Figure | None:
    counts = {arm: _counts(tables, arm, "edu") for arm in ARMS}
    # The arms sample at different rates, so that their counts cannot be compared: shares can.
    counts = {arm: table / table.sum() for arm, table in counts.items() if not table.empty}
    if not counts:
        return None
    most = pd.concat([table.mean(axis=1) for table in counts.values()], axis=1).max(axis=1)
    functions = [str(name) for name in most.sort_values(ascending=False, kind="stable").index[:_TOP]]
    figure, axes = panel(7, 5.2)
    for i, (arm, table) in enumerate(counts.items()):
        places = np.arange(len(functions)) + 0.15 * (i - (len(counts) - 1) / 2)
        draw_medians(axes, places, _rows(table, functions), _look(arm), label=f"arm {arm}", horizontal=True)
    _function_axis(axes, functions, LEAST_SHARE)
    axes.set_xlim(right=1.1)
    axes.set_xlabel(f"share of the counts in /proc/profile ({_note(counts.values())})")
    axes.set_title("Workload edu: the same load, by each way to sample")
    legend_below(figure, columns=None)
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
    panels = [one for one in panels if counts[one[1]].shape[1]]
    if not panels:
        return None
    figure = Figure(figsize=(1 + 4 * len(panels), 4.4), layout="constrained")
    for axes, (title, arm, printed) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
        _paper_panel(axes, arm, counts[arm], sorted(printed, key=lambda row: -row.count))
        axes.set_title(title)
    heading = f"The paper's tables (another kernel and load), and workload {WORKLOAD} here; no mark: no count"
    figure.suptitle(f"{heading}\n({_note(counts[arm] for _, arm, _ in panels)})")
    legend_below(figure, columns=None)
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
    _function_axis(axes, [*(row.function for row in printed), *more], 1)
    axes.set_xlabel("counts")


def _sweep(tables: Tables) -> Figure | None:
    buffers = tables["buffers"]
    rows = buffers[buffers["arm"].isin(SWEEP) & (buffers["workload"] == SWEEP_WORKLOAD)]
    rows = rows.assign(share=rows["shared"] / (rows["total"] - rows["out_of_text"])).dropna(subset=["share"])
    if rows.empty:
        return None
    figure, axes = panel(5.5, 3.8)
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
    """A panel for each clock: what an instruction takes differs between them, and so does the same handler's time."""
    wide = metrics[~metrics["arm"].isin(SWEEP)].pivot(index=["arm", "trial"], columns="metric", values="value")
    if not {"handler_time_known", "handler_time_ratio"} <= set(wide.columns):
        return None
    time = wide.dropna(subset=["handler_time_known", "handler_time_ratio"])
    present = list(dict.fromkeys(time.index.get_level_values("arm")))
    virtual = [arm for arm in ARMS if arm in present]
    panels = [
        ("virtual clock: an instruction takes 8 ns", virtual),
        ("host's clock: as long as QEMU takes for it", sorted(set(present).difference(ARMS))),
    ]
    panels = [one for one in panels if one[1]]
    if not panels:
        return None
    widths = [max(2, len(arms)) for _, arms in panels]
    figure = Figure(figsize=(1.2 + 0.95 * sum(widths), 4.2), layout="constrained")
    drawn = np.atleast_1d(figure.subplots(1, len(panels), width_ratios=widths))
    for axes, (title, arms) in zip(drawn, panels, strict=True):
        _handler_panel(axes, time, arms)
        axes.set_title(title, fontsize="medium")
    trials = int(time.groupby(level="arm").size().min())
    drawn[0].set_ylabel(f"seconds in the edu handler\n({spans_note(trials)})")
    figure.suptitle("The edu handler's time: known, and by samples inside of it")
    legend_below(figure, columns=None)
    return figure


def _handler_panel(axes: Axes, time: pd.DataFrame, arms: Sequence[str]) -> None:
    place = np.arange(len(arms))
    told = time["handler_time_known"] * time["handler_time_ratio"]
    for shift, look, label, values in (
        (-0.2, series(2), "known from the load", time["handler_time_known"]),
        (0.2, series(4), "by samples inside the handler", told),
    ):
        samples = [values.loc[arm].to_numpy() for arm in arms]
        draw_bars(axes, place + shift, samples, look, label=label, width=0.38)
    as_in_paper = [place[i] + 0.2 for i, arm in enumerate(arms) if arm in ("tick", "tick-wall")]
    draw_paper(axes, as_in_paper, [0.0] * len(as_in_paper), label="the paper: handlers count 0")
    axes.set_ylim(bottom=-0.03 * axes.get_ylim()[1])  # marks at 0 are seen whole
    axes.set_xticks(place, [arm.removesuffix("-wall").replace("-", "\n", 1) for arm in arms])


def _truth(truth: pd.DataFrame) -> Figure | None:
    """Truth against estimate, all trials together: a panel for each arm's buffer, and one for the ideal sampler."""
    rows = truth[truth["workload"] == "edu"]
    arms = [arm for arm in ARMS if arm in set(rows["arm"])]
    panels = [(f"arm {arm}", arm, "ticks") for arm in arms]
    ideal = next((arm for arm in arms if rows.loc[rows["arm"] == arm, "samples"].sum() > 0), None)
    if ideal is not None:
        panels.append((f"the ideal sampler beside arm {ideal}", ideal, "samples"))
    if not panels:
        return None
    figure = Figure(figsize=(7.5, 0.6 + 3.1 * ((len(panels) + 1) // 2)), layout="constrained")
    drawn = figure.subplots((len(panels) + 1) // 2, 2, sharex=True, sharey=True, squeeze=False).flat
    for axes, (title, arm, column) in zip(drawn, panels, strict=False):
        _truth_panel(axes, rows[rows["arm"] == arm], column, _look(arm) if column == "ticks" else series(len(ARMS)))
        axes.set_title(title)
        axes.tick_params(labelbottom=True)
    for axes in figure.axes[len(panels) :]:
        axes.set_visible(False)
    for axes in figure.axes[:: 2 if len(panels) > 1 else 1]:
        axes.set_ylabel("share told, with 95 % interval")
    for axes in figure.axes[max(0, len(panels) - 2) : len(panels)]:
        axes.set_xlabel("exact share of kernel instructions")
    figure.suptitle(f"Workload edu: functions with {LEAST_SHARE:.1%} or more, exact and told; the others as one")
    legend_below(figure, columns=None)
    return figure


def _truth_panel(axes: Axes, truth: pd.DataFrame, column: str, look: Series) -> None:
    summed = truth.groupby(["function", "role"])[["instructions", column]].sum(min_count=1)
    counts = summed[column].to_numpy(dtype=np.float64)
    exact, whole = shares(summed["instructions"]), int(counts.sum())
    large = (exact >= LEAST_SHARE) | (counts >= LEAST_SHARE * whole)
    x = np.append(exact[large], exact[~large].sum())
    counts, roles = np.append(counts[large], counts[~large].sum()), summed.index.get_level_values("role")[large]
    told = counts / whole
    spread = np.abs(np.array([interval(round(count), whole) for count in counts]).T - told)
    axes.errorbar(x, told, yerr=spread, capsize=0, ecolor=INK, elinewidth=0.8, **look.points())
    ours = np.append(roles == "handler edu", False)
    ring: dict[str, Any] = {"marker": "o", "markersize": 11, "markerfacecolor": "none", "markeredgecolor": INK}
    axes.plot(x[ours], told[ours], linestyle="none", label="the edu handler and its loop", **ring)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle="--", label="told = exact")
    for scale, limits in ((axes.set_xscale, axes.set_xlim), (axes.set_yscale, axes.set_ylim)):
        scale("symlog", linthresh=LEAST_SHARE, linscale=0.5)
        limits(-0.4 * LEAST_SHARE, 1.7)


def _error(error: pd.DataFrame) -> Figure | None:
    """Distance from the truth against the number of samples; what is unbiased follows the dashed line, or is below."""
    rows = error[(error["workload"] == "edu") & error["arm"].isin(ARMS)]
    if rows.empty:
        return None
    figure, axes = panel(6.5, 4.2)
    ideal = rows[rows["source"] == "ideal sampler"]
    beside = next((arm for arm in ARMS if arm in set(ideal["arm"])), None)
    drawn = [
        (f"arm {arm}", _look(arm), rows[(rows["arm"] == arm) & (rows["source"] != "ideal sampler")]) for arm in ARMS
    ]
    drawn.append((f"ideal sampler (arm {beside})", series(len(ARMS)), ideal[ideal["arm"] == beside]))
    for label, look, own in drawn:
        if own.empty:
            continue
        spread = own.groupby("n")["error"].agg(["median", "min", "max"])
        axes.fill_between(spread.index, spread["min"], spread["max"], color=look.color, alpha=0.25, lw=0)
        axes.plot(spread.index, spread["median"], label=label, **look.line())
    expected = rows.groupby("n")["expected"].mean()
    label = "independent: 1/√n"
    axes.plot(expected.index, expected, color=INK, linestyle=(0, (6, 2)), lw=1, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("samples (median over trials; shaded: least to most)")
    axes.set_ylabel("distance of shares from the truth")
    axes.set_title("Workload edu: error against number of samples")
    legend_below(figure, columns=None)
    return figure
