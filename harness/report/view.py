# SPDX-License-Identifier: MIT
"""What a person sees of a set in a terminal: the short view, which fits a screen, and all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from harness.cli.terminal import print_lines
from harness.experiment.model import experiment_names
from harness.measure.known import untold
from harness.measure.verdict import SIGNS
from harness.paths import RESULTS
from harness.report.short import Short, first_table, short
from harness.report.summary import closing_lines, set_lines, taken_line, unanalysed_line
from harness.report.terminal import STYLES, claims_table, frame_table
from harness.sets.resultset import ResultSet
from harness.sets.shown import ShownTable

#: The short view's size, however large the terminal is.
MOST_LINES, WIDTH = 40, 80
#: As many rows of a table as there is room for; none where it is not for the last of these.
_ROWS = range(12, 2, -1)


def print_set(
    console: Console, result: ResultSet, page: Path | None, *, verbose: bool = False, also: Sequence[str] = ()
) -> None:
    """Print what a reader needs first, with `verbose` all tables and claims and the lines `also`; the set's path last.

    `page` is its report; None where none is written.
    """
    if verbose:
        _print_all(console, result, also)
    else:
        _print_short(console, result)
    print_lines(console, *_ways_on(result, page, verbose=verbose), str(result.path))


def _print_short(console: Console, result: ResultSet) -> None:
    manifest, width = result.manifest, min(console.width, WIDTH)
    told = short(manifest.experiment, result.claims)
    above = _above(told)
    below = [Text(line) for line in _lines(result, told)]
    room = MOST_LINES - _height(console, [*above, *below], width) - 3  # report, next command, path
    shown: list[RenderableType] = []
    table = first_table(manifest.experiment, result.shown)
    if table is not None:
        tried = (_table(table, rows) for rows in _ROWS)
        shown = next((one for one in tried if _height(console, one, width) <= room), [])
    console.print(Group(*above, *shown, *below), width=width, highlight=False)


def _table(table: ShownTable, rows: int) -> list[RenderableType]:
    left_out = len(table.rows) - rows
    more = [Text(f"and {left_out} more rows", "dim")] if left_out > 0 else []
    return [frame_table(table.title, table.frame, rows, dense=True), *more, Text("")]


def _above(told: Short) -> list[RenderableType]:
    style = "bold red" if told.is_news else "bold"
    lines: list[RenderableType] = [Text(line, style) for line in told.news[:1]]
    lines += [Padding(Text(line, style), (0, 0, 0, 2), expand=False) for line in told.news[1:]]
    if told.says:
        says: list[RenderableType] = [Text.assemble(("The paper says: ", "bold"), told.says), Text("")]
        lines = [*lines, *says] if told.is_news else [*says, *lines]
    for group in told.groups:
        lines.append(Text(group.heading, "bold"))
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column()
        grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True, justify="right")
        for one in group.sentences:
            style = STYLES[one.claim.verdict]
            expected = Text(f"expected {one.expected}" if one.expected else "", "dim")
            grid.add_row(Text(f"  {SIGNS[one.claim.verdict]}", style), Text(one.text), Text(one.figure), expected)
        lines.append(grid)
        if group.more:
            lines.append(Text(f"    and {group.more} more"))
    return [*lines, Text("")] if lines else []


def _lines(result: ResultSet, told: Short) -> Iterable[str]:
    manifest = result.manifest
    if manifest.unanalysed:
        yield unanalysed_line(manifest)
    elif not result.claims:
        yield "No claims"
    yield from told.rest
    yield from set_lines(result)
    yield taken_line(manifest)


def _height(console: Console, parts: Sequence[RenderableType], width: int) -> int:
    return len(console.render_lines(Group(*parts), console.options.update(width=width, height=None)))


def _print_all(console: Console, result: ResultSet, also: Sequence[str]) -> None:
    manifest, claims = result.manifest, result.claims
    told = short(manifest.experiment, claims)
    console.print(Group(*_above(told)), width=min(console.width, WIDTH), highlight=False)
    for table in (*result.shown.paper, *result.shown.summary):
        console.print(frame_table(table.title, table.frame))
    for kind, title in (("paper", "Claims of the paper"), ("finding", "Findings")):
        own = [claim for claim in claims if claim.kind == kind]
        if own:
            console.print(claims_table(title, own, manifest.trials))
    if not claims:
        console.print("No claims")
    print_lines(console, *closing_lines(result, claims), *also)


def _ways_on(result: ResultSet, page: Path | None, *, verbose: bool) -> Iterable[Text]:
    """Where the report is, and the command that tells more."""
    manifest = result.manifest
    own = result.path.parent.parent.resolve() == RESULTS.resolve()
    name = f"{manifest.experiment.name}/{result.path.name}" if own else str(result.path)
    if page is None:
        yield Text(f"Report: ./inv report {name}")
    else:
        url = page.resolve().as_uri()
        yield Text(url, Style(link=url))
    if untold(result.claims) and manifest.profile == "quick" and manifest.experiment.name in experiment_names():
        yield Text(f"Next: ./inv run {manifest.experiment.name} --profile full")
    elif not verbose:
        yield Text(f"Next: ./inv show {name} --verbose")
