# SPDX-License-Identifier: MIT
"""Histories as small SVG drawings, in the colour of the text around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from harness.measure.verdict import Verdict

WIDTH, HEIGHT, EDGE = 180, 30, 3
#: Height of a verdict's bar, so that it can be told without its colour.
BARS: dict[Verdict, int] = {
    "reproduced": 6,
    "confirmed": 6,
    "not-measurable": 12,
    "contradicted": 18,
    "refuted": 18,
}


def sparkline(values: npt.NDArray[np.float64], breaks: Sequence[int], title: str) -> Markup:
    """A line through `values` (shape (n,), NaN: a gap), equally spaced, on a scale from least to most.

    The line ends where the experiment's version changed, at a dotted line; the last value has a dot.
    """
    x = _across(values.size)
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    span = high - low
    up = (values - low) / span if span > 0 else np.where(np.isfinite(values), 0.5, np.nan)
    y = HEIGHT - EDGE - up * (HEIGHT - 2 * EDGE)
    parts = []
    for place in breaks:
        middle = (x[place - 1] + x[place]) / 2
        parts.append(f'<path d="M{middle:.1f} 0V{HEIGHT}" stroke-dasharray="2 2" opacity=".6"/>')
    for start, stop in _runs(np.isfinite(values), breaks):
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x[start:stop], y[start:stop], strict=True))
        parts.append(f'<polyline points="{points}"/>' if stop - start > 1 else _dot(x[start], y[start], 1.2))
    if known.size:
        last = int(np.flatnonzero(np.isfinite(values))[-1])
        parts.append(_dot(x[last], y[last], 2.4))
    return _svg("spark", HEIGHT, f'<g fill="none" stroke="currentColor">{"".join(parts)}</g>', title)


def verdict_strip(verdicts: Sequence[Verdict | None], title: str) -> Markup:
    """A bar per set: the higher, the worse; none where the claim was not judged. A change has a mark below it."""
    x, height = _across(len(verdicts)), max(BARS.values()) + 5
    width = min(6.0, max(1.0, 0.7 * (WIDTH - 2 * EDGE) / max(1, len(verdicts))))
    parts, before = [], None
    for place, verdict in zip(x, verdicts, strict=True):
        if verdict is None:
            continue
        tall = BARS[verdict]
        left, top = place - width / 2, max(BARS.values()) - tall
        parts.append(f'<rect class="{verdict}" x="{left:.1f}" y="{top}" width="{width:.1f}" height="{tall}"/>')
        if before is not None and verdict != before:
            parts.append(f'<path d="M{place:.1f} {height - 4}l3 4h-6z" fill="currentColor"/>')
        before = verdict
    return _svg("strip", height, "".join(parts), title)


def _across(count: int) -> npt.NDArray[np.float64]:
    """Places of `count` sets, the newest at the right edge."""
    return np.linspace(EDGE, WIDTH - EDGE, count) if count > 1 else np.full(count, WIDTH - float(EDGE))


def _runs(known: npt.NDArray[np.bool_], breaks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Start and stop of each stretch of known values that no break parts."""
    start: int | None = None
    for place in range(known.size + 1):
        ends = place == known.size or not known[place] or place in breaks
        if start is not None and ends:
            yield start, place
            start = None
        if start is None and place < known.size and known[place]:
            start = place


def _dot(x: float, y: float, radius: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="currentColor" stroke="none"/>'


def _svg(kind: str, height: int, content: str, title: str) -> Markup:
    return Markup(  # noqa: S704  (numbers of our own, and an escaped title)
        f'<svg class="{kind}" role="img" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">'
        f"<title>{escape(title)}</title>{content}</svg>"
    )
