# SPDX-License-Identifier: MIT
"""The list of result sets, as plain lines. Imports no pandas: the list must be there at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from harness.measure.verdict import Verdict
from harness.sets.listing import Listed, Unfinished

COLUMNS = ("id", "experiment", "created", "profile", *get_args(Verdict), "trials", "failed")
#: From this column on a row is about what is inside the set, which of a broken one is not known.
_INSIDE = COLUMNS.index("created")


def list_lines(sets: Sequence[Listed]) -> list[str]:
    """A heading and one line per set, in aligned columns; a broken set has its reason where the others have theirs."""
    rows = [COLUMNS, *(_row(one) for one in sets)]
    whole = [row for row in rows if len(row) == len(COLUMNS)]
    widths = [max(len(row[column]) for row in (rows if column < _INSIDE else whole)) for column in range(len(COLUMNS))]
    return ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=False)).rstrip() for row in rows]


def unfinished_lines(runs: Sequence[Unfinished]) -> list[str]:
    """A heading and one line per run that is not finished; nothing when there is none."""
    lines = ["", "not finished (the same ./inv run resumes them; ./inv prune unfinished removes them)"] if runs else []
    for run in runs:
        state = "running" if run.running else "broken off"
        place = f"{run.path.name}  {run.experiment}"
        lines.append(f"{place}  {run.done} of {run.trials} trials  {state}, begun {run.begun}")
    return lines


def _row(one: Listed) -> tuple[str, ...]:
    place = (one.path.name, one.path.parent.name)
    if one.broken is not None:
        return (*place, f"broken: {one.broken}")
    if one.unanalysed:
        return (*place, f"not analysed, {one.trials} trials: {one.unanalysed}")
    counts = (str(one.verdicts.get(verdict, 0)) for verdict in get_args(Verdict))
    trials = f"{one.trials} of {one.planned}" if one.is_part else str(one.trials)
    return (*place, one.created, one.profile, *counts, trials, str(one.failed))
