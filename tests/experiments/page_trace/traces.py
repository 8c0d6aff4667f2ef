# SPDX-License-Identifier: MIT
"""Writes page traces as the launcher does, for tests without a guest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from experiments.page_trace.trace.records import CODE, HEADER, KERNEL, SAME, VISIT, WRITE, Records

Words = npt.NDArray[np.uint64]


def record(page: int, time_ns: int = 0, kind: int = VISIT, tid: int = 100, flags: int = 0, ip: int = 0x401000) -> tuple:
    """One record's words, by the letter of the kernel's header."""
    return (
        time_ns << 12 | kind << 8 | flags,
        page << 12 | tid & 0xFFF,
        (tid >> 12) << 48 | ip & (1 << 48) - 1,
    )


def words_of(rows: Iterable[tuple]) -> Words:
    return np.array(list(rows), dtype="<u8").reshape(-1, 3)


def visits_of(pages: Sequence[int], step_ns: int = 10) -> Words:
    """A visit of one thread to each page."""
    return words_of(record(page, (i + 1) * step_ns) for i, page in enumerate(pages))


def encode(records: Records) -> Words:
    """The words of `records`, column by column: what `records.decode` undoes."""
    flags = records.write * WRITE | records.kernel * KERNEL | records.same * SAME
    head = records.time_ns.astype(np.uint64) << 12 | records.type.astype(np.uint64) << 8 | flags.astype(np.uint64)
    tid = records.tid.astype(np.uint64)
    origin = (tid >> 12) << 48 | records.ip & np.uint64((1 << 48) - 1)
    return np.stack([head, records.page << 12 | tid & np.uint64(0xFFF), origin], axis=1).astype("<u8")


def header(**changed: Any) -> bytes:
    fields = np.zeros(1, dtype=HEADER)
    values = {"magic": b"KRPTRACE", "version": 1, "record_bytes": 24, "window": 1, "flags": 2, "pid": 100}
    for name, value in (values | {"page_shift": 12, "start_ns": 5} | changed).items():
        fields[name] = value
    return fields.tobytes()


def write_trace(path: Path, words: Words, **changed: Any) -> Path:
    path.write_bytes(header(**changed) + np.asarray(words, dtype="<u8").tobytes())
    return path


STATS = {
    "faults": 100, "records": 60, "lost": 1, "code": 9, "slow": 20, "upgrades": 6, "spurious": 4, "steps": 3,
    "kept": 2, "drops": 1, "recycled": 0, "tasks": 1, "live": 0, "unfit": 0, "other_lost": 0, "window": 1,
    "follow": 0, "pid": 100, "exit_status": 0, "elapsed_ns": 5_000_000, "user_ns": 4_000_000,
    "system_ns": 10_000, "start_ioctl_ns": 9_000, "ring_records": 1024, "drains": 3, "bytes": 1504, "left_out": 0,
    "written": 1, "exact": 1,
}  # fmt: skip


def write_stats(path: Path, **changed: Any) -> Path:
    path.write_text(json.dumps(STATS | changed) + "\n")
    return path


def oracle_frame(pages: Sequence[int], kernel: Sequence[bool] | None = None) -> pd.DataFrame:
    """The columns of harness.oracle.reader's PageSequence that a comparison reads."""
    return pd.DataFrame(
        {"page": np.array(pages, dtype=np.uint64), "kernel": np.array(kernel or [False] * len(pages), dtype=bool)}
    )


def code_record(page: int) -> tuple:
    return record(page, kind=CODE)
