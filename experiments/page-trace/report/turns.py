# SPDX-License-Identifier: MIT
"""Turns: visits of a thread in a row whose instructions are one function's, as long as it executes no other program.

A turn lasts until the thread's next one, its exec or its exit, so what it waits for is in it. After a loss nobody knows
when the one before ended: it is as long as is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..trace.index import Numbers, PageIndex, stable_order
from ..trace.records import Flags
from ..trace.tables import Batch, Finished
from ..trace.visits import NO_PAGE, Ints, Visits
from .spaces import PAGE_BITS

#: Turns that are told one by one: browsers show so many.
MOST = 20_000
#: In place of a function: turns in a row that are shorter than those which are told.
SEVERAL = -1
SUMS = ("turns", "visits", "writes", "fresh")
COLUMNS = ("space", "tid", "function", "begin", "end", "last", "pages", *SUMS)
#: So many rows wait for the next choice, for each turn that may be told.
_WAITING = 16


class _Pages:
    """The distinct pages of a turn that goes on over several chunks."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers: Numbers | None = numbers
        self._flags = np.zeros(0, dtype=bool)

    def more(self, numbers: Numbers, index: PageIndex) -> int:
        """How many of these, which are distinct, were not there before."""
        self._flags = index.grown(self._flags)
        if self._numbers is not None:
            self._flags[self._numbers], self._numbers = True, None
        fresh = int(np.count_nonzero(~self._flags[numbers]))
        self._flags[numbers] = True
        return fresh


@dataclass
class _Open:
    """A thread's last turn so far."""

    row: dict[str, int]
    pages: _Pages


class _Runs:
    """The turns of a chunk as far as they lie in it, thread by thread.

    rows     columns of a turn; `end` is that of the thread's next one, or not known
    broken   (m,) whether nothing is known of the thread before
    first, last  (t,) each thread's first and last one
    """

    def __init__(self, batch: Batch, function: Ints) -> None:
        visits = batch.visits
        thread, tids = pd.factorize(visits.tid)
        order = stable_order(thread, tids.size)
        thread, function = thread[order], function[order]
        space = (visits.page[order] >> np.uint64(PAGE_BITS)).astype(np.int64)
        broken = visits.left[order] == NO_PAGE
        begins = broken.copy()
        begins[0] = True
        for column in (thread, function, space):
            begins[1:] |= column[1:] != column[:-1]
        at = np.flatnonzero(begins)
        ends = np.append(at[1:], order.size) - 1
        self.numbers, self._pages = _distinct(np.cumsum(begins) - 1, batch.number[order])
        start = visits.start_ns[order]
        cold = np.zeros(order.size, dtype=np.int64)
        cold[batch.cold] = 1
        self.rows = {
            "space": space[at],
            "tid": tids[thread[at]].astype(np.int64),
            "function": function[at],
            "begin": start[at],
            "end": np.append(start[at[1:]], 0),
            "last": start[ends],
            "pages": np.diff(self._pages),
            "turns": np.ones(at.size, dtype=np.int64),
            "visits": ends - at + 1,
            "writes": np.add.reduceat(visits.write[order].astype(np.int64), at),
            "fresh": np.add.reduceat(cold[order], at),
        }
        self.broken = broken[at]
        self.first = np.flatnonzero(np.concatenate([[True], thread[at][1:] != thread[at][:-1]]))
        self.last = np.append(self.first[1:], at.size) - 1

    def row(self, at: int) -> dict[str, int]:
        return {name: int(column[at]) for name, column in self.rows.items()}

    def pages(self, at: int) -> Numbers:
        """Numbers of the distinct pages of one."""
        return self.numbers[self._pages[at] : self._pages[at + 1]]


def _distinct(run: Ints, number: Numbers) -> tuple[Numbers, Numbers]:
    """Each run's distinct pages, one run's behind the other's, and where each one's begin, and the last one's end."""
    key = run.astype(np.uint64) << np.uint64(32) | number.astype(np.uint64)
    key.sort()
    key = key[np.concatenate([[True], key[1:] != key[:-1]])]
    whose = key >> np.uint64(32)
    return (key & np.uint64(0xFFFF_FFFF)).astype(np.intp), np.searchsorted(whose, np.arange(int(run[-1]) + 2))


