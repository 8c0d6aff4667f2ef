# SPDX-License-Identifier: MIT
"""Who visits what, and how: instructions by page and by stride, threads by page."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..trace.index import Groups, Numbers, PageIndex
from ..trace.packed import Coded, Entries
from ..trace.pairs import PairCounts
from ..trace.records import Flags
from ..trace.tables import Batch, Finished
from ..trace.visits import Ints

#: Strides that are longer count as this long, in pages: 4 GiB.
FAR = 1 << 20
#: No page: an instruction that has visited none.
NEVER = -1


class _Numbered:
    """Numbers for values that are few: threads."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def of(self, values: np.ndarray) -> Ints:
        """Shape (n,), as they have, which are one or more."""
        if (values == values[0]).all():
            return np.full(values.size, self._numbers.setdefault(int(values[0]), len(self._numbers)))
        codes, distinct = pd.factorize(values)
        known = self._numbers
        own = np.array([known.setdefault(value, len(known)) for value in distinct.tolist()], dtype=np.int64)
        return own[codes]

    def __len__(self) -> int:
        return len(self._numbers)

    def values(self) -> list[int]:
        return list(self._numbers)


class _Visits:
    """Visits by pairs, and those of them that write; both drop the rarest where there are too many."""

    def __init__(self) -> None:
        self._visits, self._writes = PairCounts(), PairCounts()

    def add(self, left: Numbers, right: Numbers, shape: tuple[int, int], write: Flags) -> None:
        self._visits.add(left, right, shape)
        writes = np.flatnonzero(write)
        self._writes.add(left.take(writes), right.take(writes), shape)

    def columns(self) -> tuple[Numbers, Numbers, Ints, Ints]:
        """left, right, visits, writes: shape (pairs,), by pair."""
        visits, writes = self._visits.counts(), self._writes.counts()
        pairs = visits.tocoo()
        left, right = pairs.row.astype(np.intp), pairs.col.astype(np.intp)
        if not writes.nnz:
            return left, right, pairs.data, np.zeros_like(pairs.data)
        writes.resize(visits.shape)
        return left, right, pairs.data, np.asarray(writes[left, right]).reshape(-1)


class Instructions:
    """Visits by instruction and page, and by instruction and stride: pages from its last visit, of the same thread."""

    def __init__(self) -> None:
        self._index = PageIndex()
        self._ips, self._lanes, self._strides = PageIndex(), PageIndex(), PageIndex()
        self._known = Entries()  # the instructions by number
        self._of_pages, self._of_strides = _Visits(), PairCounts()
        self._last = np.full(1024, NEVER, dtype=np.int64)  # by lane

    def add(self, batch: Batch) -> None:
        visits = batch.visits
        if not len(visits):
            return
        self._index = batch.index
        coded = visits.coded("ip")
        ip = self._ips.of_coded(coded) if coded else self._ips.of(visits.ip)
        self._of_pages.add(ip, batch.number, (len(self._ips), len(self._index)), visits.write)
        # A lane is one instruction of one thread.
        thread = visits.tid.astype(np.uint64) << np.uint64(40)
        if (thread == thread[0]).all():
            self._known.words = self._ips.pages()
            lane = self._lanes.of_coded(Coded(ip, self._known), int(thread[0]))
        else:
            lane = self._lanes.of(visits.ip ^ thread)
        self._last = self._lanes.grown(self._last, NEVER)
        groups = Groups(lane, len(self._lanes))
        page = visits.page.view(np.int64).take(groups.order)
        before = np.empty_like(page)
        before[1:] = page[:-1]
        before[groups.first] = self._last[groups.numbers]
        self._last[groups.numbers] = page[groups.last]
        order, stride = groups.order, np.clip(page - before, -FAR, FAR)
        if (before[groups.first] == NEVER).any():
            known = np.flatnonzero(before != NEVER)
            order, stride = order.take(known), stride.take(known)
        number = self._strides.of((stride + FAR).view(np.uint64))
        self._of_strides.add(ip.take(order), number, (len(self._ips), len(self._strides)))

    def close(self, rest: Finished) -> None:
        pass

    def frame(self) -> pd.DataFrame:
        """One row per instruction and page: ip uint64, page uint64, visits, writes int64."""
        ip, page, visits, writes = self._of_pages.columns()
        return pd.DataFrame(
            {"ip": self._ips.pages()[ip], "page": self._index.pages()[page], "visits": visits, "writes": writes}
        )

    def strides(self) -> pd.DataFrame:
        """One row per instruction and stride: ip uint64, stride int64 (pages), visits int64."""
        pairs = self._of_strides.counts().tocoo()
        stride = self._strides.pages()[pairs.col].view(np.int64) - FAR
        frame = pd.DataFrame({"ip": self._ips.pages()[pairs.row], "stride": stride, "visits": pairs.data})
        return frame.sort_values(["ip", "stride"], ignore_index=True)


class Sharing:
    """Visits by page and thread, and how often a page's visitor changed."""

    def __init__(self) -> None:
        self._index = PageIndex()
        self._tids = _Numbered()
        self._pairs = _Visits()
        self._last = np.full(1024, -1, dtype=np.int64)
        self._changes = np.zeros(1024, dtype=np.int64)

    def add(self, batch: Batch) -> None:
        visits, groups = batch.visits, batch.groups
        if not len(visits):
            return
        self._index = batch.index
        tid = self._tids.of(visits.tid)
        self._pairs.add(batch.number, tid, (len(self._index), len(self._tids)), visits.write)
        self._last = self._index.grown(self._last, -1)
        self._changes = self._index.grown(self._changes)
        if (tid == tid[0]).all():
            # Then no page changes hands but at its first visit of the chunk.
            last = self._last[groups.numbers]
            self._changes[groups.numbers] += (last >= 0) & (last != tid[0])
            self._last[groups.numbers] = tid[0]
            return
        ordered = tid.take(groups.order)
        before = np.empty_like(ordered)
        before[1:] = ordered[:-1]
        before[groups.first] = self._last[groups.numbers]
        changed = (before >= 0) & (before != ordered)
        self._changes[groups.numbers] += np.add.reduceat(changed, groups.first, dtype=np.int64)
        self._last[groups.numbers] = ordered[groups.last]

    def close(self, rest: Finished) -> None:
        pass

    def frame(self) -> pd.DataFrame:
        """One row per page and thread: page uint64; tid, visits, writes, changes int64 (of the page's visitor)."""
        number, tid, visits, writes = self._pairs.columns()
        return pd.DataFrame(
            {
                "page": self._index.pages()[number],
                "tid": np.array(self._tids.values(), dtype=np.int64)[tid],
                "visits": visits,
                "writes": writes,
                "changes": self._changes[number],
            }
        )
