# SPDX-License-Identifier: MIT
"""A flame graph as part of a page: what was called below what, each as wide as its part of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from markupsafe import Markup, escape

#: Of a frame, and of the text in it.
HEIGHT, BASELINE = 17, 12
#: What is narrower is left out: a page has room for some thousand frames.
LEAST = 0.0008


class Frame(Protocol):
    """One function in one path. `style` is a class of style.css."""

    @property
    def label(self) -> str: ...
    @property
    def own(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def style(self) -> str: ...
    def sorted(self) -> Sequence[Frame]: ...


def flame(roots: Sequence[Frame], unit: str) -> Markup:
    """The graph, its root at the top; nothing when nothing was counted. A click, or Enter, makes a frame the widest."""
    whole = sum(root.total for root in roots)
    if not whole:
        return Markup()
    parts: list[str] = []
    depth = 0
    stack = [(root, left, 0) for root, left in _beside(roots, 0)]
    while stack:
        frame, left, level = stack.pop()
        if frame.total < LEAST * whole:
            continue
        depth = max(depth, level + 1)
        x, width = left / whole, frame.total / whole
        label = escape(frame.label)
        told = f"{label}: {frame.total:,} {unit}, {width:.1%}; {frame.own:,} its own"
        parts.append(
            f'<svg class="frame {frame.style}" x="{x:.4%}" y="{level * HEIGHT}" width="{width:.4%}" '
            f'height="{HEIGHT - 1}" data-x="{x:.7f}" data-w="{width:.7f}" tabindex="0"><title>{told}</title>'
            f'<rect width="100%" height="100%"/><text x="3" y="{BASELINE}">{label}</text></svg>'
        )
        stack += [(below, at, level + 1) for below, at in reversed(_beside(frame.sorted(), left))]
    height = depth * HEIGHT
    # Every value is a number or escaped.
    return Markup(  # noqa: S704
        f'<svg class="flame" width="100%" height="{height}" role="img" aria-label="flame graph">{"".join(parts)}</svg>'
    )


def _beside(frames: Sequence[Frame], left: int) -> list[tuple[Frame, int]]:
    placed = []
    for frame in frames:
        placed.append((frame, left))
        left += frame.total
    return placed
