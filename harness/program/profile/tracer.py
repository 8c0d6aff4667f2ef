# SPDX-License-Identifier: MIT
"""Exact profiles of programs that users bring: `./inv profile`. Every instruction between its exec and its end."""

from __future__ import annotations

import shlex
from pathlib import Path

import pandas as pd

from harness.kernel.lines import lines_of
from harness.measure.raw import Answer, read_answer
from harness.measure.symbols import read_system_map
from harness.measure.tracer import REPORT, Traced, Tracer
from harness.oracle.reader import LAP, Oracle
from harness.report.html import render, table_view

TRACER = Tracer(
    kernel="debian:6.12",
    command='until_timeout profiled "$KREPRO_OUT/profile.json" "$@"',
    traces="functions",
    oracle=("functions",),
    any_arch=True,
)
TABLE = "functions.csv"
USER = "user"
SHOWN, MOST_ROWS = 12, 2000


class Ended(Answer):
    """profile.json: how the program ended, as a shell has it."""

    exit_status: int


def traced(program: Traced, out: Path) -> list[str]:
    """The exact counts by function and context: REPORT and TABLE in `out`; lines for the terminal."""
    ended = read_answer(program.left / "profile.json", Ended)
    counts = Oracle(program.raw).functions(read_system_map(program.system_map), kind=LAP)
    counts = counts.sort_values(["instructions", "function", "context"], ascending=[False, True, True])
    columns = ["function", "context", "instructions", "entries"]
    if program.debug is not None:
        places = dict.fromkeys(address for address in counts["address"].tolist() if address)
        known = dict(zip(places, lines_of(program.debug, list(places)), strict=True))
        counts["source"] = [known.get(address, "") for address in counts["address"].tolist()]
        columns.append("source")
    counts = counts[columns]
    total = int(counts["instructions"].sum())
    counts.insert(3, "share", counts["instructions"] / max(total, 1))
    counts.to_csv(out / TABLE, index=False)
    user = int(counts.loc[counts["context"] == USER, "instructions"].sum())
    words = shlex.join(program.words)
    lead = f"{total:,} instructions, exact: {user:,} in the program, {total - user:,} in the kernel."
    if ended.exit_status:
        lead += f" Exit status {ended.exit_status}."
    by_context = counts.groupby("context", as_index=False)[["instructions"]].sum()
    by_context = by_context.sort_values("instructions", ascending=False)
    page = render(
        "profile.html.j2",
        title=f"Profile of {words}",
        lead=lead,
        warnings=program.warnings,
        contexts=table_view(by_context, MOST_ROWS),
        functions=table_view(counts, MOST_ROWS),
        file=TABLE,
    )
    (out / REPORT).write_text(page)
    return [*program.warnings, f"{words}: {lead}", *_lines(counts)]


def _lines(counts: pd.DataFrame) -> list[str]:
    """The functions that executed most, in columns; a function in another context is another row."""
    rows = [("instructions", "share", "context", "function")]
    rows += [
        (
            f"{row['instructions']:,}",
            f"{row['share']:.1%}",
            row["context"],
            f"{row['function']}  {row.get('source', '')}",
        )
        for row in counts.head(SHOWN).to_dict("records")
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{a:>{widths[0]}}  {b:>{widths[1]}}  {c:<{widths[2]}}  {d}".rstrip() for a, b, c, d in rows]
    left = len(counts) - SHOWN
    return [*lines, f"and {left} more, in {TABLE} beside the page"] if left > 0 else lines
