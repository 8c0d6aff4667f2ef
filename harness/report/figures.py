# SPDX-License-Identifier: MIT
"""Figures: one style for all experiments, vector files that come out the same every time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from harness.choices import FigureFormat
from harness.errors import RunError
from harness.experiment.expect import MIN_TRIALS
from harness.measure.dimensions import dimensions_of
from harness.measure.rows import METRIC_COLUMNS
from harness.measure.statistics import median_estimate

#: Readable in grey and in print; a fixed salt keeps element ids of SVG files equal from run to run.
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "krepro",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlesize": 10.0,
    "figure.titlesize": 10.0,
    "figure.titleweight": "bold",
    "grid.color": "#d0d0d0",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 5.0,
    "errorbar.capsize": 2.5,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
METADATA: dict[FigureFormat, dict[str, str | None]] = {
    "svg": {"Date": None, "Creator": "krepro"},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": "krepro", "Producer": "krepro"},
    "png": {"Software": "krepro"},
}

#: From dark to light, at least 12 steps of CIE lightness apart, so that any two differ in grey and to the colour-blind.
PALETTE = ("#12233f", "#8c2d4f", "#2a78b5", "#d9812b", "#7fc9aa", "#f7e3a1")
#: matplotlib names parts of an SVG by a hash of exact coordinates. Their last bits depend on the CPU: OpenBLAS has a
#: kernel for each.
_SVG_IDS = re.compile(r'(?<=\bid=")[a-z][0-9a-f]{10}(?=")|(?<=#)[a-z][0-9a-f]{10}(?=[")])')
_HATCHES = ("", "//", "-", "", "\\\\", "")
_MARKERS = ("o", "s", "^", "v", "D", "P")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
INK = "#000000"


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw and write figures in the project's one style."""
    with mpl.rc_context(STYLE):
        yield


def write_figures(figures: Mapping[str, Figure], folder: Path, form: FigureFormat = "svg") -> list[Path]:
    """Write each figure to `folder`/NAME.form, byte-identical for equal figures, an SVG on any CPU; the paths written.

    RunError naming the figure that cannot be drawn: much of what is wrong in one, matplotlib sees only now.
    """
    if not figures:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with figure_style():
        for name, figure in figures.items():
            path = folder / f"{name}.{form}"
            try:
                figure.savefig(path, format=form, metadata=METADATA[form], dpi=150)
            except OSError:
                raise
            except (Exception, SystemExit) as error:
                path.unlink(missing_ok=True)
                what = " ".join(str(error).split())
                raise RunError(f"figure {name} cannot be drawn: {type(error).__name__}: {what}") from error
            if form == "svg":
                path.write_text(_numbered(path.read_text()))
            written.append(path)
    return written


def _numbered(svg: str) -> str:
    """The same drawing with the names of its parts numbered in the order in which they come."""
    numbers: dict[str, str] = {}
    return _SVG_IDS.sub(lambda name: numbers.setdefault(name[0], f"{name[0][0]}{len(numbers)}"), svg)


@dataclass(frozen=True)
class Series:
    """How one series looks in every figure: told apart by lightness, and by hatch, marker and dashes besides."""

    color: str
    hatch: str
    marker: str
    dashes: Any

    def bar(self) -> dict[str, Any]:
        """Arguments for `Axes.bar` and `barh`."""
        # A hatch has the edge's colour: on the dark half of the palette it must be light to be seen.
        dark = self.color in PALETTE[:3]
        return {"facecolor": self.color, "hatch": self.hatch, "edgecolor": "white" if dark else INK, "linewidth": 0.6}

    def line(self) -> dict[str, Any]:
        """Arguments for `Axes.plot`: a line with markers."""
        return {"color": self.color, "linestyle": self.dashes, **self._marker()}

    def points(self) -> dict[str, Any]:
        """Arguments for `Axes.plot` and `errorbar`: markers alone."""
        return {"color": self.color, "linestyle": "none", **self._marker()}

    def _marker(self) -> dict[str, Any]:
        return {"marker": self.marker, "markeredgecolor": INK, "markeredgewidth": 0.5}


