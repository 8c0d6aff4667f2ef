# SPDX-License-Identifier: MIT
"""Tables and numbers as a terminal shows them; readable at 80 columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import pandas as pd
from rich import box
from rich.table import Table
from rich.text import Text

from harness.measure.claims import ClaimResult
from harness.measure.verdict import Verdict
from harness.sets.values import Value
from harness.trial.model import TrialRecord

STYLES: dict[Verdict, str] = {
    "reproduced": "green",
    "contradicted": "bold red",
    "confirmed": "green",
    "refuted": "bold red",
    "not-measurable": "yellow",
}
MAX_ROWS = 24


def frame_table(title: str, frame: pd.DataFrame, most: int | None = MAX_ROWS, *, dense: bool = False) -> Table:
    """A table of at most `most` rows; numbers right, absent values as a dash, never as 0.

    `dense`: without empty lines, and without the line that says how many rows are left out.
    """
    table = Table(
        title=Text(title),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        padding=(0, 1, 0, 0),
        show_edge=not dense,
    )
    for name in frame.columns:
        numeric = pd.api.types.is_numeric_dtype(frame[name])
        first = name == frame.columns[0]  # what a row is about must be readable in one piece
        table.add_column(Text(str(name)), justify="right" if numeric else "left", overflow="fold", no_wrap=first)
    for row in frame.head(len(frame) if most is None else most).itertuples(index=False):
        table.add_row(*(Text(number(value)) for value in row))
    if most is not None and len(frame) > most and not dense:
        table.caption = f"{len(frame) - most} more rows in the result set"
    return table


def claims_table(title: str, claims: Sequence[ClaimResult], trials: Sequence[TrialRecord] = ()) -> Table:
    """Claim by claim: verdict; what is said, where and why not; what was measured against what was expected.

    What was measured on the host's clock says with what fidelity, by the set's trials.
    """
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", padding=(0, 1, 0, 0))
    table.add_column("verdict", no_wrap=True)
    table.add_column("claim", ratio=3, overflow="fold")
    table.add_column("measured, expected", ratio=2, overflow="fold")
    for claim in claims:
        where = f"§ {claim.section}" if claim.section else claim.source or ""
        said = Text.assemble((claim.id, "bold"), (f"  {where}" if where else "", "dim"))
        for text in (claim.paper, claim.statement):
            if text:
                said.append(f"\n{text}")
        numbers = Text(measured(claim) if claim.metric else "")
        if (fidelity := fidelity_of(claim, trials)) not in ("", "virtual", "virtual+pmu"):
            numbers.append(f"  {fidelity}", style="dim")
        if claim.metric:
            numbers.append(f"\nexpected {claim.expected}")
        if claim.of_trials:
            numbers.append(f"\n{claim.of_trials}", style="yellow")
        if claim.reason:
            numbers.append(f"\n{claim.reason}" if claim.metric else claim.reason, style="dim")
        if claim.after_data:
            said.append(f"\nafter data: {claim.after_data}", style="dim")
        table.add_row(Text(claim.verdict, style=STYLES[claim.verdict]), said, numbers)
    return table


def fidelity_of(claim: ClaimResult, trials: Iterable[TrialRecord]) -> str:
    """The kind of time that a verdict is from: that of the good trials of the arm or the matrix that it is about."""
    if claim.metric is None or claim.measured is None:
        return ""
    arm = claim.metric.split("/", 1)[-1]
    own = (trial for trial in trials if trial.status == "ok" and arm in (trial.arm, trial.group))
    return ", ".join(sorted({trial.fidelity for trial in own}))


def measured(claim: ClaimResult | Value) -> str:
    """Value, unit and 95 % interval of a claim's metric."""
    if claim.measured is None:
        return "—"
    text = number(claim.measured)
    if claim.interval is not None and claim.interval[0] != claim.interval[1]:
        text += f" [{number(claim.interval[0])}, {number(claim.interval[1])}]"
    unit = "" if claim.unit in ("1", "count") else claim.unit or ""  # a ratio and a count are plain numbers
    return f"{text} {unit}".rstrip()


def number(value: object) -> str:
    """Counts whole, other numbers with four significant digits or to the unit, absent ones as a dash."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return "—"
    if isinstance(value, float):
        if abs(value) < 1e15 and value == int(value):
            return f"{int(value)}"
        return (
            f"{value:.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:.4g}"
        )  # no exponent: a median may be half a count
    return str(value)
