"""The figures of lock-trace, drawn from its tables in the style of harness.report.figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from harness.report.figures import INK, Series, draw_bars, draw_medians, draw_paper, series, spans_note

#: What an arm is known by, in every figure and on every clock: the way it traces.
TRACES = ("off", "all", "paper", "per-lock", "tracepoint", "validate")
#: Cycles of a pair in the paper: bare, traced, traced and filtered. Another machine and kernel: only ratios compare.
PAPER = {"off": 500, "all": 1500, "paper": 2700}
CLOCKS = {"virtual": "instructions", "wall": "TSC cycles"}
_OUTSIDE = "outside lower center"
_PAIR, _BUFFER = "spin", "buffer"
#: Shares of fewer acquisitions are left out.
_SEEN = 10

Tables = dict[str, pd.DataFrame]


def draw(tables: Tables) -> dict[str, Figure]:
    """One Figure per name; only those for which there is data."""
    about = tables["runs"].drop_duplicates("arm")[["arm", "trace", "clock"]]
    drawn: dict[str, Figure | None] = {}
    for clock in CLOCKS:
        arms = about[about["clock"] == clock]
        drawn[f"pair-cost-{clock}"] = _pair_cost(tables, arms, clock)
        drawn[f"fill-{clock}"] = _fill(tables, arms, clock)
        drawn[f"slowdown-{clock}"] = _slowdown(tables["runs"], clock)
    drawn["useful"] = _useful(tables)
    drawn["block"] = _block(tables["block"])
    return {name: figure for name, figure in drawn.items() if figure is not None}


def _look(trace: str) -> Series:
    return series(TRACES.index(trace) if trace in TRACES else len(TRACES))


def _by_trace(table: pd.DataFrame, arms: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Rows of each way of tracing, in the order of TRACES."""
    if table.empty:
        return []
    merged = table.merge(arms, on="arm")
    return [(trace, merged[merged["trace"] == trace]) for trace in TRACES if (merged["trace"] == trace).any()]


# -- cost ----------------------------------------------------------------------------------------------------


def _pair_cost(tables: Tables, arms: pd.DataFrame, clock: str) -> Figure | None:
    """The mean of 100 pairs per arm beside the paper's, and how 10,000 are distributed."""
    mine = tables["pair"][tables["pair"]["kind"] == _PAIR]
    groups = _by_trace(mine, arms)
    if not groups:
        return None
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.2))
    for place, (trace, rows) in enumerate(groups):
        draw_bars(left, [place], [rows["mean_first"]], _look(trace), label=trace, width=0.7)
    printed = [(place, PAPER[trace]) for place, (trace, _) in enumerate(groups) if trace in PAPER]
    if printed:
        draw_paper(left, [x for x, _ in printed], [y for _, y in printed], label="printed in the paper, cycles")
    left.set_xticks(range(len(groups)), [trace for trace, _ in groups], rotation=30, ha="right")
    trials = min(rows["trial"].nunique() for _, rows in groups)
    left.set_ylabel(f"{CLOCKS[clock]} of a pair, mean of 100\n({spans_note(trials)})")
    spread = tables["quantiles"][tables["quantiles"]["kind"] == _PAIR]
    for trace, rows in _by_trace(spread, arms):
        curve = rows.groupby("quantile")["cycles"].median()
        look = _look(trace)
        right.plot(curve.to_numpy(), curve.index.to_numpy(), color=look.color, linestyle=look.dashes, label=trace)
    right.set_xscale("log")
    right.xaxis.set_minor_formatter(NullFormatter())
    right.set_xlabel(f"{CLOCKS[clock]} of a pair, with the readings")
    right.set_ylabel("share of pairs that cost at most that")
    right.grid(axis="both")
    figure.suptitle(f"Taking and releasing a free spin lock, {clock} clock")
    _legend(figure)
    return figure


