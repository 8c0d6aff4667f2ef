# SPDX-License-Identifier: MIT
"""What a buffer says to a program that reads it one off.

The first word of /proc/profile is the step and no counter. A program that forgets this, or skips one word too many, has
every count in a neighbouring counter; one that goes on to the next name too late has it under a neighbouring name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.measure.symbols import SymbolMap

from .buffer import Floats, Ints, ProfileTable, decode

#: By name, as the table `misread` and its metrics have it, and in words.
READINGS = {
    "as_it_is": "as it is",
    "step_counted": "the step as a counter: one counter late",
    "counter_early": "one counter early",
    "function_early": "one function early",
}


def misread(table: ProfileTable, handlers: Sequence[int], idle: Sequence[int]) -> list[dict[str, Any]]:
    """A row of the table `misread` per reading.

    `handlers`: indices of the functions whose first counters hold handler entries; none: entries were not sampled.
    `idle`: indices of the idle functions.
    """
    entries = np.zeros_like(table.buckets)
    counters = sorted({table.bucket_of(int(table.symbols.address[index])) for index in handlers})
    entries[counters] = table.buckets[counters]
    before = sorted({index - 1 for index in handlers if index} - set(handlers))
    rows = []
    for reading in READINGS:
        ticks = _read(table, table.buckets, table.step, reading)
        # The entries alone: what else is in a function must not be taken for them.
        alone = _read(table, entries, 0, reading)
        top = int(np.argmax(ticks))
        rows.append(
            {
                "reading": reading,
                "first_count": float(ticks[0]),
                "top_function": str(table.symbols.name[top]),
                "top_ticks": float(ticks[top]),
                "idle_ticks": float(ticks[list(idle)].sum()),
                "entries": float(entries.sum()) if handlers else np.nan,
                "entries_own": float(alone[list(handlers)].sum()) if handlers else np.nan,
                "entries_before": float(alone[before].sum()) if handlers else np.nan,
            }
        )
    return rows


def _read(table: ProfileTable, buckets: Ints, step: int, reading: str) -> Floats:
    """Ticks per function, (n,) float64; `step` is what the first word counts as where it is taken for a counter."""
    regular, last = buckets[:-1], buckets[-1:]
    if reading == "step_counted":
        regular = np.concatenate(([step], regular[:-1]))
    elif reading == "counter_early":
        regular = np.concatenate((regular[1:], [0]))
    ticks = _fold(np.concatenate((regular, last)), table.step, table.symbols)
    return np.append(ticks[1:], 0.0) if reading == "function_early" else ticks


def _fold(buckets: Ints, step: int, symbols: SymbolMap) -> Floats:
    return decode(np.concatenate(([step], buckets)).astype("<u4").tobytes(), symbols).ticks
