# SPDX-License-Identifier: MIT
"""From what the observer read to the report on it: names, tables, the time line, the page."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from harness.measure.raw import read_lines, read_text
from harness.measure.traceevents import TIME_LINE, Event, counter, thread_name, time_slice, write_events
from harness.measure.tracer import REPORT, Traced, names_of_threads
from harness.report.figures import PALETTE, figure_style, write_figures
from harness.report.html import render, table_view

from .looked import CYCLES, IDLE, INSTRUCTIONS, PARTS, SWITCHING, Looked, phases, read_looked

THREADS, PHASES, COUNTERS, PLOT = "threads.csv", "phases.csv", "counters.csv", "rates"
#: Of the terminal's table, of the page's, and of what browsers show at once.
SHOWN, MOST_ROWS, MOST_RUNS = 12, 2000, 100_000
_FORK = re.compile(r"sched_process_fork: comm=.* pid=(\d+) child_comm=.* child_pid=(\d+)")


@dataclass(frozen=True)
class Names:
    """Of threads by number, and which of them are the program's."""

    of: Mapping[int, str]
    ours: frozenset[int]

    def thread(self, pid: int) -> str:
        if pid == IDLE:
            return "idle"
        return "(switching)" if pid == SWITCHING else self.of.get(pid, "thread")


def report(program: Traced, out: Path) -> list[str]:
    """Write the page and its tables into `out`; what the terminal shows."""
    looked = read_looked(program.left, program.raw / "stream")
    names = read_names(program.left)
    threads, found, counters = thread_table(looked, names), phase_table(looked, names), _counters(looked)
    for name, table in ((THREADS, threads), (PHASES, found), (COUNTERS, counters)):
        table.to_csv(out / name, index=False)
    write_events(_time_line(looked, names), out / TIME_LINE)
    lead, warnings = _lead(threads, looked), [*program.warnings, *_warnings(looked)]
    page = render(
        "counters.html.j2",
        beside=Path(__file__).parent,
        title=f"Counters of {shlex.join(program.words)}",
        lead=lead,
        warnings=warnings,
        plot=_plot(looked, names, out),
        threads=table_view(threads, MOST_ROWS),
        phases=table_view(found, MOST_ROWS),
        counters=table_view(counters, MOST_ROWS),
        time_line=TIME_LINE,
    )
    (out / REPORT).write_text(page)
    return [f"{shlex.join(program.words)}: {lead}", *warnings, *_lines(threads)]


def read_names(left: Path) -> Names:
    """Who made whom, and what each is called, by the kernel's trace points and /proc; the first one is the program."""
    ours = {int(read_text(left / "first"))}
    for line in read_lines(left / "threads"):
        if (made := _FORK.search(line)) and int(made[1]) in ours:
            ours.add(int(made[2]))
    return Names(names_of_threads(left / "threads", left / "alive"), frozenset(ours))


def thread_table(looked: Looked, names: Names) -> pd.DataFrame:
    """A row for each that had the CPU, idle and switches between them among these, the most instructions first."""
    table, counters = looked.threads, [*looked.counters]
    shown = pd.DataFrame(
        {
            "thread": table["pid"].clip(lower=0),
            "name": [names.thread(pid) for pid in table["pid"]],
            "of the program": [pid in names.ours for pid in table["pid"]],
            **{name: table[name] for name in counters},
            "ms": (table["cycles"] / looked.hz * 1e3).round(3),
            "times": looked.runs["pid"].value_counts().reindex(table["pid"], fill_value=0).to_numpy(),
        }
    )
    order = ["of the program", *(counters[:1] or ["ms"]), "thread"]
    return shown.sort_values(order, ascending=[False, False, True]).reset_index(drop=True)


def phase_table(looked: Looked, names: Names) -> pd.DataFrame:
    """The phases, in ms from the first reading, with the instructions a cycle where both are counted."""
    table = phases(looked)
    table["ms"] = ((table["end"] - table["begin"]) / looked.hz * 1e3).round(3)
    table["begin"] = (table["begin"] / looked.hz * 1e3).round(3)
    table.insert(1, "thread", [f"{names.thread(pid)} {pid}" if pid > 0 else names.thread(pid) for pid in table["pid"]])
    if {INSTRUCTIONS, CYCLES} <= set(looked.counters):
        table["a cycle"] = (table[INSTRUCTIONS] / table[CYCLES].clip(lower=1)).round(2)
    return table.drop(columns=["end", "pid"]).rename(columns={"begin": "from ms"})


