# SPDX-License-Identifier: MIT
"""The figures of shim, drawn from its tables in the style of harness.report.figures.

The paper's numbers are of native hardware: they are drawn to show what it says, not to be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from harness.measure.trials import least_disturbed
from harness.report.figures import INK, Series, draw_bars, draw_medians, draw_paper, series, spans_note
from harness.report.panels import legend_below, name_rows, panel, those_there

ARMS = ("fast", "period-1us", "period-10us", "period-100us", "tracepoint", "bpf", "hardware")
#: Those that differ in the period alone: a curve.
OF_CALLBACK = ARMS[:4]
#: Yang, Blackburn and McKinley 2015, Haswell, one software signal. Shortest periods (cycles) on the SMT sibling and on
#: another core, where more than half of the samples are untrusted, and the period with at most 10 %.
PAPER_TRUST = ([15.0, 30.0, 2500.0], [0.5, 0.5, 0.9])
#: Cost on the target by period in cycles: another core.
PAPER_COST = ([30.0, 1213.0], [1.0, 0.02])
NATIVE = "paper, native (not comparable)"
#: Of one length: fewer gaps are no share.
FEW_GAPS = 20
TRACKS = ("seen by the observer", "sched_switch")

Tables = Mapping[str, pd.DataFrame]


def draw(tables: Tables) -> dict[str, Figure]:
    """One Figure per name; only those for which there is data."""
    drawers: dict[str, Callable[[Tables], Figure | None]] = {
        "periods": periods,
        "trust": trust,
        "rates": rates,
        "intervals": intervals,
        "idle": idle,
        "timeline": timeline,
        "cost": cost,
        "timer": timer,
        "gaps": gaps,
    }
    chosen = {name: least_disturbed(table, tables["trials"]) for name, table in tables.items()}
    made = {name: drawer(chosen) for name, drawer in drawers.items()}
    return those_there(made)


def _look(arm: str) -> Series:
    return series(ARMS.index(arm) if arm in ARMS else len(ARMS))


def _arms(table: pd.DataFrame) -> list[str]:
    there = list(dict.fromkeys(table["arm"]))
    return sorted(there, key=lambda arm: ARMS.index(arm) if arm in ARMS else len(ARMS))


def _table(tables: Tables, name: str, workload: str | None = None, run: str | None = None) -> pd.DataFrame:
    """Rows of one workload and run; empty when there are none."""
    table = tables[name]
    if workload is not None:
        table = table.loc[table["workload"] == workload]
    if run is not None:
        table = table.loc[table["run"] == run]
    return table


def _first(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of one trial: the first of the first arm in the order of ARMS, whatever the order of the plan."""
    own = table[table["arm"] == _arms(table)[0]]
    return own[own["trial"].eq(own["trial"].min())]


def _note(tables: Tables, table: pd.DataFrame) -> str:
    """What the symbols stand for, and of what trials."""
    return spans_note(int(table.groupby("arm")["trial"].nunique().min())) + _disturbed(tables, table)


def _disturbed(tables: Tables, table: pd.DataFrame) -> str:
    """Words for a label where only trials that the host disturbed could be drawn."""
    trials = tables["trials"]
    disturbed = trials.loc[trials["disturbed"].notna(), "arm"]
    return "; host disturbed" if table["arm"].isin(disturbed).any() else ""


def periods(tables: Tables) -> Figure | None:
    """Share of windows that are at most so long, by arm: the distribution of the period."""
    table = _table(tables, "periods", "trust", "clean")
    if table.empty:
        return None
    figure, axes = panel()
    for arm in _arms(table):
        buckets = table[table["arm"] == arm]
        counts = buckets.groupby(["low", "high"])["windows"].sum().reset_index().sort_values("low")
        share = counts["windows"].cumsum() / counts["windows"].sum()
        look = _look(arm)
        places = counts["high"] / buckets["tsc_hz"].iloc[0] * 1e9
        axes.plot(places, share, color=look.color, linestyle=look.dashes, label=f"arm {arm}", drawstyle="steps-post")
    axes.set_xscale("log")
    axes.set_xlabel(f"period between samples, ns of the guest's clock{_disturbed(tables, table)}")
    axes.set_ylabel("share of windows at most so long")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid()
    axes.set_title("How regularly the observer samples")
    legend_below(figure, columns=3)
    return figure


def trust(tables: Tables) -> Figure | None:
    """Trusted share against the period: one point per arm, each of all its windows."""
    runs = _table(tables, "runs", "trust", "clean").merge(
        _table(tables, "period_quantiles", "trust", "clean")[["arm", "trial", "p50_ns"]], on=["arm", "trial"]
    )
    if runs.empty:
        return None
    figure, axes = panel()
    places, shares = [], []
    for arm in _arms(runs):
        own = runs[runs["arm"] == arm]
        places.append((own["p50_ns"] * own["tsc_hz"] / 1e9).median())
        shares.append(own["trusted_share"].median())
        draw_medians(axes, [places[-1]], [own["trusted_share"].to_numpy()], _look(arm), label=f"arm {arm}")
    order = np.argsort(places)
    axes.plot(np.array(places)[order], np.array(shares)[order], color="0.6", linewidth=0.8, zorder=0)
    draw_paper(axes, *PAPER_TRUST, label=NATIVE)
    axes.set_xscale("log")
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel(f"median period, cycles of the clock ({_note(tables, runs)})")
    axes.set_ylabel("trusted windows")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid()
    axes.set_title("Trusted share against the period")
    legend_below(figure, columns=3)
    return figure


def rates(tables: Tables) -> Figure | None:
    """Instructions per microsecond of each thread over time, of one trial."""
    table = _table(tables, "rates")
    if table.empty:
        return None
    rows = _first(table)
    longest = rows.groupby("thread")["seconds"].sum().sort_values(ascending=False).index[:6]
    figure, axes = panel(6.4, 3.8)
    for i, thread in enumerate(longest):
        own = rows[rows["thread"] == thread].sort_values("start_s")
        axes.plot(own["start_s"] * 1e3, own["per_s"] / 1e6, label=str(thread), markersize=3, **_points(series(i)))
    axes.set_xlabel("ms since the first sample")
    axes.set_ylabel("instructions per µs, in windows of the thread")
    axes.set_ylim(bottom=0)
    axes.grid()
    axes.set_title(f"Rate of each thread ({_trial(rows)}{_disturbed(tables, rows)})")
    legend_below(figure, columns=3)
    return figure


def _trial(rows: pd.DataFrame) -> str:
    return f"arm {rows['arm'].iloc[0]}, trial {rows['trial'].iloc[0]}"


def _points(look: Series) -> dict[str, Any]:
    return {name: value for name, value in look.points().items() if name != "markeredgewidth"} | {
        "markeredgewidth": 0.2
    }


def intervals(tables: Tables) -> Figure | None:
    """How long threads and idle had the CPU, as seen and by the kernel's trace: one panel per workload."""
    table = _table(tables, "intervals")
    if table.empty:
        return None
    names = list(dict.fromkeys(table["workload"]))
    figure = Figure(figsize=(max(4.5, 3.0 * len(names)), 3.6), layout="constrained")
    for axes, workload in zip(figure.subplots(1, len(names), squeeze=False).flat, names, strict=True):
        rows = table[table["workload"] == workload]
        arm = _arms(rows)[0]
        rows = rows[rows["arm"] == arm]
        for i, what in enumerate(("thread", "idle")):
            for source, width in (("truth", 3.5), ("seen", 1.2)):
                own = rows[(rows["what"] == what) & (rows["source"] == source)]
                counts = own.groupby(["low", "high"], as_index=False)["count"].sum().sort_values("low")
                if len(counts):
                    label = f"{what}, {'sched_switch' if source == 'truth' else 'seen'}"
                    place = np.sqrt(counts["low"] * counts["high"])
                    pale = {"alpha": 0.35} if source == "truth" else {"marker": series(i).marker, "markersize": 3}
                    axes.plot(
                        place, counts["count"], color=series(2 * i + 1).color, linewidth=width, label=label, **pale
                    )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("time on the CPU, µs")
        axes.set_title(f"{workload} (arm {arm})")
        axes.grid()
    figure.axes[0].set_ylabel("intervals between switches")
    legend_below(figure, columns=5)
    return figure


def idle(tables: Tables) -> Figure | None:
    """Idle share of the CPU as the observer saw it, as traced, and as the load made it."""
    table = _table(tables, "idle")
    if table.empty:
        return None
    figure, axes = panel(6.0, 1.6 + 0.4 * table["arm"].nunique())
    arms = _arms(table)
    names = (("seen_share", "seen by the observer"), ("truth_share", "sched_switch"), ("load_share", "the load's own"))
    for i, (column, label) in enumerate(names):
        samples = [table.loc[table["arm"] == arm, column].dropna().to_numpy() for arm in arms]
        known = [(place, values) for place, values in enumerate(samples) if values.size]
        if known:
            places = [place + 0.2 * (i - 1) for place, _ in known]
            draw_medians(axes, places, [values for _, values in known], series(i), label=label, horizontal=True)
    name_rows(axes, arms)
    axes.set_xlabel(f"idle share of the observed CPU ({_note(tables, table)})")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=1))
    axes.grid(axis="x")
    legend_below(figure, columns=3)
    return figure


