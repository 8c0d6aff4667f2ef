# SPDX-License-Identifier: MIT
"""One pass over a trace for any number of tables; memory is proportional to the distinct pages, not to the records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pandas as pd

from .index import Groups, PageIndex
from .records import Records, Words
from .visits import Ints, Visits, VisitStream


@dataclass
class Finished:
    """m visits in the order in which they ended: page, begin and end in ns."""

    page: Words
    begin_ns: Ints
    end_ns: Ints
    index: PageIndex

    @cached_property
    def groups(self) -> Groups:
        """Places by page."""
        return self.index.grouped(self.page)


class Batch:
    """A chunk's visits, with what several tables need of them, made when asked for."""

    def __init__(self, visits: Visits, index: PageIndex) -> None:
        self.visits = visits
        self.index = index
        self.known = len(index)
        self.groups = index.grouped(visits.page)
        self.number = self.groups.number

    @cached_property
    def finished(self) -> Finished:
        """The visits that ended in this chunk."""
        visits = self.visits
        page, lasted = visits.finished()
        known = visits.left != np.uint64(0xFFFF_FFFF_FFFF_FFFF)
        end = np.concatenate([visits.start_ns[known], visits.ended_start_ns + visits.ended_ns])
        if visits.ended.size:
            order = np.argsort(end, kind="stable")
            page, lasted, end = page[order], lasted[order], end[order]
        return Finished(page, end - lasted, end, self.index)


class Table(Protocol):
    """Something that is counted chunk by chunk."""

    def add(self, batch: Batch) -> None:
        """Count one chunk more."""

    def close(self, rest: Finished) -> None:
        """The trace has ended, and with it the visits of threads that had not."""

    def frame(self) -> pd.DataFrame:
        """What came of it, after `close`."""


def fill(chunks: Iterable[Records], tables: Sequence[Table]) -> None:
    """Give all chunks of a trace to all tables."""
    stream, index, now = VisitStream(), PageIndex(), 0
    for records in chunks:
        batch = Batch(stream.feed(records), index)
        if len(records):
            now = max(now, int(records.time_ns[-1]))
        for table in tables:
            table.add(batch)
    page, since = stream.unfinished()
    rest = Finished(page, since, np.maximum(since, now), index)
    for table in tables:
        table.close(rest)
