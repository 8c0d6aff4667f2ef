"""The figures of page-trace, drawn from its tables in the style of harness.report.figures.

Every table has the columns arm, trial and workload besides those named at each function; those of harness.measure.
pagetrace are as their `frame` returns them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from harness.report.figures import INK, Series, draw_medians, series, spans_note

from .trace.timeline import regions

#: What is compared with the arm `untraced`; an arm looks the same in every figure.
METHODS = ("traced", "window-2", "window-4", "window-16", "lackey", "damon")
EXACT, BARE = "traced", "untraced"
#: The neighbour's speed may differ by so many percent: the claim's bounds.
NEIGHBOUR_BOUND = 3.0
_PANELS = 6
_ROWS, _LEAST_ROWS = 240, 10
_OUTSIDE = "outside lower center"

Tables = dict[str, pd.DataFrame]


def draw(tables: Tables) -> dict[str, Figure]:
    """One Figure per name; only those for which there is data.

    Of `tables`: map (AccessMap), curve (WorkingSetCurve), workingset (WorkingSet), reuse (ReuseDistances), cost
    (seconds, bytes), loss (oracle, missing), neighbour (alone, beside: its speed without and with a trace).
    """
    drawn = {
        "access-model": _of(tables, "map", access_model),
        "working-set": working_set(tables) if {"curve", "workingset"} <= tables.keys() else None,
        "reuse-distance": _of(tables, "reuse", reuse_distance),
        "cost": _of(tables, "cost", cost),
        "loss": _of(tables, "loss", loss),
        "neighbour": _of(tables, "neighbour", neighbour),
    }
    return {name: figure for name, figure in drawn.items() if figure is not None}


def _of(tables: Tables, name: str, function) -> Figure | None:  # type: ignore[no-untyped-def]
    return function(tables[name]) if name in tables else None


def _look(arm: str) -> Series:
    return series(METHODS.index(arm) if arm in METHODS else len(METHODS))


def _first(table: pd.DataFrame, arm: str = EXACT) -> pd.DataFrame:
    """An arm's first trial of each workload."""
    mine = table[table["arm"] == arm]
    return mine[mine["trial"] == mine.groupby("workload")["trial"].transform("min")]


def _workloads(table: pd.DataFrame, most: int = _PANELS) -> list[str]:
    return list(dict.fromkeys(table["workload"]))[:most]


