# SPDX-License-Identifier: MIT
"""From what a traced program left to the report on it: who waited for whom, by lock, by place and by thread."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pandas as pd

from harness.measure.raw import read_lines
from harness.measure.symbols import read_system_map, with_kallsyms
from harness.measure.traceevents import TIME_LINE
from harness.measure.tracer import LOADED, REPORT, Traced, names_of_threads
from harness.report.html import Cell, TableView, render

from ..locks.acquisitions import acquisitions, with_conflicts
from ..locks.blame import blame_table, blamed, chains, stacks, threads
from ..locks.callers import Stacks, with_callers
from ..locks.classes import StaticData, call_sites, classes_of
from ..locks.events import TYPES, read_events
from ..locks.kerneltables import read_locks, read_stacks
from ..locks.members import Members
from ..locks.percpu import per_cpu_names, unit_of
from ..locks.status import LockTraceStatus, read_status
from .flows import write_flows
from .untraced import read_untraced

FOLDED = "folded.txt"
TOP, TOLD = 200, 10
LOCK = ["class", "type"]
#: What a filter is about: columns of the waiter's acquisition, and one of the holder's.
FILTERS = {"lock": "class", "type": "type", "waiter": "caller", "thread": "thread", "holder": "caller"}


@dataclass(frozen=True)
class Shown:
    """A table of the page, whole."""

    title: str
    about: str
    view: TableView


class Seen:
    """A program's trace: its acquisitions with names, and who waited for whom among them."""

    def __init__(self, program: Traced) -> None:
        left = program.left
        self.status: LockTraceStatus = read_status(left / "status.json")
        self.untraced = read_untraced(left / "untraced")
        events = with_conflicts(read_events(left / "events.bin"))
        told = [left / "modules.begin", left / "modules"]
        if (left / LOADED).is_file():  # only a program with a module of the user's leaves it
            told.append(left / LOADED)
        modules = {line for path in told for line in read_lines(path)}
        kallsyms = "\n".join(sorted(modules))
        symbols = with_kallsyms(read_system_map(program.system_map), kallsyms, where=str(left / "modules"))
        data = StaticData(program.system_map, kallsyms)
        classes = classes_of(events, read_locks(left / "locks.tsv"), data, symbols)
        classes = per_cpu_names(classes, unit_of("\n".join(read_lines(left / "percpu"))), data)
        if program.layouts is not None:
            members = Members(program.layouts)
            classes = {lock: members.name(name) for lock, name in classes.items()}
        taken = acquisitions(events).reset_index(drop=True)
        self.named = taken.assign(
            **{"class": np.array([classes[lock] for lock in taken["lock"].tolist()], dtype=object)},
            type=[TYPES[kind] for kind in taken["type"].tolist()],
            caller=call_sites(taken["site"], symbols),
            thread=with_names(threads(taken), taken["pid"], names_of_threads(left / "exits", left / "threads")),
        )
        #: None where the kernel recorded no stacks: it has no table of them, or was not told to.
        self.stacks: Stacks | None = None
        table = left / "stacks.tsv"
        if table.is_file() and (found := read_stacks(table))["events"].any():
            self.stacks = Stacks(found, symbols, where=str(table))
            self.named = with_stacks(with_callers(self.named, events, self.stacks))
        self.pairs = blamed(self.named)
        self.chains = chains(self.named, self.pairs)

    def only(self, filters: Sequence[str]) -> None:
        """Leave out the pairs, and the chains that begin with one, that do not fit all of these filters."""
        for text in filters:
            key, _, glob = text.partition("=")
            side = "holder" if key == "holder" else "waiter"
            fits = np.array([fnmatchcase(str(name), glob) for name in self.named[FILTERS[key]]], dtype=bool)
            self.pairs = self.pairs[fits[self.pairs[side].to_numpy()]].reset_index(drop=True)
        kept = set(zip(self.pairs["waiter"], self.pairs["holder"], strict=True))
        first = self.chains[self.chains["link"] == 0]
        begun = zip(first["waiter"], first["holder"], strict=True)
        stay = {chain for chain, pair in zip(first["chain"].tolist(), begun, strict=True) if pair in kept}
        self.chains = self.chains[self.chains["chain"].isin(stay)].reset_index(drop=True)

    def table(self, key: list[str]) -> pd.DataFrame:
        """`blame_table` with times in ns."""
        table = blame_table(self.named, self.pairs, key)
        for name in ("blamed_total", "blamed_max", "hold_total"):
            table[name] = self.status.nanoseconds(table[name].astype("float64"))
        return table


def with_stacks(named: pd.DataFrame) -> pd.DataFrame:
    """With stacks as texts, the lock's caller first: `stack` of who waited, `hold_stack` of who held."""
    texts = {
        column: [" ← ".join([place, *calls]) for place, calls in zip(named["caller"], named[callers], strict=True)]
        for column, callers in (("stack", "wait_callers"), ("hold_stack", "hold_callers"))
    }
    return named.assign(**texts)


def with_names(of: Sequence[str], pids: pd.Series, names: dict[int, str]) -> list[str]:
    """The threads `of`, those with a name as `name (pid 12)`."""
    pairs = zip(of, pids.tolist(), strict=True)
    return [
        text.replace(f"pid {pid}", f"{names[pid]} (pid {pid})", 1) if pid in names and pid else text
        for text, pid in pairs
    ]


