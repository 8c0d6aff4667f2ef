# SPDX-License-Identifier: MIT
"""One pass over a trace for any number of tables; memory is proportional to the distinct pages, not to the records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from .index import Groups, Numbers, PageIndex
from .records import Records
from .visits import NO_PAGE, Ints, Visits, VisitStream

#: glibc gives memory back when twice the largest array that was freed is free (mallopt(3), M_MMAP_THRESHOLD). Once one
#: of this size has been, the columns of a chunk take the place of those before without being mapped anew.
_KEPT_BYTES = 16 << 20


@dataclass
class Finished:
    """m visits in the order in which they ended: number of the page, begin and end in ns."""

    number: Numbers
    begin_ns: Ints
    end_ns: Ints
    index: PageIndex

    @cached_property
    def groups(self) -> Groups:
        """Places by page."""
        return Groups(self.number, len(self.index))


class Batch:
    """A chunk's visits, with what several tables need of them, made when asked for."""

    def __init__(self, visits: Visits, index: PageIndex) -> None:
        self.visits = visits
        self.index = index
        self.known = len(index)
        coded = visits.coded("page")
        self.number = index.of_coded(coded) if coded else index.of(visits.page)
        self.groups = Groups(self.number, len(index))

    @cached_property
    def cold(self) -> Numbers:
        """Places of the first visits to pages that were not known before."""
        if len(self.index) == self.known:
            return np.empty(0, dtype=np.intp)
        new = np.flatnonzero(self.number >= self.known)
        groups = Groups(self.number[new] - self.known, len(self.index) - self.known)
        return new[groups.order[groups.first]]

    @cached_property
    def left(self) -> tuple[Numbers, npt.NDArray[np.bool_] | slice]:
        """Numbers of the pages that were left, and at which visits: not where nothing is known of the thread before."""
        left = self.visits.left
        known = left != NO_PAGE
        if not known.all():
            return self.index.of(left[known]), known
        # One thread leaves the pages in the order in which it visits them.
        if np.array_equal(left[1:], self.visits.page[:-1]):
            return np.concatenate([self.index.of(left[:1]), self.number[:-1]]), slice(None)
        return self.index.of(left), slice(None)

    @cached_property
    def finished(self) -> Finished:
        """The visits that ended in this chunk."""
        visits = self.visits
        number, known = self.left
        end, lasted = visits.start_ns[known], visits.left_ns[known]
        if visits.ended.size:
            number = np.concatenate([number, self.index.of(visits.ended)])
            end = np.concatenate([end, visits.ended_start_ns + visits.ended_ns])
            lasted = np.concatenate([lasted, visits.ended_ns])
            order = np.argsort(end, kind="stable")
            number, lasted, end = number[order], lasted[order], end[order]
        return Finished(number, end - lasted, end, self.index)


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
    np.empty(_KEPT_BYTES, dtype=np.uint8)
    stream, index, now = VisitStream(), PageIndex(), 0
    for records in chunks:
        batch = Batch(stream.feed(records), index)
        if len(records):
            now = max(now, int(records.time_ns[-1]))
        for table in tables:
            table.add(batch)
    page, since = stream.unfinished()
    rest = Finished(index.of(page), since, np.maximum(since, now), index)
    for table in tables:
        table.close(rest)
