# SPDX-License-Identifier: MIT
"""A program's own part of a trace: what follows the last exec. Before it ran the launcher's child, and its starter."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from harness.errors import RunError

from .records import EXEC, Records, Trace, Words, code_pages


class Program:
    """One traced program, read piece by piece as often as it is asked for."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def chunks(self) -> Iterator[Records]:
        """The records behind the last exec."""
        at = 0
        for records in self._trace.chunks():
            first = max(0, self._exec + 1 - at)
            at += len(records)
            yield records.where(np.arange(len(records)) >= first)

    def code_pages(self) -> Words:
        """Pages that the whole trace calls code, the program's and those of what ran before it: sorted, shape (m,)."""
        return code_pages(self._trace.chunks())

    @cached_property
    def span(self) -> tuple[int, int]:
        """Time of the first and of the last record, ns since the trace's start; RunError when there is none."""
        times = [records.time_ns[[0, -1]] for records in self.chunks() if len(records)]
        if not times:
            raise RunError("has no record after an exec", where=str(self._trace.path))
        return int(times[0][0]), int(times[-1][1])

    def since_exec(self) -> Iterator[Records]:
        """The same records, their time counted from the first of them."""
        for records in self.chunks():
            records.time_ns[:] -= self.span[0]
            yield records

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
