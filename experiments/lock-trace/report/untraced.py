# SPDX-License-Identifier: MIT
"""Waits for locks of kinds that are not traced, as the kernel's own trace point counted them."""

from __future__ import annotations

import re
from pathlib import Path

from harness.errors import RunError
from harness.measure.raw import read_lines

#: contention_begin's flags, include/trace/events/lock.h; a semaphore has none.
_RT, _PERCPU = 8, 16
_ROW = re.compile(r"\{ flags:\s*(\d+) \} hitcount:\s*(\d+)")
_HITS = re.compile(r"\s*Hits: (\d+)")


def read_untraced(path: Path) -> dict[str, int]:
    """Waits by the plural of the kind of lock, those that were, from a histogram by flags.

    RunError when its rows are not all that the kernel counted.
    """
    counts: dict[str, int] = {}
    hits = None
    for line in read_lines(path):
        if row := _ROW.match(line):
            flags, count = int(row[1]), int(row[2])
            kind = "percpu-rwsems" if flags & _PERCPU else "rt-mutexes" if flags & _RT else "semaphores"
            counts[kind] = counts.get(kind, 0) + count
        elif told := _HITS.match(line):
            hits = int(told[1])
    if sum(counts.values()) != hits:
        what = "has no sum" if hits is None else f"has {sum(counts.values())} waits in its rows, and {hits} in its sum"
        raise RunError(what, where=str(path))
    return counts