def timeline(tables: Tables) -> Figure | None:
    """Who had the CPU, in the first 40 ms of one trial of each workload: above as seen, below as traced."""
    table = _table(tables, "slices")
    if table.empty:
        return None
    names = [name for name in ("pattern", "phases", "switches") if (table["workload"] == name).any()]
    figure = Figure(figsize=(6.8, 1.3 * len(names) + 0.8), layout="constrained")
    for axes, workload in zip(figure.subplots(len(names), 1, squeeze=False).flat, names, strict=True):
        rows = _first(table[table["workload"] == workload])
        trial = _trial(rows)
        span = 0.001 if workload == "switches" else 0.04
        rows = rows[rows["start_s"] < span]
        longest = rows.groupby("name")["duration_s"].sum().drop("idle", errors="ignore").nlargest(4).index
        looks = {"idle": series(5)} | {str(name): series(i) for i, name in enumerate(longest)}
        for row, track in enumerate(TRACKS):
            own = rows[rows["track"] == track]
            for name, slices in own.groupby("name", sort=False):
                label = str(name) if name in looks else "others"
                spans = list(zip(slices["start_s"] * 1e3, slices["duration_s"] * 1e3, strict=True))
                color = looks[label].color if label in looks else "0.6"
                axes.broken_barh(spans, (row - 0.4, 0.8), facecolor=color, label=label, linewidth=0)
        axes.set_yticks(range(len(TRACKS)), ["seen", "sched_switch"])
        axes.set_ylim(1.6, -0.6)
        axes.set_xlim(0, span * 1e3)
        axes.set_title(f"{workload}, {trial}")
        handles = {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        axes.legend(handles.values(), handles.keys(), loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7)
    figure.axes[-1].set_xlabel("ms")
    return figure


def cost(tables: Tables) -> Figure | None:
    """How much slower the target is while it is observed, against the observer's period."""
    table, runs = _table(tables, "cost", "cost"), _table(tables, "runs", "cost")
    if table.empty or runs.empty:
        return None
    table = table[table["what"] == "observer"]
    figure, axes = panel()
    per_trial = table.groupby(["arm", "trial"])["ratio"].median() - 1
    curve = []
    for arm in [arm for arm in _arms(table) if (runs["arm"] == arm).any()]:
        place = (runs.loc[runs["arm"] == arm, "period_mean_ns"] * runs["tsc_hz"] / 1e9).median()
        draw_medians(axes, [place], [per_trial[arm].to_numpy()], _look(arm), label=f"arm {arm}")
        if arm in OF_CALLBACK:
            curve.append((place, per_trial[arm].median()))
    if curve:
        axes.plot(*zip(*sorted(curve), strict=True), color="0.6", linewidth=0.8, zorder=0)
    draw_paper(axes, *PAPER_COST, label=NATIVE)
    axes.axhline(0, color=INK, linewidth=0.6, linestyle=":")
    axes.set_xscale("log")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel(f"mean period, cycles of the clock ({_note(tables, table)})")
    axes.set_ylabel("target slower by")
    axes.grid()
    axes.set_title("The observer's cost on its target")
    legend_below(figure, columns=3)
    return figure


def timer(tables: Tables) -> Figure | None:
    """Samples per second of the observer and of the timer sampler, one after the other on the same target."""
    table, runs = _table(tables, "timer"), _table(tables, "runs", "timer", "fast")
    if table.empty or runs.empty:
        return None
    figure, axes = panel()
    alone = table[table["when"] == "alone"]
    arms = [arm for arm in _arms(runs) if (alone["arm"] == arm).any()]
    if not arms:
        return None
    own = [runs.loc[runs["arm"] == arm, "samples_per_s"].to_numpy() for arm in arms]
    other = [alone.loc[alone["arm"] == arm, "samples_per_s"].clip(lower=1e-9).to_numpy() for arm in arms]
    places = np.arange(len(arms))
    draw_bars(axes, places - 0.2, own, series(0), label="observer", width=0.38)
    draw_bars(axes, places + 0.2, other, series(3), label="timer sampler at its highest rate", width=0.38)
    axes.set_xticks(places, arms)
    axes.set_yscale("log")
    axes.set_ylim(bottom=10)
    axes.set_ylabel(f"samples per second{_disturbed(tables, runs)}")
    axes.grid(axis="y")
    legend_below(figure, columns=2)
    return figure


def gaps(tables: Tables) -> Figure | None:
    """Share of the times between two switches that were seen, by their length, beside what the period allows."""
    table = tables["gaps"]
    if table.empty:
        return None
    figure = Figure(figsize=(7.4, 3.8), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, what in zip(panels, ("thread", "idle"), strict=True):
        for arm in _arms(table):
            own = table[(table["arm"] == arm) & (table["what"] == what)]
            sums = own.groupby(["low_us", "high_us"])[["gaps_all", "seen_all", "expected"]].sum().reset_index()
            sums = sums[sums["gaps_all"] >= FEW_GAPS]
            place, look = np.sqrt(sums["low_us"].clip(lower=0.5) * sums["high_us"]), _look(arm)
            axes.plot(place, sums["seen_all"] / sums["gaps_all"], label=f"arm {arm}", **look.line())
            expected = sums["expected"] / sums["gaps_all"]
            axes.plot(place, expected, color=look.color, linewidth=0.8, linestyle=":", label="by its period")
        axes.set_xscale("log")
        axes.set_ylim(-0.03, 1.03)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_xlabel(f"µs{_disturbed(tables, table)}")
        axes.set_title("a thread had the CPU for" if what == "thread" else "the CPU was idle for")
        axes.grid()
    panels[0].set_ylabel("of these, seen")
    legend_below(figure, columns=5)
    return figure
