# SPDX-License-Identifier: MIT
"""How many records a trace has of each type, and which pages it is blind to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .records import CODE, EXEC, EXIT, LOST, TASK, VISIT, Records, Words


@dataclass
class Totals:
    """How many records there were of each type; `lost` is the sum of what the LOST records say, in visits."""

    visits: int = 0
    code: int = 0
    losses: int = 0
    lost: int = 0
    tasks: int = 0
    execs: int = 0
    exits: int = 0
    last_ns: int = 0

    def add(self, records: Records) -> None:
        """Count one chunk more."""
        count = np.bincount(records.type, minlength=EXIT + 1).tolist()
        self.visits += count[VISIT]
        self.code += count[CODE]
        self.losses += count[LOST]
        self.tasks += count[TASK]
        self.execs += count[EXEC]
        self.exits += count[EXIT]
        if count[LOST]:
            self.lost += int(records.page[records.type == LOST].sum())
        if len(records):
            self.last_ns = max(self.last_ns, int(records.time_ns[-1]))


def totals(chunks: Iterable[Records]) -> Totals:
    """Totals of a whole trace."""
    sums = Totals()
    for records in chunks:
        sums.add(records)
    return sums


def code_pages(chunks: Iterable[Records]) -> Words:
    """Pages that CODE records name: sorted, shape (m,). The trace is blind to them once they are accessible."""
    pages = np.empty(0, dtype=np.uint64)
    for records in chunks:
        more = records.page[records.type == CODE]
        if more.size:
            pages = np.union1d(pages, more)
    return pages