def _slowdown(found: pd.DataFrame, clock: str) -> Figure | None:
    """How much longer each workload takes, by the way of tracing."""
    mine = found[(found["clock"] == clock) & found.get("slowdown", pd.Series(index=found.index)).notna()]
    mine = mine[mine["workload"] != _BUFFER]
    if mine.empty:
        return None
    names = list(dict.fromkeys(mine["workload"]))
    traces = [trace for trace in TRACES if trace in set(mine["trace"])]
    figure = Figure(figsize=(6.5, 1.6 + 0.42 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    for i, trace in enumerate(traces):
        rows = {name: group["slowdown"] for name, group in mine[mine["trace"] == trace].groupby("workload")}
        places = [names.index(str(name)) + 0.14 * (i - (len(traces) - 1) / 2) for name in rows]
        draw_medians(axes, places, list(rows.values()), _look(trace), label=trace, horizontal=True)
    _rows_axis(axes, names)
    axes.axvline(1, color=INK, linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    trials = int(mine.groupby(["arm", "workload"])["trial"].nunique().min())
    axes.set_xlabel(f"times as long as untraced ({spans_note(trials)})")
    axes.set_title(f"What tracing costs the workloads, {clock} clock")
    _legend(figure)
    return figure


# -- buffers and what is useful ---------------------------------------------------------------------------------


def _fill(tables: Tables, arms: pd.DataFrame, clock: str) -> Figure | None:
    """The ring that nobody reads, first trial of each arm: events in it over time, and when the first one was lost."""
    table = tables["fill"]
    groups = _by_trace(table[table["workload"] == _BUFFER], arms)
    if not groups:
        return None
    runs = tables["runs"][tables["runs"]["workload"] == _BUFFER].set_index(["arm", "trial"])
    figure = Figure(figsize=(6.5, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for trace, rows in groups:
        first = rows[rows["trial"] == rows["trial"].min()].sort_values("seconds")
        # The last sample is taken when all has been read.
        first = first.iloc[:-1] if first["in_ring"].iloc[-1] == 0 else first
        first = first[first["seconds"] > 0]
        if not first["in_ring"].max() > 0:
            continue
        look = _look(trace)
        axes.step(
            1000 * first["seconds"], first["in_ring"], where="post", color=look.color, linestyle=look.dashes,
            label=trace,
        )  # fmt: skip
        full = runs["first_loss_s"].get((first["arm"].iloc[0], first["trial"].iloc[0]), np.nan)
        if pd.notna(full):
            axes.plot([1000 * full], [first["in_ring"].max()], **look.points())
    axes.set_xlabel("ms since the trace began (mark: the first event that found no room)")
    axes.set_ylabel("events in the rings, unread")
    axes.set_ylim(bottom=0)
    axes.set_xscale("log")
    axes.grid(axis="both")
    axes.set_title(f"How long a ring lasts when few events are useful, {clock} clock")
    _legend(figure)
    return figure


def _useful(tables: Tables) -> Figure | None:
    """Share of acquisitions that the per-lock filter keeps: of each class of locks, and of all together."""
    table = tables["useful"]
    if table.empty:
        return None
    arms = list(dict.fromkeys(table["arm"]))
    # The filter alone, where it ran alone.
    arms = [arm for arm in arms if not arm.startswith("validate")] or arms
    table = table[table["arm"].isin(arms)]
    names = list(dict.fromkeys(table["workload"]))
    figure = Figure(figsize=(7.5, 1.8 + 0.42 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    for i, arm in enumerate(arms):
        mine, look = table[table["arm"] == arm], series(2 * i)
        for k, (name, rows) in enumerate(mine.groupby("workload", sort=False)):
            place = names.index(str(name)) + 0.4 * (i - (len(arms) - 1) / 2)
            by_class = rows.groupby("class")[["acquisitions", "kept"]].sum()
            by_class = by_class[by_class["acquisitions"] >= _SEEN]
            share = 100 * by_class["kept"] / by_class["acquisitions"]
            size = 4 * np.log10(by_class["acquisitions"])
            axes.scatter(
                share, np.full(len(share), place), s=size, facecolors="none", edgecolors=look.color, linewidths=0.7,
                label="_" if k else f"a class of locks, arm {arm}",
            )  # fmt: skip
            of_trial = rows.groupby("trial")[["acquisitions", "kept"]].sum()
            whole = (100 * of_trial["kept"] / of_trial["acquisitions"]).to_numpy()
            draw_medians(axes, [place], [whole], look, label="_" if k else f"all locks, arm {arm}", horizontal=True)
    _rows_axis(axes, names)
    axes.set_xscale("symlog", linthresh=0.01, linscale=0.5)
    axes.set_xlim(-0.003, 140)
    axes.set_xticks([0, 0.01, 0.1, 1, 10, 100], ["0", "0.01", "0.1", "1", "10", "100"])
    axes.set_xlabel(f"% of acquisitions that are kept; classes that were acquired {_SEEN} times or more")
    axes.set_title("Useful share, by workload")
    _legend(figure, columns=2)
    return figure


# -- one block -----------------------------------------------------------------------------------------------------


def _block(table: pd.DataFrame) -> Figure | None:
    """The block with the longest chain of waiters of all: when each thread came, got the lock and let it go."""
    if table.empty:
        return None
    keys = ["arm", "trial", "workload"]
    span = table.groupby(keys).agg(chain=("depth", "max"), begin=("begin", "min"), end=("end", "max")).reset_index()
    span = span.assign(took=span["end"] - span["begin"])
    best = span.sort_values(["chain", "took", *keys], ascending=[False, False, True, True, True]).iloc[0]
    mine = table[(table[keys] == best[keys]).all(axis=1)]
    mine = mine.assign(first=mine["begin"].fillna(mine["acquired"])).sort_values("first").head(24)
    took = float(best["took"]) / float(mine["tsc_khz"].iloc[0])
    scale, unit = (1.0, "ms") if took > 10 else (1000.0, "µs")
    micro = scale / float(mine["tsc_khz"].iloc[0])
    zero = float(mine["first"].min())
    figure = Figure(figsize=(7.5, 1.8 + 0.28 * len(mine)), layout="constrained")
    axes = figure.add_subplot()
    waits, holds = series(4), series(1)
    labels = []
    for place, row in enumerate(mine.to_dict("records")):
        got = row["acquired"] if pd.notna(row["acquired"]) else row["end"]
        if pd.notna(row["begin"]):
            axes.barh(place, micro * (got - row["begin"]), 0.6, left=micro * (row["begin"] - zero), **waits.bar())
        if pd.notna(row["acquired"]):
            axes.barh(place, micro * (row["end"] - got), 0.6, left=micro * (got - zero), **holds.bar())
        axes.plot([micro * (got - zero)] * 2, [place - 0.3, place + 0.3], color=INK, linewidth=1.5)
        labels.append(f"{int(row['pid'])}: {row['caller']}")
    axes.set_yticks(range(len(mine)), labels)
    axes.set_ylim(len(mine) - 0.4, -0.6)
    axes.set_xlabel(f"{unit} since the block began")
    axes.set_title("One block and its waiters")
    figure.suptitle(f"{mine['class'].iloc[0]}: arm {best['arm']}, workload {best['workload']}", fontweight="normal")
    for look, label in ((waits, "waits"), (holds, "holds")):
        axes.barh([0], [0], label=label, **look.bar())
    axes.grid(axis="x")
    _legend(figure)
    return figure


def _rows_axis(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(np.arange(len(names)), list(names))
    axes.set_ylim(len(names) - 0.4, -0.6)
    for border in np.arange(len(names) - 1) + 0.5:
        axes.axhline(border, color="#d0d0d0", linewidth=0.6)
    axes.grid(axis="x")


def _legend(figure: Figure, columns: int = 6) -> None:
    """One legend below all panels, each label once."""
    pairs = [pair for axes in figure.axes for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    unique = {label: handle for handle, label in pairs}
    figure.legend(unique.values(), unique.keys(), loc=_OUTSIDE, ncols=min(columns, max(1, len(unique))))