class Turns:
    """The longest turns, and sums of those in between."""

    def __init__(self, named: Callable[[Sequence[int]], Sequence[str]], most: int = MOST) -> None:
        """`named`: the functions of instructions, spaces in their upper bits. `most` turns are told one by one."""
        self._named, self._most = named, most
        self._ips = PageIndex()
        self._codes: dict[str, int] = {}
        self._code = np.zeros(1024, dtype=np.int64)  # by instruction
        self._open: dict[int, _Open] = {}
        self._parts: list[pd.DataFrame] = []

    @property
    def functions(self) -> list[str]:
        """By their numbers in `frame`."""
        return list(self._codes)

    def add(self, batch: Batch) -> None:
        visits = batch.visits
        columns = (visits.ended_tid, visits.ended_start_ns, visits.ended_ns)
        ended = {(tid, start): start + ns for tid, start, ns in zip(*(c.tolist() for c in columns), strict=True)}
        if len(visits):
            self._runs(_Runs(batch, self._functions(visits)), ended, batch.index)
        for (tid, start), end in ended.items():
            if tid in self._open and self._open[tid].row["last"] == start:
                self._append([self._open.pop(tid).row | {"end": end}])
        if sum(map(len, self._parts)) > _WAITING * self._most:
            self._parts = [chosen(pd.concat(self._parts), self._most)]

    def _functions(self, visits: Visits) -> Ints:
        """(n,) of the visits' functions."""
        known = len(self._ips)
        number = self._ips.of(visits.ip)
        if len(self._ips) > known:
            self._code = self._ips.grown(self._code)
            names = self._named(self._ips.pages()[known:].tolist())
            self._code[known : len(self._ips)] = [self._codes.setdefault(name, len(self._codes)) for name in names]
        return self._code[number]

    def _runs(self, runs: _Runs, ended: dict[tuple[int, int], int], index: PageIndex) -> None:
        rows, done = runs.rows, []
        for at in np.flatnonzero(runs.broken[1:]).tolist():  # few: an exec, a loss
            last = int(rows["last"][at])
            rows["end"][at] = ended.get((int(rows["tid"][at]), last), last)
        for first, last in zip(runs.first.tolist(), runs.last.tolist(), strict=True):
            tid = int(rows["tid"][first])
            before, pages = self._open.pop(tid, None), None
            if before is not None:
                row, here = before.row, runs.row(first)
                if not runs.broken[first] and all(row[name] == here[name] for name in ("space", "function")):
                    pages = before.pages
                    merged = {name: row[name] + here[name] for name in SUMS} | {"turns": 1, "begin": row["begin"]}
                    merged["pages"] = row["pages"] + pages.more(runs.pages(first), index)
                    for name, value in merged.items():
                        rows[name][first] = value
                else:
                    end = ended.get((tid, row["last"]), row["last"]) if runs.broken[first] else here["begin"]
                    done.append(row | {"end": end})
            if last != first or pages is None:
                pages = _Pages(runs.pages(last))
            self._open[tid] = _Open(runs.row(last), pages)
        whole = np.ones(runs.broken.size, dtype=bool)
        whole[runs.last] = False
        self._append(done)
        self._parts.append(pd.DataFrame({name: rows[name][whole] for name in COLUMNS}))

    def _append(self, rows: list[dict[str, int]]) -> None:
        if rows:
            self._parts.append(pd.DataFrame(rows, columns=list(COLUMNS)))

    def close(self, rest: Finished) -> None:
        # Threads that are still there; others ended behind a loss, nobody knows when.
        ends = dict(zip(rest.begin_ns.tolist(), rest.end_ns.tolist(), strict=True))
        rows = [one.row for one in self._open.values()]
        self._append([row | {"end": ends.get(row["last"], row["last"])} for row in rows])
        self._open = {}

    def frame(self) -> pd.DataFrame:
        """Rows by space, thread and time, all int64: those of COLUMNS. `function` is SEVERAL where a row is several
        turns in a row, whose distinct `pages` are not known: 0. `fresh` are the pages that nobody had visited before,
        `last` is when the last visit began.
        """
        empty = pd.DataFrame({name: np.empty(0, dtype=np.int64) for name in COLUMNS})
        return chosen(pd.concat([empty, *self._parts]), self._most)


def chosen(rows: pd.DataFrame, most: int) -> pd.DataFrame:
    """The `most` longest of the turns, and those in between, as far as they follow each other, together."""
    columns = {name: rows[name].to_numpy(np.int64) for name in COLUMNS}
    order = np.lexsort((columns["begin"], columns["tid"], columns["space"]))
    columns = {name: column[order] for name, column in columns.items()}
    one = np.flatnonzero(columns["function"] != SEVERAL)
    if one.size > most:
        lasted = columns["end"][one] - columns["begin"][one]
        shorter = one[np.lexsort((columns["tid"][one], columns["begin"][one], -lasted))[most:]]
        columns["function"][shorter], columns["pages"][shorter] = SEVERAL, 0
    several: Flags = columns["function"] == SEVERAL
    begins = np.ones(several.size, dtype=bool)
    begins[1:] = ~(several[1:] & several[:-1])
    for name in ("space", "tid"):
        begins[1:] |= columns[name][1:] != columns[name][:-1]
    first = np.flatnonzero(begins)
    last = np.append(first[1:], several.size) - 1
    if not first.size:
        return pd.DataFrame(columns)
    told = {name: column[last if name in ("end", "last") else first] for name, column in columns.items()}
    told |= {name: np.add.reduceat(columns[name], first) for name in SUMS}
    return pd.DataFrame(told)
