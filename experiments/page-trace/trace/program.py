# SPDX-License-Identifier: MIT
"""A program's own part of a trace: what follows the last exec. Before it ran the launcher's child, and its starter."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from harness.errors import RunError

from .cost import NOTHING, Cost, own_time
from .records import EXEC, Records, Trace, Words, code_pages


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
