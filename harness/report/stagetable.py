# SPDX-License-Identifier: MIT
"""The stages of a command as lines: what it did when, for how long, and what it waited for."""

from __future__ import annotations

from collections.abc import Sequence

from harness.stagetimes import Stage

#: Seconds: what took less is left out.
SHORTEST_S = 0.5
WIDTH = 48


def stage_lines(stages: Sequence[Stage]) -> list[str]:
    """A head and a line for each stage of half a second or more, in this order; none without any.

    `start` is counted from the first of all. Stages of different processes overlap.
    """
    long = [stage for stage in stages if stage.seconds >= SHORTEST_S]
    if not long:
        return []
    first = min(stage.begun for stage in stages)
    lines = [f"{'stage':<{WIDTH}}  {'start':>7}  {'seconds':>7}  waited for"]
    lines += [
        f"{stage.name[:WIDTH]:<{WIDTH}}  {stage.begun - first:7.1f}  {stage.seconds:7.1f}  {stage.waited_for}".rstrip()
        for stage in long
    ]
    return lines