def report(program: Traced, out: Path) -> list[str]:
    """Write the page and the files beside it into `out`; what the terminal shows. RunError where a file is damaged."""
    seen = Seen(program)
    seen.only(program.chosen.get("filter", ()))
    by_site = seen.table([*LOCK, "caller"])
    tables = [
        Shown("Blame", "Who waited where, for which lock, and who held it meanwhile.", _rows(by_site, "caller")),
        *_callers(seen),
        Shown("Threads", "The same by thread.", _rows(seen.table([*LOCK, "thread"]), "thread")),
        _chains(seen),
    ]
    folded = stacks(seen.named, seen.pairs, seen.chains)
    weights = np.rint(seen.status.nanoseconds(folded["weight"].to_numpy(np.float64))).astype(np.int64)
    rows = zip(folded["stack"], weights.tolist(), strict=True)
    (out / FOLDED).write_text("".join(f"{stack} {weight}\n" for stack, weight in rows), encoding="utf-8")
    shown = write_flows(seen.named, seen.pairs, seen.status.tsc_khz * 1e3, out / TIME_LINE)
    lead = _lead(seen)
    warnings = [*program.warnings, *_warnings(seen, shown)]
    page = render(
        "locks.html.j2",
        beside=Path(__file__).parent,
        title=f"Locks of {shlex.join(program.words)}",
        lead=lead,
        warnings=warnings,
        tables=tables,
        folded=FOLDED,
        flows=TIME_LINE,
    )
    (out / REPORT).write_text(page)
    return [lead, *warnings, *_told(by_site)]


def _lead(seen: Seen) -> str:
    waits, locks = seen.pairs["waiter"].nunique(), seen.named["lock"].take(seen.pairs["waiter"].to_numpy()).nunique()
    spent = seen.status.nanoseconds(float((seen.pairs["end"] - seen.pairs["begin"]).sum()))
    return (
        f"{waits:,} waits for {locks:,} locks, {time(spent)} in all, in {time(seen.status.seconds * 1e9)} of traced "
        f"time; {seen.status.kept[seen.status.stream]:,} of {seen.status.events:,} events were kept. "
        f"The program ended with status {os.waitstatus_to_exitcode(seen.status.wait_status)}."
    )


def _warnings(seen: Seen, shown: int) -> list[str]:
    told = []
    lost = sum(seen.status.lost)
    if lost:
        told.append(f"{lost:,} events were lost: waits and holders are missing.")
    if seen.status.untracked:
        told.append(f"{seen.status.untracked:,} events are of locks that found no place in the kernel's table.")
    if seen.untraced:
        waits = ", ".join(f"{count:,} waits for {kind}" for kind, count in sorted(seen.untraced.items()))
        told.append(f"Not traced, but counted: {waits}.")
    if seen.stacks and seen.stacks.without:
        told.append(f"{seen.stacks.without:,} events have no stack: the kernel's table of them was full.")
    if shown < len(seen.pairs):
        told.append(f"{TIME_LINE} has the {shown:,} longest of {len(seen.pairs):,} pairs of a wait and a hold.")
    return told


def _told(table: pd.DataFrame) -> list[str]:
    lines = []
    for row in table.head(TOLD).to_dict("records"):
        lines.append(
            f"{time(row['blamed_total']):>9}  {row['waits']:,} waits for {row['class']} ({row['type']}): "
            f"{row['caller']} for {row['holder_caller']}"
        )
    return lines


def _rows(table: pd.DataFrame, side: str) -> TableView:
    columns = ("waited", "longest", "waits", "lock", "type", "who waited", "who held", "holds", "held")
    rows = [
        (_time(row["blamed_total"]), _time(row["blamed_max"]), _count(row["waits"]), Cell(str(row["class"])),
         Cell(str(row["type"])), Cell(str(row[side])), Cell(str(row[f"holder_{side}"])), _count(row["holds"]),
         _time(row["hold_total"]))
        for row in table.head(TOP).to_dict("records")
    ]  # fmt: skip
    return _view(columns, rows, len(table))


def _view(columns: Sequence[str], rows: Sequence[tuple[Cell, ...]], total: int) -> TableView:
    """Those to the right whose cells have a key: times and counts."""
    first = rows[0] if rows else ()
    numeric = [cell.key is not None for cell in first] or [False] * len(columns)
    return TableView(tuple(zip(columns, numeric, strict=True)), tuple(rows), total)


def _time(ns: float) -> Cell:
    return Cell(time(ns), repr(float(ns)))


def _count(number: int) -> Cell:
    return Cell(f"{number:,}", repr(int(number)))


def _callers(seen: Seen) -> list[Shown]:
    if seen.stacks is None:
        return []
    about = "The same by stacks, who called stands behind: on whose behalf one waited, and on whose the other held it."
    return [Shown("Callers", about, _rows(seen.table([*LOCK, "stack"]), "stack"))]


def _chains(seen: Seen) -> Shown:
    """Chains by their places: how often, and how long all of their links lasted."""
    columns = (seen.named[name].tolist() for name in ("class", "caller"))
    lock, caller = columns
    sums: dict[str, tuple[int, float]] = {}
    for _, rows in seen.chains.groupby("chain", sort=False):
        links = list(zip(rows["waiter"].tolist(), rows["holder"].tolist(), strict=True))
        words = [f"{caller[waiter]} → {caller[holder]} ({lock[waiter]})" for waiter, holder in links]
        text, spent = "; ".join(words), float(rows["end"].iloc[0] - rows["begin"].iloc[0])
        count, whole = sums.get(text, (0, 0.0))
        sums[text] = (count + 1, whole + spent)
    ordered = sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))[:TOP]
    shown = [(_time(seen.status.nanoseconds(whole)), _count(n), Cell(text)) for text, (n, whole) in ordered]
    about = "Who was waited for waited too: each arrow is a waiter and the one who held the lock in brackets."
    return Shown("Chains", about, _view(("lasted", "times", "chain"), shown, len(sums)))


def time(ns: float) -> str:
    """A duration with three digits and a unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"
