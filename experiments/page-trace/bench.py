# SPDX-License-Identifier: MIT
"""`./inv bench page-trace`: how many visits each table takes a second of one core's time, from a trace's file on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from .trace.pages import PageTable
from .trace.records import HEADER, MAGIC, PLAIN, RECORD_BYTES, Trace, Words
from .trace.reuse import ReuseDistances
from .trace.streams import Streams
from .trace.tables import Table, fill
from .trace.transitions import Transitions
from .trace.workingset import WorkingSet, WorkingSetCurve

VISITS, PAGES, CODE = 1 << 22, 4096, 64
TABLES: dict[str, Callable[[], list[Table]]] = {
    "none: visits alone": list,
    "pages": lambda: [PageTable()],
    "working set": lambda: [WorkingSet(VISITS, 200, [VISITS])],
    "curve": lambda: [WorkingSetCurve()],
    "reuse": lambda: [ReuseDistances()],
    "streams": lambda: [Streams()],
    "transitions": lambda: [Transitions()],
}


def bench(folder: Path, repetitions: int) -> dict[str, pd.DataFrame]:
    """Tables by title. `folder` is an empty one for traces; of `repetitions` measurements, the fastest is told."""
    shapes = {"walk": _walk(), "two in turn": _turns(), "random": _random()}
    rows: dict[str, dict[str, float]] = {name: {} for name in TABLES}
    for shape, pages in shapes.items():
        path = folder / shape
        path.write_bytes(_header() + _words(pages).tobytes())
        trace = Trace(path)
        for name, tables in TABLES.items():
            seconds = min(_time(trace, tables()) for _ in range(repetitions))
            rows[name][shape] = VISITS / seconds / 1e6
        path.unlink()
    frame = pd.DataFrame(rows).T.round(1).rename_axis("table").reset_index()
    return {"Million visits a second of one core, decoded from the file into the table": frame}


def _time(trace: Trace, tables: list[Table]) -> float:
    begin = time.process_time()
    fill(trace.chunks(), tables)
    return time.process_time() - begin


def _walk() -> Words:
    """Page by page through all of them, and a stack in between."""
    pages = np.arange(VISITS, dtype=np.uint64) // 2 % PAGES + 0x10000
    pages[1::2] = 0x7FFF0
    return pages


def _turns() -> Words:
    """Two arrays and a stack in turn, as matrix products and sorts have them."""
    at = np.arange(VISITS, dtype=np.uint64)
    return np.where(at % 3 == 0, 0x10000 + at // 3000 % PAGES, np.where(at % 3 == 1, 0x30000 + at % PAGES, 0x7FFF0))


def _random() -> Words:
    return np.random.default_rng(1).integers(0x10000, 0x10000 + PAGES, VISITS).astype(np.uint64)


def _words(pages: Words) -> Words:
    """Records of one thread, 1 µs apart; the instruction follows from the page's region and its last bits."""
    words = np.empty((pages.size, 3), dtype="<u8")
    words[:, 0] = (np.arange(1, pages.size + 1, dtype=np.uint64) * 1000) << 12 | (pages & 1)
    words[:, 1] = pages << 12 | 100
    words[:, 2] = 0x401000 + ((pages >> 16) * 16 + pages % CODE % 4) * 4
    return words


def _header() -> bytes:
    fields = np.zeros(1, dtype=HEADER)
    values = {"magic": MAGIC, "version": PLAIN, "record_bytes": RECORD_BYTES, "window": 1, "pid": 100}
    for name, value in (values | {"page_shift": 12}).items():
        fields[name] = value
    return fields.tobytes()
