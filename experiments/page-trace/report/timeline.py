# SPDX-License-Identifier: MIT
"""A trace on a time line, for https://ui.perfetto.dev: a track for each thread, with slices of functions, and how many
pages each program has in use.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from harness.measure.traceevents import TIME_LINE, Event, counter, process_name, thread_name, time_slice, write_events

from ..trace.maps import Maps
from ..trace.tables import Batch, Finished, fill
from ..trace.workingset import WorkingSet
from .measured import INTERVALS, Measured, moved
from .spaces import PAGE_BITS, Spaces
from .turns import SEVERAL, Turns

PAGES = "pages in use"


class ProgramSets:
    """The working set of each program, by space: the number of distinct pages in each of equal intervals."""

    def __init__(self, interval_ns: int, intervals: int) -> None:
        self._step, self._intervals = interval_ns, intervals
        self._sets: dict[int, WorkingSet] = {}

    def add(self, batch: Batch) -> None:
        for space, part in _by_space(batch.finished):
            if space not in self._sets:
                self._sets[space] = WorkingSet(self._step, self._intervals, [self._step])
            self._sets[space].feed(part)

    def close(self, rest: Finished) -> None:
        none = np.empty(0, dtype=np.int64)
        last = dict(_by_space(rest))
        for space in last.keys() - self._sets.keys():
            self._sets[space] = WorkingSet(self._step, self._intervals, [self._step])
        for space, of in self._sets.items():
            of.close(last.get(space, Finished(none, none, none, rest.index)))

    def frame(self) -> pd.DataFrame:
        """One row per space and interval: space, begin_ns, pages int64."""
        parts = [
            pd.DataFrame({"space": space, "begin_ns": part["end_ns"] - self._step, "pages": part["pages"]})
            for space, part in sorted((space, of.frame()) for space, of in self._sets.items())
        ]
        columns = ("space", "begin_ns", "pages")
        empty = pd.DataFrame({name: np.empty(0, dtype=np.int64) for name in columns})
        return pd.concat(parts, ignore_index=True) if parts else empty


def _by_space(finished: Finished) -> Iterator[tuple[int, Finished]]:
    if not finished.number.size:
        return
    space = finished.index.pages()[finished.number] >> np.uint64(PAGE_BITS)
    for one in np.unique(space).tolist():
        mine = space == one
        yield int(one), Finished(finished.number[mine], finished.begin_ns[mine], finished.end_ns[mine], finished.index)


def write_timeline(
    spaces: Spaces, measured: Measured, turns: Turns, programs: Mapping[int, str], out: Path
) -> list[str]:
    """Read the trace once more for `turns`, and write TIME_LINE into `out`; what the terminal shows of it."""
    sets = ProgramSets(measured.span_ns // INTERVALS + 1, INTERVALS)
    fill(moved(spaces, measured.begin), [turns, sets])
    rows = turns.frame()
    write_events(events(rows, turns.functions, sets.frame(), programs), out / TIME_LINE)
    told = int(np.count_nonzero(rows["function"] != SEVERAL))
    every = int(rows["turns"].sum())
    if told == every:
        return []
    return [f"{TIME_LINE} has the {told:,} longest of {every:,} turns of functions; what lies between is (several)."]


def events(
    turns: pd.DataFrame, functions: list[str], sets: pd.DataFrame, programs: Mapping[int, str]
) -> Iterator[Event]:
    """Names, then a counter for each program, then slices. A process is a program, so a thread has another track behind
    its exec.
    """
    for space in sorted({*turns["space"].tolist(), *sets["space"].tolist()}):
        yield process_name(space + 1, programs.get(space, f"program {space + 1}"))
    for space, tid in dict.fromkeys(zip(turns["space"].tolist(), turns["tid"].tolist(), strict=True)):
        yield thread_name(space + 1, tid, f"thread {tid}")
    before = (-1, -1)
    for space, begin, pages in sets[["space", "begin_ns", "pages"]].to_numpy().tolist():
        if (space, pages) != before:
            yield counter(PAGES, space + 1, begin, {"pages": pages})
        before = space, pages
    yield from _slices(turns, functions)


def _slices(turns: pd.DataFrame, functions: list[str]) -> Iterator[Event]:
    names = ["space", "tid", "function", "begin", "end", "turns", "visits", "pages", "writes", "fresh"]
    for space, tid, function, begin, end, several, visits, pages, writes, fresh in turns[names].to_numpy().tolist():
        if function == SEVERAL:
            name, first = "(several)", {"turns": several, "visits": visits}
        else:
            name, first = functions[function], {"visits": visits, "pages": pages}
        args = first | {"writes": writes, "pages first touched": fresh}
        yield time_slice(name, space + 1, tid, begin, end - begin, args=args)


def program_names(maps: Mapping[int, Maps], main: int, program: str) -> dict[int, str]:
    """What programs are called, by space: the file that they are, as far as their mappings are known."""
    names = {}
    for space, of in maps.items():
        file = next((one.name for one in of.mappings if one.executable and one.name.startswith("/")), "")
        names[space] = f"program {space + 1}" + (f": {posixpath.basename(file)}" if file else "")
    return names | {main: posixpath.basename(program)}