def series(index: int) -> Series:
    """The look of the series with this number (from 0); after the sixth they begin again."""
    place = index % len(PALETTE)
    return Series(PALETTE[place], _HATCHES[place], _MARKERS[place], _DASHES[place])


def draw_medians(
    axes: Axes,
    places: ArrayLike,
    samples: Sequence[ArrayLike],
    look: Series,
    *,
    label: str,
    horizontal: bool = False,
    joined: bool = False,
) -> None:
    """Median over trials at each place, with its 95 % interval; with too few trials for one, from least to most.

    `places`: shape (n,); `samples`: n arrays of one finite value per trial, each non-empty. `joined` draws a line.
    """
    middle, below, above = _spans(samples)
    style = look.line() if joined else look.points()
    about: dict[str, Any] = {"ecolor": INK, "elinewidth": 0.8, "label": label, **style}
    if horizontal:
        axes.errorbar(middle, places, xerr=(below, above), **about)
    else:
        axes.errorbar(places, middle, yerr=(below, above), **about)


def draw_over(axes: Axes, metrics: pd.DataFrame, metric: str, over: str) -> None:
    """A line of `draw_medians` over the numeric dimension `over` for each combination of the other dimensions.

    `metrics` are a set's, with a column for each dimension: choose its rows first to draw fewer lines. Labels have
    those dimensions that differ between lines. Values that are absent are not drawn.
    """
    rows = metrics[(metrics["metric"] == metric) & np.isfinite(metrics["value"])].dropna(subset=[over])
    others = [
        name for name in dimensions_of(metrics, METRIC_COLUMNS) if name != over and rows[name].nunique(dropna=False) > 1
    ]
    groups = rows.groupby(others, dropna=False) if others else [((), rows)]
    for index, (key, group) in enumerate(groups):
        cells = group.sort_values(over, kind="stable").groupby(over)["value"]
        label = ", ".join(f"{part:g}" if isinstance(part, float) else str(part) for part in key) or metric
        samples = [values.to_numpy(dtype=np.float64) for _, values in cells]
        draw_medians(axes, [float(place) for place, _ in cells], samples, series(index), label=label, joined=True)


def draw_bars(
    axes: Axes, places: ArrayLike, samples: Sequence[ArrayLike], look: Series, *, label: str, width: float
) -> None:
    """Bars up to the median over trials, each with a span as `draw_medians` draws it."""
    middle, below, above = _spans(samples)
    axes.bar(places, middle, width, label=label, **look.bar())
    axes.errorbar(places, middle, yerr=(below, above), linestyle="none", ecolor=INK, elinewidth=0.8)


def draw_paper(axes: Axes, x: ArrayLike, y: ArrayLike, *, label: str = "the paper's value") -> None:
    """Mark values that the paper itself prints: hollow diamonds, the same in every figure."""
    axes.plot(
        x, y, marker="D", markersize=7, markerfacecolor="none", markeredgecolor=INK, linestyle="none", label=label,
        zorder=5,
    )  # fmt: skip


def spans_note(trials: int) -> str:
    """What the spans of `draw_medians` and `draw_bars` are, for a figure's axis or title."""
    return "median, 95 % interval" if trials >= MIN_TRIALS else f"median, least to most of {trials} trials"


def _spans(samples: Sequence[ArrayLike]) -> tuple[list[float], list[float], list[float]]:
    """Medians, and how far their spans reach below and above."""
    middle, below, above = [], [], []
    for values in samples:
        data = np.asarray(values, dtype=np.float64)
        estimate = median_estimate(data)
        low, high = (estimate.low, estimate.high) if estimate.interval_known else (float(data.min()), float(data.max()))
        middle.append(estimate.value)
        below.append(max(0.0, estimate.value - low))
        above.append(max(0.0, high - estimate.value))
    return middle, below, above
