# SPDX-License-Identifier: MIT
"""The units that columns and metrics may have: one small vocabulary, so that equal things are written alike."""

from __future__ import annotations

from typing import Literal, get_args

Unit = Literal[
    "1",
    "count",
    "count/s",
    "count/B",
    "s",
    "ms",
    "us",
    "ns",
    "Hz",
    "B",
    "B/s",
    "instructions",
    "cycles",
    "log2",
]

MEANINGS: dict[Unit, str] = {
    "1": "a ratio, a share between 0 and 1, or a yes (1) or no (0)",
    "count": "how many of what the meaning names",
    "count/s": "so many in a second",
    "count/B": "so many per byte",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
    "Hz": "per second, of something periodic",
    "B": "bytes",
    "B/s": "bytes in a second",
    "instructions": "executed instructions, the time of the virtual clock",
    "cycles": "of the CPU's time stamp counter",
    "log2": "the exponent of a power of 2",
}
UNITS: tuple[Unit, ...] = get_args(Unit)
