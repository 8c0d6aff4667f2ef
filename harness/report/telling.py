# SPDX-License-Identifier: MIT
"""What a command that makes a set ends with: its report is written, and what is in it is told."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from harness.errors import KreproError
from harness.progress import step, warn
from harness.report.site import write_report
from harness.report.view import print_set
from harness.sets.resultset import ResultSet
from harness.stagetimes import Stage


def tell(console: Console, result: ResultSet, *, verbose: bool, also: Sequence[str] = ()) -> None:
    """Write the set's report into the site beside it, and print the set; with `verbose` also these lines."""
    page = None
    try:
        with step("writing the report"):
            page = write_report(result, result.path.parent.parent, None)
    except KreproError as error:  # the set is whole without it
        warn(f"the report is not written: {error}")
    print_set(console, result, page, verbose=verbose, also=also)


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
