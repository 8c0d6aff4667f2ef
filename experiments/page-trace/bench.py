# SPDX-License-Identifier: MIT
"""`./inv bench page-trace`: how many visits each table takes a second of one core's time, from a trace's file on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from .report.habits import Instructions, Sharing
from .trace.accessmap import AccessMap
from .trace.packed import BLOCK, MOST_RECORDS, WIDE_IPS, WIDE_PAGES
from .trace.pages import PageTable
from .trace.records import HEADER, MAGIC, PACKED, PLAIN, RECORD_BYTES, Trace, Words
from .trace.reuse import ReuseDistances
from .trace.streams import Streams
from .trace.tables import Table, fill
from .trace.transitions import Transitions
from .trace.workingset import WorkingSet, WorkingSetCurve

VISITS, PAGES, MANY = 1 << 22, 4096, 170_000
#: Pages visited, and by which instructions.
Shape = tuple[Words, Words]
TABLES: dict[str, Callable[[], list[Table]]] = {
    "none: visits alone": list,
    "pages": lambda: [PageTable()],
    "working set": lambda: [WorkingSet(VISITS, 200, [VISITS])],
    "curve": lambda: [WorkingSetCurve()],
    "reuse": lambda: [ReuseDistances()],
    "streams": lambda: [Streams()],
    "transitions": lambda: [Transitions()],
    "access map": lambda: [AccessMap(VISITS * 5, 200)],
    "report: instructions": lambda: [Instructions()],
    "report: threads": lambda: [Sharing()],
}


def bench(folder: Path, repetitions: int) -> dict[str, pd.DataFrame]:
    """Tables by title. `folder` is an empty one for traces; of `repetitions` measurements, the fastest is told."""
    shapes = {"walk": _walk(), "two in turn": _turns(), "random": _random(), "branches": _branches(), "many": _many()}
    rows: dict[str, dict[str, float]] = {name: {} for name in TABLES}
    for shape, (pages, ips) in shapes.items():
        words = _words(pages, ips)
        contents = {shape: _header(PLAIN) + words.tobytes()}
        # The blocks here tell of all pages at their begin, so that there are no more than 16 bits hold.
        if np.unique(pages).size <= 1 << 16:
            contents[f"{shape}, packed"] = _packed(words)
        for kind, content in contents.items():
            path = folder / shape
            path.write_bytes(content)
            trace = Trace(path)
            for name, tables in TABLES.items():
                seconds = min(_time(trace, tables()) for _ in range(repetitions))
                rows[name][kind] = VISITS / seconds / 1e6
            path.unlink()
    frame = pd.DataFrame(rows).T.round(1).rename_axis("table").reset_index()
    return {"Million visits a second of one core, decoded from the file into the table": frame}


def _time(trace: Trace, tables: list[Table]) -> float:
    begin = time.process_time()
    fill(trace.chunks(), tables)
    return time.process_time() - begin


def _walk() -> Shape:
    """Page by page through all of them, and a stack in between."""
    pages = np.arange(VISITS, dtype=np.uint64) // 2 % PAGES + 0x10000
    pages[1::2] = 0x7FFF0
    return _of_few(pages)


def _turns() -> Shape:
    """Two arrays and a stack in turn, as matrix products and sorts have them."""
    at = np.arange(VISITS, dtype=np.uint64)
    return _of_few(
        np.where(at % 3 == 0, 0x10000 + at // 3000 % PAGES, np.where(at % 3 == 1, 0x30000 + at % PAGES, 0x7FFF0))
    )


def _random() -> Shape:
    return _of_few(np.random.default_rng(1).integers(0x10000, 0x10000 + PAGES, VISITS).astype(np.uint64))


def _branches() -> Shape:
    """300 pages, some much more often than others, by 2,000 instructions all over its code, as sqlite does."""
    random = np.random.default_rng(1)
    pages = 0x10000 + np.minimum(random.zipf(1.3, 3 * VISITS), 300).astype(np.uint64)
    pages = pages[np.append(True, pages[1:] != pages[:-1])][:VISITS]
    return pages, (0x401000 + random.integers(0, 2000, VISITS) * 117).astype(np.uint64)


def _many() -> Shape:
    """Through many pages, four visits to each, a quarter of them to any page instead."""
    random = np.random.default_rng(1)
    pages = np.arange(VISITS) // 4 % MANY
    elsewhere = random.random(VISITS) < 0.25
    pages[elsewhere] = random.integers(0, MANY, np.count_nonzero(elsewhere))
    return _of_few((pages + 0x10000).astype(np.uint64))


def _of_few(pages: Words) -> Shape:
    """By few instructions: which one follows from the page's region and its last bits."""
    return pages, (0x401000 + ((pages >> 16) * 16 + pages % 4) * 4).astype(np.uint64)


def _words(pages: Words, ips: Words) -> Words:
    """Records of one thread, 1 µs apart."""
    words = np.empty((pages.size, 3), dtype="<u8")
    words[:, 0] = (np.arange(1, pages.size + 1, dtype=np.uint64) * 1000) << 12 | (pages & 1)
    words[:, 1] = pages << 12 | 100
    words[:, 2] = ips
    return words


def _packed(words: Words) -> bytes:
    """The same in blocks; all pages and instructions are told by the first one."""
    delta = np.diff(words[:, 0] >> 12, prepend=words[0, 0] >> 12).astype("<u2")
    pages, page = np.unique(words[:, 1] >> 12, return_inverse=True)
    ips, ip = np.unique(words[:, 2], return_inverse=True)
    marks = (words[:, 0] & 0xF).astype("u1")
    parts = [_header(PACKED)]
    for first in range(0, len(words), MOST_RECORDS):
        part = slice(first, first + MOST_RECORDS)
        known = () if first else (pages.astype("<u8"), ips.astype("<u8"))
        columns = [
            *known,
            np.append(0, delta[part][1:]).astype("<u2"),
            page[part].astype("<u2"),
            ip[part].astype("<u2"),
        ]
        data = b"".join(column.tobytes() for column in (*columns, marks[part]))
        head = np.zeros(1, dtype=BLOCK)
        sizes = dict(zip(("pages", "ips"), (one.size for one in known), strict=False))
        values = {"bytes": len(data), "records": marks[part].size, "flags": WIDE_PAGES | WIDE_IPS, "tid": 100, **sizes}
        for name, value in (values | {"time_ns": words[first, 0] >> 12}).items():
            head[name] = value
        parts += [head.tobytes(), data]
    return b"".join(parts)


def _header(version: int) -> bytes:
    fields = np.zeros(1, dtype=HEADER)
    size = RECORD_BYTES if version == PLAIN else 0
    values = {"magic": MAGIC, "version": version, "record_bytes": size, "window": 1, "pid": 100}
    for name, value in (values | {"page_shift": 12}).items():
        fields[name] = value
    return fields.tobytes()
