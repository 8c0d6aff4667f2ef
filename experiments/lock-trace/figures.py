# SPDX-License-Identifier: MIT
"""The figures of lock-trace, drawn from its tables in the style of harness.report.figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from harness.report.figures import INK, Series, draw_bars, draw_medians, draw_paper, series, spans_note
from harness.report.panels import legend_below, name_rows, panel, those_there

from .shown import PAPER_CYCLES, TRACES

CLOCKS = {"virtual": "instructions", "wall": "TSC cycles"}
_PAIR, _BUFFER = "spin", "buffer"
#: Shares of fewer acquisitions are left out.
_SEEN = 10

Tables = dict[str, pd.DataFrame]


def draw(tables: Tables, metrics: pd.DataFrame) -> dict[str, Figure]:
    """One Figure per name; only those for which there is data. What depends on timing is drawn without the trials that
    the host disturbed, as the metrics are.
    """
    sound = tables["trials"].loc[tables["trials"]["disturbed"].isna(), ["arm", "trial", "clock"]]
    runs = tables["runs"].merge(sound, on=["arm", "trial"])
    timed = {name: tables[name].merge(sound[["arm", "trial"]]) for name in ("pair", "quantiles", "fill", "useful")}
    traces = runs.drop_duplicates("arm")[["arm", "trace", "clock"]]
    slowdown = _slowdowns(metrics)
    drawn: dict[str, Figure | None] = {}
    for clock in CLOCKS:
        arms = traces[traces["clock"] == clock]
        drawn[f"pair-cost-{clock}"] = _pair_cost(timed, arms, clock)
        drawn[f"fill-{clock}"] = _fill(timed | {"traces": tables["traces"]}, arms, clock)
        drawn[f"slowdown-{clock}"] = _slowdown(slowdown.merge(arms, on="arm"), clock)
    drawn["useful"] = _useful(timed["useful"])
    drawn["block"] = _block(tables["block"])
    return those_there(drawn)


def _slowdowns(metrics: pd.DataFrame) -> pd.DataFrame:
    """arm, trial, workload, slowdown: of each workload that has one."""
    names = metrics["metric"].str.extract(r"^slowdown\.(?P<workload>.+)$")["workload"]
    rows = metrics.assign(workload=names)[names.notna() & metrics["value"].notna()]
    return rows.rename(columns={"value": "slowdown"})[["arm", "trial", "workload", "slowdown"]]


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
    groups = _by_trace(tables["pair"][tables["pair"]["kind"] == _PAIR], arms)
    if not groups:
        return None
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.2))
    for place, (trace, rows) in enumerate(groups):
        draw_bars(left, [place], [rows["mean_first"]], _look(trace), label=trace, width=0.7)
    printed = [(place, PAPER_CYCLES[trace]) for place, (trace, _) in enumerate(groups) if trace in PAPER_CYCLES]
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
    legend_below(figure)
    return figure


def _slowdown(slowdown: pd.DataFrame, clock: str) -> Figure | None:
    """How much longer each workload takes, by the way of tracing."""
    slowdown = slowdown[~slowdown["workload"].str.startswith(_BUFFER)]
    if slowdown.empty:
        return None
    names = list(dict.fromkeys(slowdown["workload"]))
    traces = [trace for trace in TRACES if trace in set(slowdown["trace"])]
    figure, axes = panel(6.5, 1.6 + 0.42 * len(names))
    for i, trace in enumerate(traces):
        of_trace = slowdown[slowdown["trace"] == trace]
        rows = {name: group["slowdown"] for name, group in of_trace.groupby("workload")}
        places = [names.index(str(name)) + 0.14 * (i - (len(traces) - 1) / 2) for name in rows]
        draw_medians(axes, places, list(rows.values()), _look(trace), label=trace, horizontal=True)
    name_rows(axes, names, apart=True)
    axes.grid(axis="x")
    axes.axvline(1, color=INK, linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    trials = int(slowdown.groupby(["arm", "workload"])["trial"].nunique().min())
    axes.set_xlabel(f"times as long as untraced ({spans_note(trials)})")
    axes.set_title(f"What tracing costs the workloads, {clock} clock")
    legend_below(figure)
    return figure


# -- buffers and what is useful ---------------------------------------------------------------------------------


def _fill(tables: Tables, arms: pd.DataFrame, clock: str) -> Figure | None:
    """The ring that nobody reads, first trial of each arm: events in it over time, and when the first one was lost."""
    table = tables["fill"]
    groups = _by_trace(table[table["workload"] == _BUFFER], arms)
    if not groups:
        return None
    traces = tables["traces"]
    losses = traces[traces["workload"] == _BUFFER].set_index(["arm", "trial"])["first_loss_s"]
    figure, axes = panel(6.5, 3.8)
    for trace, rows in groups:
        first = rows[rows["trial"] == rows["trial"].min()].sort_values("seconds")
        # The last sample is taken when all has been read.
        first = first.iloc[:-1] if first["in_ring"].iloc[-1] == 0 else first
        first = first[first["seconds"] > 0]
        if first.empty or not first["in_ring"].max() > 0:
            continue
        look = _look(trace)
        axes.step(
            1000 * first["seconds"], first["in_ring"], where="post", color=look.color, linestyle=look.dashes,
            label=trace,
        )  # fmt: skip
        full = losses.get((first["arm"].iloc[0], first["trial"].iloc[0]), np.nan)
        if pd.notna(full):
            axes.plot([1000 * full], [first["in_ring"].max()], **look.points())
    axes.set_xlabel("ms since the trace began (mark: the first event that found no room)")
    axes.set_ylabel("events in the rings, unread")
    axes.set_ylim(bottom=0)
    axes.set_xscale("log")
    axes.grid(axis="both")
    axes.set_title(f"How long a ring lasts when few events are useful, {clock} clock")
    legend_below(figure)
    return figure


def _useful(table: pd.DataFrame) -> Figure | None:
    """Share of acquisitions that the per-lock filter keeps: of each class of locks, and of all together."""
    if table.empty:
        return None
    arms = list(dict.fromkeys(table["arm"]))
    # The filter alone, where it ran alone.
    arms = [arm for arm in arms if not arm.startswith("validate")] or arms
    table = table[table["arm"].isin(arms)]
    names = list(dict.fromkeys(table["workload"]))
    figure, axes = panel(7.5, 1.8 + 0.42 * len(names))
    for i, arm in enumerate(arms):
        of_arm, look = table[table["arm"] == arm], series(2 * i)
        for k, (name, rows) in enumerate(of_arm.groupby("workload", sort=False)):
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
    name_rows(axes, names, apart=True)
    axes.grid(axis="x")
    axes.set_xscale("symlog", linthresh=0.01, linscale=0.5)
    axes.set_xlim(-0.003, 140)
    axes.set_xticks([0, 0.01, 0.1, 1, 10, 100], ["0", "0.01", "0.1", "1", "10", "100"])
    axes.set_xlabel(f"% of acquisitions that are kept; classes that were acquired {_SEEN} times or more")
    axes.set_title("Useful share, by workload")
    legend_below(figure, columns=2)
    return figure


# -- one block -----------------------------------------------------------------------------------------------------


def _block(table: pd.DataFrame) -> Figure | None:
    """The block with the longest chain of waiters of all: when each thread came, got the lock and let it go."""
    if table.empty:
        return None
    keys = ["arm", "trial", "workload"]
    span = table.groupby(keys).agg(chain=("depth", "max"), begin=("begin_s", "min"), end=("end_s", "max")).reset_index()
    span = span.assign(took=span["end"] - span["begin"])
    best = span.sort_values(["chain", "took", *keys], ascending=[False, False, True, True, True]).iloc[0]
    rows = table[(table[keys] == best[keys]).all(axis=1)]
    rows = rows.assign(first=rows["begin_s"].fillna(rows["acquired_s"])).sort_values("first").head(24)
    scale, unit = (1e3, "ms") if best["took"] > 0.01 else (1e6, "µs")
    zero = float(rows["first"].min())
    figure, axes = panel(7.5, 1.8 + 0.28 * len(rows))
    waits, holds = series(4), series(1)
    labels = []
    for place, row in enumerate(rows.to_dict("records")):
        got = row["acquired_s"] if pd.notna(row["acquired_s"]) else row["end_s"]
        if pd.notna(row["begin_s"]):
            axes.barh(place, scale * (got - row["begin_s"]), 0.6, left=scale * (row["begin_s"] - zero), **waits.bar())
        if pd.notna(row["acquired_s"]):
            axes.barh(place, scale * (row["end_s"] - got), 0.6, left=scale * (got - zero), **holds.bar())
        axes.plot([scale * (got - zero)] * 2, [place - 0.3, place + 0.3], color=INK, linewidth=1.5)
        labels.append(f"{int(row['pid'])}: {row['caller']}")
    name_rows(axes, labels)
    axes.set_xlabel(f"{unit} since the block began")
    axes.set_title("One block and its waiters")
    figure.suptitle(f"{rows['class'].iloc[0]}: arm {best['arm']}, workload {best['workload']}", fontweight="normal")
    for look, label in ((waits, "waits"), (holds, "holds")):
        axes.barh([0], [0], label=label, **look.bar())
    axes.grid(axis="x")
    legend_below(figure)
    return figure
