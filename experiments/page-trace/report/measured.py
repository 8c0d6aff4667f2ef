# SPDX-License-Identifier: MIT
"""One pass over a trace for the report."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..trace.pages import PageTable
from ..trace.records import Records
from ..trace.tables import Table, fill
from ..trace.totals import Totals
from ..trace.transitions import Transitions
from ..trace.workingset import WorkingSet
from .habits import Instructions, Sharing
from .spaces import Spaces

INTERVALS = 400


class Measured:
    """What one pass over a trace gives."""

    def __init__(self, spaces: Spaces) -> None:
        self.totals = Totals()
        self.begin, self.span_ns = _span(spaces)
        step = self.span_ns // INTERVALS + 1
        self._pages, self._set = PageTable(), WorkingSet(step, INTERVALS, [step])
        self.instructions, self.sharing, self.transitions = Instructions(), Sharing(), Transitions()
        tables: list[Table] = [self._pages, self._set, self.instructions, self.sharing, self.transitions]
        fill(self._counted(moved(spaces, self.begin)), tables)
        self.pages = self._pages.frame()
        self.working_set = [int(pages) for pages in self._set.frame()["pages"]]

    def _counted(self, chunks: Iterator[Records]) -> Iterator[Records]:
        for records in chunks:
            self.totals.add(records)
            yield records


def moved(spaces: Spaces, begin: int) -> Iterator[Records]:
    """The records, their time counted from `begin`."""
    for records in spaces.chunks():
        records.time_ns[:] = np.maximum(records.time_ns - begin, 0)
        yield records


def _span(spaces: Spaces) -> tuple[int, int]:
    """Time of the first record behind the exec, and how long the last one is after it, in ns."""
    first, last = None, 0
    for records in spaces.chunks():
        if len(records):
            first = int(records.time_ns[0]) if first is None else first
            last = max(last, int(records.time_ns.max()))
    return first or 0, max(1, last - (first or 0) + 1)
