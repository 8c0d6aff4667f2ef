"""The terminal summary of a run: the experiment's tables, then claim by claim, then the path."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.measure.claims import ClaimResult
from harness.measure.verdict import Verdict
from harness.store.shown import Shown

STYLES: dict[Verdict, str] = {
    "reproduced": "green",
    "contradicted": "bold red",
    "confirmed": "green",
    "refuted": "bold red",
    "not-measurable": "yellow",
}
MAX_ROWS = 24


def print_summary(console: Console, shown: Shown, claims: Sequence[ClaimResult], lines: Sequence[str]) -> None:
    """Print tables, claims and closing lines; the last line is the result set's path."""
    for table in (*shown.paper, *shown.summary):
        console.print(frame_table(table.title, table.frame))
    console.print(claims_table(claims))
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def frame_table(title: str, frame: pd.DataFrame) -> Table:
    """A table of at most MAX_ROWS rows; numbers right, absent values as a dash, never as 0."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for name in frame.columns:
        numeric = pd.api.types.is_numeric_dtype(frame[name])
        first = name == frame.columns[0]  # what a row is about must be readable in one piece
        table.add_column(str(name), justify="right" if numeric else "left", overflow="fold", no_wrap=first)
    for row in frame.head(MAX_ROWS).itertuples(index=False):
        table.add_row(*(number(value) for value in row))
    if len(frame) > MAX_ROWS:
        table.caption = f"{len(frame) - MAX_ROWS} more rows in the result set"
    return table


def claims_table(claims: Sequence[ClaimResult]) -> Table:
    """Claim by claim: paper, expected, measured, verdict."""
    table = Table(title="Claims", box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for name in ("claim", "where", "says", "expected", "measured", "verdict"):
        whole = name in {"claim", "expected"}
        table.add_column(name, overflow="fold", no_wrap=whole, justify="right" if name == "measured" else "left")
    for claim in claims:
        where = f"§ {claim.section}" if claim.section else claim.source or "—"
        verdict = Text(claim.verdict, style=STYLES[claim.verdict])
        if claim.reason:
            verdict.append(f"\n{claim.reason}", style="dim")
        table.add_row(claim.id, where, claim.paper or claim.statement or "", claim.expected, measured(claim), verdict)
    return table


def measured(claim: ClaimResult) -> str:
    """Value, unit and 95 % interval of a claim's metric."""
    if claim.measured is None:
        return "—"
    text = number(claim.measured)
    if claim.interval is not None and claim.interval[0] != claim.interval[1]:
        text += f" [{number(claim.interval[0])}, {number(claim.interval[1])}]"
    return f"{text} {claim.unit or ''}".rstrip()


def number(value: object) -> str:
    """Counts whole, other numbers with four significant digits, absent ones as a dash."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return "—"
    if isinstance(value, float):
        if abs(value) < 1e15 and value == int(value):
            return f"{int(value)}"
        return f"{value:.4g}"
    return str(value)
