# SPDX-License-Identifier: MIT
"""What the figures of all papers are laid out by: panels, rows that have names, one legend below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def panel(width: float = 6.6, height: float = 3.8) -> tuple[Figure, Axes]:
    """A figure of one panel."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def those_there(figures: Mapping[str, Figure | None]) -> dict[str, Figure]:
    """Without those for which there was no data."""
    return {name: figure for name, figure in figures.items() if figure is not None}


def name_rows(axes: Axes, names: Sequence[str], *, apart: bool = False) -> None:
    """Names of what is drawn horizontally at 0, 1, …, from top to bottom; `apart`: with lines between them."""
    axes.set_yticks(np.arange(len(names)), list(names))
    axes.set_ylim(len(names) - 0.4, -0.6)
    for border in np.arange(len(names) - 1) + 0.5 if apart else ():
        axes.axhline(border, color="#d0d0d0", linewidth=0.6)


def legend_below(figure: Figure, columns: int | None = 6) -> None:
    """One legend below all panels, each label once, in so many columns at most; None: as surely fit, and 3 at most."""
    pairs = [pair for axes in figure.axes for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    unique = {label: handle for handle, label in pairs}
    if columns is None:
        # A character of a label takes some 5 points, its handle and the gap some 45.
        wide = 5 * max(map(len, unique), default=0) + 45
        columns = min(3, int(72 * figure.get_figwidth() // wide))
    ncols = max(1, min(columns, len(unique)))
    figure.legend(list(unique.values()), list(unique), loc="outside lower center", ncols=ncols)
