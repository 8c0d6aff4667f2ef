# SPDX-License-Identifier: MIT
"""Exact profiles of programs that users bring: `./inv profile`. Every instruction between its exec and its end."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from harness.kernel.lines import lines_of
from harness.measure.symbols import read_system_map
from harness.measure.tracer import REPORT, Traced, Tracer
from harness.oracle.paths import Paths
from harness.oracle.reader import LAP, Oracle
from harness.program.profile.calls import KERNEL, Calls, check_counts, read_calls
from harness.program.profile.code import Files, Place
from harness.program.profile.sampled import compared, read_samples, told
from harness.program.profile.timeline import write_timeline
from harness.report.flame import flame
from harness.report.html import render, table_view

COMMAND = """\
set -- "$KREPRO_OUT/profile.json" "$@"
if [ -n "$KREPRO_COUNTED" ]; then
	mount -t tracefs none /sys/kernel/tracing
	set -- -c "$KREPRO_COUNTED" "$KREPRO_OUT/counted" "$@"
fi
[ -z "$KREPRO_SAMPLED" ] || set -- -s "$KREPRO_OUT/samples" "$@"
until_timeout profiled "$@"
case $KREPRO_COUNTED in
*probe:*[*?[]*) cat /sys/kernel/tracing/available_filter_functions >"$KREPRO_OUT/traceable" ;;
esac
[ -s "$KREPRO_OUT/profile.json" ]
"""
TRACER = Tracer(
    kernel="debian:6.12",
    command=COMMAND,
    params={"sampled": "", "counted": ""},
    traces="functions",
    oracle=("functions", "paths"),
    any_arch=True,
)
TABLE, SYSTEM_CALLS, THREADS, FOLDED = "functions.csv", "syscalls.csv", "threads.csv", "stacks.folded"
SAMPLED = "sampled.csv"
USER = "user"
SHOWN, MOST_ROWS = 12, 2000


def traced(program: Traced, out: Path) -> list[str]:
    """The exact counts by function and call path: REPORT and the tables in `out`; lines for the terminal."""
    symbols = read_system_map(program.system_map)
    oracle = Oracle(program.raw)
    files = Files(program.root)
    calls = read_calls(Paths(oracle), symbols, files)
    counted = oracle.functions(symbols, kind=LAP)
    check_counts(calls, counted, str(oracle.folder))
    functions = _functions(calls, counted)
    places = functions.pop("place").tolist()
    if sources := _sources(places, files, program):
        functions["source"] = [sources.get(place, "") for place in places]
    functions.to_csv(out / TABLE, index=False)
    system_calls = _system_calls(calls)
    system_calls.to_csv(out / SYSTEM_CALLS, index=False)
    threads = _threads(calls)
    threads.to_csv(out / THREADS, index=False)
    with (out / FOLDED).open("w") as file:
        file.writelines(f"{line}\n" for line in calls.folded())
    said, samples = [], None
    if program.beside is not None:
        sampled = read_samples(program.beside.left / "samples", symbols, files)
        samples = compared(calls, sampled)
        samples.to_csv(out / SAMPLED, index=False)
        said = told(samples, sampled)
    laid_out = write_timeline(calls.threads, out) if program.time_line else []
    words = shlex.join(program.words)
    lead = _lead(threads)
    warnings = [*program.warnings, *_warnings(calls)]
    by_context = functions.groupby("context", as_index=False)[["instructions"]].sum()
    page = render(
        "profile.html.j2",
        scripts=("table.js", "flame.js"),
        title=f"Profile of {words}",
        lead=lead,
        warnings=warnings,
        graph=flame([thread.call for thread in calls.threads if thread.ours], "instructions"),
        functions=table_view(functions, MOST_ROWS),
        system_calls=table_view(system_calls, MOST_ROWS),
        threads=table_view(threads, MOST_ROWS),
        sampled=said,
        samples=table_view(samples, MOST_ROWS) if samples is not None else None,
        contexts=table_view(by_context.sort_values("instructions", ascending=False), MOST_ROWS),
        file=TABLE,
        folded=FOLDED,
    )
    (out / REPORT).write_text(page)
    return [*warnings, f"{words}: {lead}", *_lines(functions), *said, *laid_out]


def _functions(calls: Calls, counted: pd.DataFrame) -> pd.DataFrame:
    """A row for each function and context; `place` is the Place."""
    entries = counted.groupby(["function", "context"])["entries"].sum().to_dict()
    entered, totals = calls.by_function()
    rows = [
        (
            place.name,
            place.file,
            context,
            instructions,
            totals[place],
            entered[place] if context == USER else entries.get((place.name, context), 0),
            place,
        )
        for (place, context), instructions in calls.functions.items()
        if instructions
    ]
    columns = ["function", "file", "context", "instructions", "total", "entries", "place"]
    table = pd.DataFrame(rows, columns=columns)
    table = table.sort_values(["instructions", "function", "file", "context"], ascending=[False, True, True, True])
    table.insert(3, "share", table["instructions"] / max(int(table["instructions"].sum()), 1))
    return table.reset_index(drop=True)


def _sources(places: Sequence[Place], files: Files, program: Traced) -> dict[Place, str]:
    """Where functions stand in their source: the program's built with -g, and the kernel's if that was asked for."""
    distinct = dict.fromkeys(place for place in places if place.address is not None)
    found = files.sources((place for place in distinct if place.file != KERNEL), Path(program.folder))
    if program.debug is not None:
        kernel = [place for place in distinct if place.file == KERNEL]
        lines = lines_of(program.debug, [place.address or 0 for place in kernel])
        found |= dict(zip(kernel, lines, strict=True))
    return found


def _system_calls(calls: Calls) -> pd.DataFrame:
    rows = [
        (name, times, instructions, round(instructions / max(times, 1), 1))
        for name, (times, instructions) in calls.system_calls().items()
    ]
    table = pd.DataFrame(rows, columns=["system call", "calls", "instructions", "for each"])
    return table.sort_values(["instructions", "system call"], ascending=[False, True]).reset_index(drop=True)


def _threads(calls: Calls) -> pd.DataFrame:
    rows = [
        (thread.number, thread.name, thread.made_by, thread.ours, thread.call.total, thread.user)
        for thread in calls.threads
        if thread.call.total
    ]
    table = pd.DataFrame(rows, columns=["thread", "name", "made by", "of the program", "instructions", "in user code"])
    return table.sort_values(["of the program", "instructions"], ascending=False).reset_index(drop=True)


def _lead(threads: pd.DataFrame) -> str:
    ours = threads[threads["of the program"]]
    total, user = int(ours["instructions"].sum()), int(ours["in user code"].sum())
    others = int(threads["instructions"].sum()) - total
    number = f" of {len(ours)} threads" if len(ours) > 1 else ""
    return (
        f"{total:,} instructions{number}, exact: {user:,} in the program's code, {total - user:,} in the kernel."
        f" Others had {others:,} meanwhile."
    )


def _warnings(calls: Calls) -> list[str]:
    told = []
    if calls.lost_calls:
        told.append(
            f"{calls.lost_calls:,} calls lie too deep, or there are too many paths: they are told as their callers."
        )
    if calls.lost:
        told.append(f"{calls.lost:,} instructions are of no function here: there is more code than is kept apart.")
    return told


def _lines(functions: pd.DataFrame) -> list[str]:
    """The functions that executed most, in columns; a function in another context is another row."""
    rows = [("instructions", "share", "context", "function")]
    rows += [_row(row) for row in functions.head(SHOWN).to_dict("records")]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{a:>{widths[0]}}  {b:>{widths[1]}}  {c:<{widths[2]}}  {d}".rstrip() for a, b, c, d in rows]
    left = len(functions) - SHOWN
    return [*lines, f"and {left} more, in {TABLE} beside the page"] if left > 0 else lines


def _row(row: Mapping[Hashable, Any]) -> tuple[str, str, str, str]:
    function = f"{row['function']}  {row.get('source', '')}"
    return f"{row['instructions']:,}", f"{row['share']:.1%}", row["context"], function
