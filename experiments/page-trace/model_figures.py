# SPDX-License-Identifier: MIT
"""Figures of the access model: one panel per program of the exact arm's first trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from harness.report.figures import INK, series

from .trace.timeline import regions

_Extent = tuple[float, float, float, float]
_ROWS, _LEAST_ROWS = 240, 10
#: The least share of visits that a figure of reuse distances has room for.
_LEAST_SHARE = 1e-6


def _first(table: pd.DataFrame) -> pd.DataFrame:
    """The first trial of each program."""
    return table[table["trial"] == table.groupby("workload")["trial"].transform("min")]


def _programs(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(table["workload"]))


def _panels(count: int, width: float, height: float) -> tuple[Figure, Sequence[Axes]]:
    """At most three panels beside each other."""
    columns = min(3, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(max(4.0, width * columns), height * rows + 0.4), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in panels[count:]:
        axes.set_visible(False)
    return figure, panels[:count]


def access_model(table: pd.DataFrame) -> Figure | None:
    """Page against time, one panel per workload of the exact arm's first trial; addresses that no visit goes to between
    regions are left out.
    """
    first = _first(table)
    if first.empty:
        return None
    names = _programs(first)
    figure, panels = _panels(len(names), 3.0, 2.8)
    most = 1
    images = []
    for axes, name in zip(panels, names, strict=True):
        cells = first[first["workload"] == name]
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


def _picture(cells: pd.DataFrame) -> tuple[npt.NDArray[np.float64], _Extent, list[tuple[float, str]]]:
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


def working_set(curve: pd.DataFrame) -> Figure | None:
    """Mean size against tau."""

    def one(axes: Axes, rows: pd.DataFrame) -> None:
        # It ends where it has all pages.
        rows = rows.iloc[: int((rows["mean_pages"] < 0.9999 * rows["mean_pages"].max()).sum()) + 1]
        axes.plot(rows["tau_ns"] / 1e6, rows["mean_pages"], color=series(0).color)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("tau, ms")

    title = "Working set: pages in use within the last tau, mean over the program's time"
    return _small(_first(curve).dropna(subset=["mean_pages"]), one, title, "pages")


def working_set_over_time(sizes: pd.DataFrame) -> Figure | None:
    """Pages used within each interval, which is the shortest tau there is."""

    def one(axes: Axes, rows: pd.DataFrame) -> None:
        rows = rows[rows["tau_ns"] == rows["tau_ns"].min()]
        axes.step(rows["end_ns"] / 1e6, rows["pages"], where="pre", color=series(0).color)
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.8)
        axes.set_xlabel("ms since the start")

    return _small(_first(sizes), one, "Working set: pages used within each of 200 intervals of time", "pages")


def reuse_distance(table: pd.DataFrame) -> Figure | None:
    """Share of visits by reuse distance; first visits apart, at the right."""
    first = _first(table)
    edges = np.unique(first.loc[first["low"] >= 0, ["low", "high"]].to_numpy())
    places = {int(edge): place for place, edge in enumerate(edges)}
    cold = len(edges) + 1
    ticks = [place for edge, place in places.items() if edge in (0, 1, 4, 16, 64, 256, 1024, 4096)]

    def one(axes: Axes, rows: pd.DataFrame) -> None:
        share = (rows["visits"] / max(1, rows["visits"].sum())).replace(0, np.nan)
        at = np.array([places[low] + 0.5 if low >= 0 else cold + 0.5 for low in rows["low"].tolist()])
        axes.bar(at, share - _LEAST_SHARE, 0.8, bottom=_LEAST_SHARE, color=series(0).color)
        axes.axvline(len(edges), color=INK, linewidth=0.6, linestyle=":")
        axes.set_xticks([*ticks, cold + 0.5], [*(_short(int(edges[place])) for place in ticks), "first"])
        axes.set_xlim(-0.3, cold + 1.3)
        axes.set_yscale("log")
        axes.set_ylim(_LEAST_SHARE, 1.5)
        axes.grid(axis="y")
        axes.set_xlabel("other pages since the last visit")

    return _small(first, one, "Reuse distance; at the right, first visits of pages", "share of visits")


def _small(table: pd.DataFrame, one: Callable[[Axes, pd.DataFrame], None], title: str, label: str) -> Figure | None:
    """A panel per program, drawn by `one`; `label` of the left axes."""
    names = _programs(table)
    if not names:
        return None
    figure, panels = _panels(len(names), 2.8, 2.0)
    for place, (axes, name) in enumerate(zip(panels, names, strict=True)):
        one(axes, table[table["workload"] == name])
        axes.set_title(name)
        if place % 3 == 0:
            axes.set_ylabel(label)
    figure.suptitle(title)
    return figure


def _short(number: int) -> str:
    """1024 as 1K."""
    for shift, unit in ((20, "M"), (10, "K")):
        if number >= 1 << shift:
            return f"{number >> shift}{unit}"
    return str(number)
