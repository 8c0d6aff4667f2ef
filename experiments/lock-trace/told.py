# SPDX-License-Identifier: MIT
"""Waits that a kernel without our patches tells of, by its contention_begin, against the counts of the module."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from harness.errors import RunError
from harness.measure.raw import read_lines

from .known import module_counts
from .locks.events import MUTEX, READ, RWSEM_READ, RWSEM_WRITE, SPIN, TYPES, WRITE
from .run import Run

HISTOGRAM = "contention_begin"
#: Flags of an event that tells of one wait, include/trace/events/lock.h.
FLAGS = {SPIN: 1, READ: 1 | 2, WRITE: 1 | 4, RWSEM_READ: 2, RWSEM_WRITE: 4, MUTEX: 32}
#: A mutex has one with LCB_F_SPIN before that one, which is all that there is where the mutex was got while spinning.
SPINS = {MUTEX: 32 | 1}
_ROW = re.compile(r"\{ lock_addr:\s*([0-9a-f]+), flags:\s*(\d+) \} hitcount:\s*(\d+)")
_SUMS = re.compile(r"\s*(Hits|Dropped): (\d+)")


def told_rows(run: Run) -> list[dict[str, Any]]:
    """Rows of `told_waits`; none where the module counted nothing."""
    if not run.counted:
        return []
    told = read_histogram(run.folder / HISTOGRAM)
    rows = []
    for lock in module_counts(run).to_dict("records"):
        flags = (FLAGS[lock["kind"]], SPINS.get(lock["kind"], FLAGS[lock["kind"]]))
        count = max(told.get((lock["lock"], one), 0) for one in flags)
        low, high = lock["conflicts"], lock["conflicts_most"]
        names = {"name": lock["name"], "type": TYPES[lock["kind"]]}
        rows.append(names | {"low": low, "high": high, "told": count, "difference": max(low - count, count - high, 0)})
    return rows


def read_histogram(path: Path) -> dict[tuple[int, int], int]:
    """Events by the lock's address and flags. RunError when the rows are not all that the kernel counted."""
    counts: dict[tuple[int, int], int] = {}
    sums: dict[str, int] = {}
    for line in read_lines(path):
        if row := _ROW.match(line):
            counts[int(row[1], 16), int(row[2])] = int(row[3])
        elif total := _SUMS.match(line):
            sums[total[1]] = int(total[2])
    if sums != {"Hits": sum(counts.values()), "Dropped": 0}:
        raise RunError(f"has {sum(counts.values())} events in its rows, and {sums} below them", where=str(path))
    return counts
