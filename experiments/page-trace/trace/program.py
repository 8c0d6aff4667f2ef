# SPDX-License-Identifier: MIT
"""A program's own part of a trace: what follows the last exec. Before it ran the launcher's child, and its starter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.errors import RunError

from .cost import NOTHING, Cost, own_time
from .records import EXEC, RECORD_BYTES, VISIT, Records, Trace, Words
from .totals import code_pages


@dataclass(frozen=True)
class Own:
    """A program's own part of its trace, and what came before its exec: the launcher's child, and its starter.

    visits   its own, in the file; those `Trace.replaced` are none
    several  its instructions that needed several data pages at once
    before_visits, before_bytes  of the launcher's child and the starter; of a packed file no bytes, as blocks have both
    starter_ns  from the first exec to the last one: what the starter took
    """

    visits: int
    several: int
    before_visits: int
    before_bytes: int
    starter_ns: int


class Program:
    """One traced program, read piece by piece as often as it is asked for."""

    def __init__(self, trace: Trace, cost: Cost = NOTHING) -> None:
        """`cost`: what the tracer itself takes."""
        self._trace = trace
        self._cost = cost

    def chunks(self) -> Iterator[Records]:
        """The records behind the last exec."""
        at = 0
        for records in self._trace.chunks():
            first = max(0, self._exec + 1 - at)
            at += len(records)
            yield records.where(np.arange(len(records)) >= first)

    def code_pages(self) -> Words:
        """Pages that the trace calls code: sorted, shape (m,)."""
        return code_pages(self.chunks())

    @cached_property
    def span(self) -> tuple[int, int]:
        """Time of the first and of the last record, ns since the trace's start; RunError when there is none."""
        times = [records.time_ns[[0, -1]] for records in self.chunks() if len(records)]
        if not times:
            raise RunError("has no record after an exec", where=str(self._trace.path))
        return int(times[0][0]), int(times[-1][1])

    def since_exec(self) -> Iterator[Records]:
        """The same records, their time counted from the first of them and without what the tracer itself took."""

        def moved() -> Iterator[Records]:
            for records in self.chunks():
                records.time_ns[:] -= self.span[0]
                yield records

        return own_time(moved(), self._cost)

    def own(self) -> Own:
        """One reading of the file."""
        visits = several = before = 0
        execs: list[int] = []
        at, last = 0, False  # whether the instruction of the visit before has several already
        for records in self._trace.chunks():
            execs += records.time_ns[records.type == EXEC].tolist()
            made = records.type == VISIT
            own = made & (at + np.arange(len(records)) > self._exec)
            before += int(np.count_nonzero(made & ~own))
            same = records.same[own]
            visits += same.size
            several += int(np.count_nonzero(same & ~np.concatenate([[last], same])[:-1]))
            at, last = at + len(records), bool(same[-1]) if same.size else last
        written = self._exec + 1
        for place in self._trace.replaced.tolist():
            written += place < written
        size = 0 if self._trace.packed else written * RECORD_BYTES
        return Own(visits, several, before, size, execs[-1] - execs[0] if execs else 0)

    @cached_property
    def lasted(self) -> int:
        """Time of the last record by `since_exec`, ns; RunError when there is none."""
        if self._cost is NOTHING:
            return self.span[1] - self.span[0]
        return max(int(records.time_ns[-1]) for records in self.since_exec() if len(records))

    @cached_property
    def _exec(self) -> int:
        """The place of the last exec; -1 when there is none."""
        last, at = -1, 0
        for records in self._trace.chunks():
            execs = np.flatnonzero(records.type == EXEC)
            if execs.size:
                last = at + int(execs[-1])
            at += len(records)
        return last
