# SPDX-License-Identifier: MIT
"""The style of figures: series that grey cannot confuse, spans that say what was measured."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from harness.measure.statistics import median_estimate
from harness.report.figures import (
    PALETTE,
    draw_bars,
    draw_medians,
    draw_paper,
    figure_style,
    series,
    spans_note,
    write_figures,
)

EVERY = [series(index) for index in range(len(PALETTE))]


def lightness(color: str) -> float:
    """CIE L* of an sRGB colour: what is left of it in grey."""
    part = np.array(to_rgb(color))
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return float(116 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 16)


def test_series_differ_in_lightness_and_in_style():
    steps = np.diff([lightness(look.color) for look in EVERY])
    assert (steps >= 12).all(), steps
    for left, right in itertools.combinations(EVERY, 2):
        assert left.marker != right.marker
        assert left.dashes != right.dashes
    assert all(left.hatch != right.hatch for left, right in itertools.pairwise(EVERY))
    assert series(len(PALETTE)) == EVERY[0]


def test_bars_differ_when_the_page_is_grey():
    """Drawn, then turned to grey: neighbouring bars must differ by a twelfth of the scale from black to white."""
    with figure_style():
        figure = Figure(figsize=(6, 2), dpi=100)
        canvas = FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for place, look in enumerate(EVERY):
            draw_bars(axes, [place], [[10.0]], look, label=str(place), width=0.8)
        canvas.draw()
    grey = np.asarray(canvas.buffer_rgba())[..., :3] @ [0.2126, 0.7152, 0.0722]
    shades = []
    for place in range(len(EVERY)):
        (left, low), (right, high) = axes.transData.transform([(place - 0.3, 1), (place + 0.3, 8)]).astype(int)
        shades.append(float(grey[grey.shape[0] - high : grey.shape[0] - low, left:right].mean()))
    for left, right in itertools.combinations(shades, 2):
        assert abs(left - right) > 255 / 12, shades


def limits(figure: Figure) -> list[tuple[float, float]]:
    """Ends of the vertical error bars of the first axes."""
    segments = figure.axes[0].collections[0].get_segments()
    return [(float(part[0][1]), float(part[1][1])) for part in segments]


@pytest.mark.parametrize("draw", ["medians", "bars"])
def test_spans_are_intervals_or_all_that_was_measured(draw):
    few, many = [1.0, 2.0, 5.0], [1.0, 2.0, 3.0, 4.0, 9.0, 9.5]
    figure = Figure()
    axes = figure.add_subplot()
    if draw == "medians":
        draw_medians(axes, [0, 1], [few, many], series(0), label="a")
    else:
        draw_bars(axes, [0, 1], [few, many], series(0), label="a", width=0.5)
    estimate = median_estimate(many)
    assert np.allclose(limits(figure), [(1, 5), (estimate.low, estimate.high)])
    assert estimate.high < 9.5, "the interval, not the range"
    assert spans_note(3) == "median, least to most of 3 trials"
    assert spans_note(5) == "median, 95 % interval"


def test_horizontal_medians_have_horizontal_spans():
    figure = Figure()
    draw_medians(figure.add_subplot(), [7.0], [[1.0, 3.0]], series(0), label="a", horizontal=True)
    segment = figure.axes[0].collections[0].get_segments()[0]
    assert segment.tolist() == [[1.0, 7.0], [3.0, 7.0]]


@pytest.mark.parametrize("form", ["svg", "pdf", "png"])
def test_equal_figures_give_equal_bytes(tmp_path, form):
    def draw() -> Figure:
        with figure_style():
            figure = Figure()
            axes = figure.add_subplot()
            for look in EVERY:
                draw_medians(axes, [0, 1], [[1.0], [2.0]], look, label="x", joined=True)
            draw_paper(axes, [1], [1])
            axes.legend()
        return figure

    first, second = (write_figures({"f": draw()}, tmp_path / name, form)[0].read_bytes() for name in ("a", "b"))
    assert first == second


def test_the_last_bit_of_a_coordinate_does_not_change_an_svg(tmp_path):
    """CPUs differ there, and matplotlib makes names of it."""

    def draw(name: str, left: float) -> str:
        with figure_style():
            figure = Figure(layout="none")
            axes = figure.add_axes((left, 0.1, 0.8, 0.8))
            for look in EVERY:
                draw_medians(axes, [0, 1], [[1.0], [2.0]], look, label="x", joined=True)
            other = figure.add_axes((0.05, 0.05, 0.01, 0.01))
            draw_bars(other, [0.0], [[1.0]], EVERY[3], label="x", width=0.5)
        return write_figures({"f": figure}, tmp_path / name)[0].read_text()

    first, second = draw("a", 0.1), draw("b", float(np.nextafter(0.1, 1)))
    assert first == second
    clips = set(re.findall(r"url\(#(.*?)\)", first))
    assert len(clips) >= 2
    assert all(f'id="{clip}"' in first for clip in clips)