def _counters(looked: Looked) -> pd.DataFrame:
    used = [signal for signal in looked.observed.signals if signal.refusal is None]
    rows = [(one.name, one.source, "yes", "") for one in used]
    rows += [(one.name, one.source, "no", one.refusal or "") for one in looked.refused]
    return pd.DataFrame(rows, columns=["counter", "from", "counted", "why not"])


def _lead(threads: pd.DataFrame, looked: Looked) -> str:
    ours = threads[threads["of the program"]]
    number = f"{len(ours)} thread{'s' if len(ours) != 1 else ''}"
    times = f"{looked.switches:,} switches of its CPU"
    if not looked.counters:
        return f"{number} of the program had {ours['ms'].sum():,.1f} ms, {times}."
    name = looked.counters[0]
    unclear = int(threads.loc[threads["name"] == "(switching)", name].sum())
    return (
        f"{int(ours[name].sum()):,} {name} of {number}, and at most {unclear:,} more: those of the readings in which a"
        f" switch was. {times}."
    )


def _warnings(looked: Looked) -> list[str]:
    observed, told = looked.observed, []
    if not looked.counters:
        why = next((signal.refusal for signal in looked.refused if signal.name == "instructions"), None)
        told.append(f"Nothing counts here: {why or observed.ppid_reason}.")
    if observed.samples_skipped:
        told.append(f"{observed.samples_skipped:,} readings at the end are left out: there may be no more of them.")
    if observed.switches_missed:
        told.append(
            f"{observed.switches_missed:,} of {looked.switches:,} switches lay between two readings with another one:"
            " a thread that had the CPU there alone is not told."
        )
    return told


def _lines(threads: pd.DataFrame) -> list[str]:
    """The table of threads, in columns."""
    shown = threads.head(SHOWN)
    columns = [name for name in shown.columns if name not in ("name", "of the program")]
    cells = [columns, *([f"{value:,}" for value in row] for row in shown[columns].itertuples(index=False, name=None))]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    names = [
        "name",
        *(f"{name}{'' if ours else ' *'}" for name, ours in zip(shown["name"], shown["of the program"], strict=True)),
    ]
    lines = [
        "  ".join([*(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=True)), name])
        for row, name in zip(cells, names, strict=True)
    ]
    left = len(threads) - SHOWN
    return [*lines, "* not of the program", *([f"and {left} more, in {THREADS} beside the page"] if left > 0 else [])]


def _time_line(looked: Looked, names: Names) -> Iterator[Event]:
    """Who had the CPU, the longest of it, and the rate of instructions, for https://ui.perfetto.dev."""
    per_ns = looked.hz / 1e9
    for pid in looked.threads["pid"].tolist():
        yield thread_name(1, max(pid, 0), names.thread(pid))
    runs = looked.runs[~looked.runs["pid"].isin((IDLE, SWITCHING))]
    longest = (runs["end"] - runs["begin"]).nlargest(MOST_RUNS).index
    for pid, begin, end in runs.loc[longest.sort_values()].itertuples(index=False, name=None):
        yield time_slice(names.thread(pid), 1, pid, begin / per_ns, (end - begin) / per_ns)
    part = (looked.end - looked.begin) / PARTS / per_ns
    for name in looked.counters:
        for number, count in looked.parts.groupby("part")[name].sum().items():
            rate = {f"{name} in a µs": round(count / part * 1e3, 3) if part else 0}
            yield counter(name, 1, int(str(number)) * part, rate)


def _plot(looked: Looked, names: Names, out: Path) -> str:
    """What each thread counted, over the time, drawn into `out`; the picture as a page has it. Nothing: no counter."""
    if not looked.counters:
        return ""
    with figure_style():
        (path,) = write_figures({PLOT: _rates(looked, names)}, out)
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode()}"


def _rates(looked: Looked, names: Names) -> Figure:
    name = looked.counters[0]
    part_us = (looked.end - looked.begin) / PARTS / looked.hz * 1e6
    table = looked.parts.pivot_table(index="part", columns="pid", values=name, aggfunc="sum", fill_value=0)
    table = table.reindex(range(PARTS), fill_value=0) / max(part_us, 1e-9)
    most = table.sum().sort_values(ascending=False).index[: len(PALETTE)]
    figure, axes = plt.subplots(figsize=(9, 3.2))
    at = table.index * part_us / 1e3
    labels = [f"{names.thread(pid)} {pid}" if pid > 0 else names.thread(pid) for pid in most]
    axes.stackplot(at, *(table[pid] for pid in most), labels=labels, colors=PALETTE, step="post")
    axes.set_xlabel("ms")
    axes.set_ylabel(f"{name} in a µs")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure
