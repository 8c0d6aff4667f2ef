# SPDX-License-Identifier: MIT
"""Who visits what, and how: instructions by page and by stride, threads by page."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..trace.index import PageIndex, stable_order
from ..trace.tables import Batch, Finished
from ..trace.visits import Ints
from .pairs import PairCounts

#: Strides that are longer count as this long, in pages.
FAR = 1 << 30


class _Numbered:
    """Numbers for values that are few: instructions, threads."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def of(self, values: np.ndarray) -> Ints:
        codes, distinct = pd.factorize(values)
        known = self._numbers
        own = np.array([known.setdefault(value, len(known)) for value in distinct.tolist()], dtype=np.int64)
        return own[codes] if codes.size else codes.astype(np.int64)

    def values(self) -> list[int]:
        return list(self._numbers)


class Instructions:
    """Visits by instruction and page, and by instruction and stride: pages from its last visit, of the same thread."""

    def __init__(self) -> None:
        self._index = PageIndex()
        self._ips, self._lanes = _Numbered(), _Numbered()
        self._pages, self._strides = PairCounts(), PairCounts()
        self._last: dict[int, int] = {}

    def add(self, batch: Batch) -> None:
        visits = batch.visits
        if not len(visits):
            return
        self._index = batch.index
        ip = self._ips.of(visits.ip)
        self._pages.add(ip, batch.number.astype(np.int64), visits.write)
        # A lane is one instruction of one thread.
        lane = self._lanes.of(visits.ip ^ visits.tid.astype(np.uint64) << np.uint64(40))
        codes, lanes = pd.factorize(lane)
        order = stable_order(codes, lanes.size)
        sorted_codes, page = codes[order], visits.page.astype(np.int64)[order]
        begins = np.flatnonzero(np.concatenate([[True], sorted_codes[1:] != sorted_codes[:-1]]))
        stride = np.zeros(page.size, dtype=np.int64)
        stride[1:] = page[1:] - page[:-1]
        known = np.ones(page.size, dtype=bool)
        ends = np.append(begins[1:], page.size) - 1
        for at, end in zip(begins.tolist(), ends.tolist(), strict=True):
            of = int(lanes[sorted_codes[at]])
            before = self._last.get(of)
            known[at] = before is not None
            stride[at] = page[at] - before if before is not None else 0
            self._last[of] = int(page[end])
        far = np.clip(stride, -FAR, FAR) + FAR
        self._strides.add(ip[order][known], far[known], np.zeros(int(known.sum())))

    def close(self, rest: Finished) -> None:
        pass

    def frame(self) -> pd.DataFrame:
        """One row per instruction and page: ip uint64, page uint64, visits, writes int64."""
        frame, ips = self._pages.frame(), np.array(self._ips.values(), dtype=np.uint64)
        return pd.DataFrame(
            {
                "ip": ips[frame["left"]],
                "page": self._index.pages()[frame["right"].to_numpy()],
                "visits": frame["count"],
                "writes": frame["more"],
            }
        )

    def strides(self) -> pd.DataFrame:
        """One row per instruction and stride: ip uint64, stride int64 (pages), visits int64."""
        frame, ips = self._strides.frame(), np.array(self._ips.values(), dtype=np.uint64)
        return pd.DataFrame({"ip": ips[frame["left"]], "stride": frame["right"] - FAR, "visits": frame["count"]})


class Sharing:
    """Visits by page and thread, and how often a page's visitor changed."""

    def __init__(self) -> None:
        self._index = PageIndex()
        self._tids = _Numbered()
        self._pairs = PairCounts()
        self._last = np.full(1024, -1, dtype=np.int64)
        self._changes = np.zeros(1024, dtype=np.int64)

    def add(self, batch: Batch) -> None:
        visits, groups = batch.visits, batch.groups
        if not len(visits):
            return
        self._index = batch.index
        tid = self._tids.of(visits.tid)
        self._pairs.add(batch.number.astype(np.int64), tid, visits.write)
        self._last = self._index.grown(self._last, -1)
        self._changes = self._index.grown(self._changes)
        ordered = tid[groups.order]
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
        frame, tids = self._pairs.frame(), np.array(self._tids.values(), dtype=np.int64)
        number = frame["left"].to_numpy()
        return pd.DataFrame(
            {
                "page": self._index.pages()[number],
                "tid": tids[frame["right"]] if len(frame) else np.empty(0, np.int64),
                "visits": frame["count"],
                "writes": frame["more"],
                "changes": self._changes[number],
            }
        )
