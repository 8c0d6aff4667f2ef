# SPDX-License-Identifier: MIT
"""Which address space a record belongs to: a trace of several programs has the same addresses more than once.

Space 0 is what the launcher's child executed. A task begins in its parent's; each exec makes a new one. What a child
does between fork and exec counts with its parent's addresses. A page's number has its space in its upper bits, and an
instruction's address too. Instructions of the kernel are all 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..trace.records import EXEC, TASK, VISIT, Records, Trace, Words

PAGE_BITS, IP_BITS = 44, 57
#: Programs beyond these count as the last one.
MOST = 100
PAGE_MASK, IP_MASK = np.uint64((1 << PAGE_BITS) - 1), np.uint64((1 << IP_BITS) - 1)


class Spaces:
    """The records of a trace behind the program's own exec, with spaces; `threads` and `main` are known at the end.

    `threads`: the spaces that each thread was in, in their order; `main`: the space that the first one ended in.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.threads: dict[int, list[int]] = {}

    @property
    def main(self) -> int:
        return self.threads.get(self._trace.header.pid, [0])[-1]

    @property
    def ends(self) -> dict[int, int]:
        """The space that each thread ended in, by thread."""
        return {tid: spaces[-1] for tid, spaces in self.threads.items()}

    @property
    def count(self) -> int:
        return max((spaces[-1] for spaces in self.threads.values()), default=0) + 1

    def chunks(self) -> Iterator[Records]:
        """All records behind the first exec, as often as asked for."""
        self.threads = {}
        begun = False
        count = 0
        for chunk in self._trace.chunks():
            records = chunk
            if not begun:
                execs = np.flatnonzero(chunk.type == EXEC)
                if not execs.size:
                    continue
                begun = True
                self.threads[int(chunk.tid[execs[0]])] = [0]
                records = chunk.where(np.arange(len(chunk)) > execs[0])
            records, count = self._placed(records, count)
            yield records

    def _placed(self, records: Records, count: int) -> tuple[Records, int]:
        """A chunk with its spaces; how many execs there have been."""
        space = np.zeros(len(records), dtype=np.uint64)
        events = np.flatnonzero((records.type == EXEC) | (records.type == TASK))
        begin = 0
        for at in [*events.tolist(), len(records)]:
            self._fill(space[begin:at], records.tid[begin:at])
            if at == len(records):
                break
            tid = int(records.tid[at])
            if records.type[at] == EXEC:
                count = min(count + 1, MOST - 1)
                self.threads.setdefault(tid, []).append(count)
            else:
                parent = self.threads.get(int(records.page[at]), [0])
                self.threads[tid] = [parent[-1]]
            begin = at
        if not count and len(self.threads) < 2:
            return records.with_columns(
                ip=lambda: _users(records, records.ip)
            ) if records.kernel.any() else records, count
        return records.with_columns(
            page=lambda: np.where(records.type == VISIT, records.page | space << np.uint64(PAGE_BITS), records.page),
            ip=lambda: _users(records, records.ip | space << np.uint64(IP_BITS)),
        ), count

    def _fill(self, space: Words, tid: np.ndarray) -> None:
        if not tid.size:
            return
        first = int(tid[0])
        if (tid == first).all():
            space[:] = self.threads.setdefault(first, [0])[-1]
            return
        for one in np.unique(tid).tolist():
            space[tid == one] = self.threads.setdefault(int(one), [0])[-1]


def _users(records: Records, ip: Words) -> Words:
    """Instructions, those of the kernel 0; shape (n,)."""
    return np.where(records.kernel, 0, ip)