def _panels(count: int, width: float, height: float) -> tuple[Figure, Sequence[Axes]]:
    """At most three panels beside each other."""
    columns = min(3, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(max(4.0, width * columns), height * rows + 0.4), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in panels[count:]:
        axes.set_visible(False)
    return figure, panels[:count]


# -- the access model --------------------------------------------------------------------------------------


def access_model(table: pd.DataFrame) -> Figure | None:
    """Page against time, one panel per workload of the exact arm's first trial; addresses that no visit goes to between
    regions are left out.
    """
    mine = _first(table)
    if mine.empty:
        return None
    names = _workloads(mine)
    figure, panels = _panels(len(names), 3.0, 2.8)
    most = 1
    images = []
    for axes, name in zip(panels, names, strict=True):
        cells = mine[mine["workload"] == name]
        image, extent, borders = _picture(cells)
        most = max(most, int(image.max()))
        shown = np.ma.masked_equal(image, 0)
        images.append(
            axes.imshow(shown, aspect="auto", origin="lower", extent=extent, cmap="viridis_r", interpolation="none")
        )
        axes.set_yticks([place for place, _ in borders], [label for _, label in borders])
        for place, _ in borders[1:]:
            axes.axhline(place, color=INK, linewidth=0.5)
        axes.set_title(name)
        axes.set_xlabel("ms since the start")
        axes.tick_params(axis="y", labelsize=7)
    # The palest colours, below one visit, are not used: they cannot be seen on white.
    norm = LogNorm(0.2, max(2, most))
    for drawn in images:
        drawn.set_norm(norm)
    panels[0].set_ylabel("page, by region of memory")
    bar = figure.colorbar(images[0], ax=list(panels), label="visits per cell", shrink=0.9)
    bar.ax.set_ylim(1, None)
    figure.suptitle("Access model: pages that the program visits")
    return figure


def _picture(cells: pd.DataFrame) -> tuple[npt.NDArray[np.float64], tuple[float, ...], list[tuple[float, str]]]:
    """Visits by row and interval, its extent in ms and rows, and where regions begin, with their address."""
    step = int(cells["interval_ns"].iloc[0])
    first = (cells["start_ns"] // step).to_numpy()
    page, place = np.unique(cells["page"].to_numpy(dtype=np.uint64), return_inverse=True)
    region = regions(page, max(1024, 2 * int(cells["pages"].iloc[0])))
    begins = np.flatnonzero(np.concatenate([[True], region[1:] != region[:-1]]))
    size = np.diff(np.append(begins, page.size))
    # Many pages share a row; a region of few, such as the stack, is stretched so that it can be seen.
    rows = np.maximum(-(-size * _ROWS // page.size), _LEAST_ROWS)
    top = np.append(0, np.cumsum(rows))
    inside = (place - begins[region[place]]) * np.minimum(1, rows / size)[region[place]]
    image = np.zeros((int(top[-1]), int(first.max()) + 1))
    np.add.at(image, (top[region[place]] + inside.astype(np.intp), first), cells["visits"].to_numpy())
    for low, high, few in zip(top, top[1:], size, strict=False):
        if few < high - low:
            image[low:high] = image[low + np.arange(high - low) * few // (high - low)]
    borders: list[tuple[float, str]] = []
    for row, begin in zip(top, begins, strict=False):
        # Labels that would touch are left out; the lowest region's stands.
        if not borders or row - borders[-1][0] > 0.06 * image.shape[0]:
            borders.append((row, f"{int(page[begin]) << 12:#x}"))
    return image, (0, image.shape[1] * step / 1e6, 0, image.shape[0]), borders


# -- locality ----------------------------------------------------------------------------------------------


def working_set(tables: Tables) -> Figure | None:
    """Mean size against tau, and size over time at the shortest tau there is, of the exact arm's first trial."""
    curve, over_time = _first(tables["curve"]).dropna(subset=["mean_pages"]), _first(tables["workingset"])
    names = _workloads(curve)
    if not names:
        return None
    figure = Figure(figsize=(7.5, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for i, name in enumerate(names):
        look = series(i)
        line = {"color": look.color, "linestyle": look.dashes}
        mine = curve[curve["workload"] == name]
        # It ends where it has all pages.
        mine = mine.iloc[: int((mine["mean_pages"] < 0.9999 * mine["mean_pages"].max()).sum()) + 1]
        style = line | {"marker": look.marker, "markevery": (i % 6, 6), "markeredgecolor": INK, "markeredgewidth": 0.5}
        left.plot(mine["tau_ns"] / 1e6, mine["mean_pages"], label=name, **style)
        then = over_time[over_time["workload"] == name]
        then = then[then["tau_ns"] == then["tau_ns"].min()]
        if len(then):
            right.step(100 * then["end_ns"] / then["end_ns"].max(), then["pages"], where="pre", **line)
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlabel("tau, ms")
    left.set_ylabel("pages in the working set, mean")
    left.set_title("mean size against tau")
    right.set_yscale("log")
    right.set_ylim(bottom=0.8)
    right.set_xlabel("% of the program's time")
    right.set_title("pages used within each interval")
    figure.suptitle("Working set")
    figure.legend(loc=_OUTSIDE, ncols=min(6, len(names)))
    return figure


def reuse_distance(table: pd.DataFrame) -> Figure | None:
    """Share of visits by reuse distance; first visits apart, at the right."""
    mine = _first(table)
    names = _workloads(mine)
    if not names:
        return None
    figure = Figure(figsize=(7, 3.8), layout="constrained")
    axes = figure.add_subplot()
    edges = np.unique(mine.loc[mine["low"] >= 0, ["low", "high"]].to_numpy())
    places = {int(edge): place for place, edge in enumerate(edges)}
    cold = len(edges) + 1
    for i, name in enumerate(names):
        rows = mine[mine["workload"] == name]
        share = (rows["visits"] / max(1, rows["visits"].sum())).replace(0, np.nan)
        at = [places[low] + 0.5 if low >= 0 else cold + 0.5 for low in rows["low"].tolist()]
        binned = rows["low"].to_numpy() >= 0
        look = series(i)
        axes.plot(np.array(at)[binned], share[binned], label=name, **look.line())
        axes.plot(np.array(at)[~binned] + 0.16 * (i - len(names) / 2), share[~binned], **look.points())
    ticks = [place for edge, place in places.items() if edge in (0, 1) or edge & (edge - 1) == 0]
    axes.set_xticks([*ticks, cold + 0.5], [*(_short(int(edges[place])) for place in ticks), "first\nvisit"])
    axes.axvline(len(edges), color=INK, linewidth=0.6, linestyle=":")
    axes.set_yscale("log")
    axes.set_ylim(1e-6, 1.5)
    axes.set_xlabel("reuse distance: other pages visited since the page's last visit (bin from here to the next)")
    axes.set_ylabel("share of visits (no mark: none)")
    axes.set_title("Reuse distance")
    axes.grid(axis="y")
    figure.legend(loc=_OUTSIDE, ncols=min(6, len(names)))
    return figure


def _short(number: int) -> str:
    """1024 as 1K."""
    for shift, unit in ((20, "M"), (10, "K")):
        if number >= 1 << shift:
            return f"{number >> shift}{unit}"
    return str(number)


# -- methods -----------------------------------------------------------------------------------------------


def cost(table: pd.DataFrame) -> Figure | None:
    """Slowdown and data volume of each method by workload: columns seconds and bytes, arm `untraced` for comparison."""
    bare = table[table["arm"] == BARE].groupby("workload")["seconds"].median()
    mine = table[table["arm"].isin(METHODS) & table["workload"].isin(bare.index)]
    if mine.empty:
        return None
    mine = mine.assign(slowdown=mine["seconds"] / mine["workload"].map(bare))
    names = _workloads(mine, most=100)
    figure = Figure(figsize=(8, 1.6 + 0.42 * len(names)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, column in zip(panels, ("slowdown", "bytes"), strict=True):
        _by_workload(axes, mine, column, names)
        axes.set_xscale("log")
    panels[0].axvline(1, color=INK, linewidth=0.8, linestyle=":")
    note = _note(mine)
    panels[0].set_xlabel(f"times as long as untraced ({note})")
    panels[1].set_xlabel(f"bytes of data ({note})")
    panels[1].xaxis.set_major_formatter(FuncFormatter(_bytes))
    figure.suptitle("What each method costs")
    _legend(figure)
    return figure


def _by_workload(axes: Axes, table: pd.DataFrame, column: str, names: Sequence[str]) -> None:
    """One row per workload, one mark per method; values that a logarithmic axis has no place for are left out."""
    arms = [arm for arm in METHODS if arm in set(table["arm"])]
    for i, arm in enumerate(arms):
        mine = table[(table["arm"] == arm) & (table[column] > 0)]
        by_name = {name: group[column].to_numpy() for name, group in mine.groupby("workload") if name in names}
        if not by_name:
            continue
        places = [names.index(str(name)) + 0.13 * (i - (len(arms) - 1) / 2) for name in by_name]
        draw_medians(axes, places, list(by_name.values()), _look(arm), label=arm, horizontal=True)
    axes.set_yticks(np.arange(len(names)), list(names))
    axes.set_ylim(len(names) - 0.4, -0.6)
    for border in np.arange(len(names) - 1) + 0.5:
        axes.axhline(border, color="#d0d0d0", linewidth=0.6)
    axes.grid(axis="x")


def _note(table: pd.DataFrame) -> str:
    return spans_note(int(table.groupby(["arm", "workload"])["trial"].nunique().min()))


def _bytes(value: float, _place: object = None) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g} B"


def loss(table: pd.DataFrame) -> Figure | None:
    """Share of the exact visits that each window misses: columns oracle and missing, in visits."""
    mine = table[table["arm"].isin(METHODS) & (table["oracle"] > 0)]
    mine = mine.assign(share=100 * mine["missing"] / mine["oracle"])
    names = _workloads(mine, most=100)
    if not names:
        return None
    figure = Figure(figsize=(6, 1.5 + 0.36 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    # A window of one loses nothing: 0 has a place on this axis.
    shown = mine.assign(share=mine["share"].clip(lower=1e-9))
    _by_workload(axes, shown, "share", names)
    axes.set_xscale("symlog", linthresh=0.01, linscale=0.5)
    axes.set_xlim(-0.002, 130)
    axes.set_xticks([0, 0.01, 0.1, 1, 10, 100], ["0", "0.01", "0.1", "1", "10", "100"])
    axes.set_xlabel(f"% of the exact visits that are missing ({_note(mine)})")
    axes.set_title("What a window of several pages loses")
    _legend(figure)
    return figure


def neighbour(table: pd.DataFrame) -> Figure | None:
    """Another process's speed while a program is traced: columns alone and beside, in the same unit."""
    mine = table[(table["alone"] > 0) & table["beside"].notna()]
    mine = mine.assign(change=100 * (mine["beside"] / mine["alone"] - 1))
    names = _workloads(mine, most=100)
    if not names:
        return None
    figure = Figure(figsize=(5.5, 1.5 + 0.34 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    axes.axvspan(-NEIGHBOUR_BOUND, NEIGHBOUR_BOUND, color="#e8e8e8", label=f"±{NEIGHBOUR_BOUND:g} %")
    axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
    samples = [mine.loc[mine["workload"] == name, "change"].to_numpy() for name in names]
    draw_medians(axes, np.arange(len(names)), samples, series(0), label="neighbour", horizontal=True)
    axes.set_yticks(np.arange(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    reach = max(1.5 * NEIGHBOUR_BOUND, 1.1 * max(float(np.abs(values).max()) for values in samples))
    axes.set_xlim(-reach, reach)
    axes.set_xlabel(f"change of the neighbour's speed, % ({spans_note(min(map(len, samples)))})")
    axes.set_title("A neighbour while the named program is traced")
    _legend(figure)
    return figure


def _legend(figure: Figure) -> None:
    """One legend below all panels, each label once."""
    pairs = [pair for axes in figure.axes for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    unique = {label: handle for handle, label in pairs}
    figure.legend(unique.values(), unique.keys(), loc=_OUTSIDE, ncols=min(6, max(1, len(unique))))
