# SPDX-License-Identifier: MIT
"""A packed page trace: blocks of columns, as guest/pagetrace/output.c writes them, back into words of records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from harness.errors import RunError

BLOCK = np.dtype(
    [
        ("bytes", "<u4"),
        ("records", "<u4"),
        ("pages", "<u4"),
        ("ips", "<u4"),
        ("times", "<u4"),
        ("flags", "<u4"),
        ("tid", "<u4"),
        ("zero", "<u4"),
        ("time_ns", "<u8"),
    ]
)
MOST_RECORDS, ENTRIES = 1 << 15, 1 << 16
LONG = 0xFFFF
ANEW, THREADS, WIDE_PAGES, WIDE_IPS = 1, 2, 4, 8

Words = npt.NDArray[np.uint64]
#: What a record's byte of flags (below) and type (above) is in its first word.
_FLAGS = np.array([byte & 0xF | byte >> 4 << 8 for byte in range(256)], dtype=np.uint64)


def scan(path: Path, begin: int) -> int:
    """How many records the blocks from byte `begin` on hold; RunError when the last one is cut short."""
    records = 0
    with path.open("rb") as file:
        size, at = path.stat().st_size, begin
        while at < size:
            file.seek(at)
            head = _head(file, at, path)
            at += BLOCK.itemsize + int(head["bytes"])
            if at > size:
                raise RunError(f"is cut short: {at - size} bytes of its last block are missing", where=str(path))
            records += int(head["records"])
    return records


def blocks(path: Path, begin: int) -> Iterator[Words]:
    """The words of each block, shape (n, 3) of uint64, as a trace that is not packed has them."""
    known: dict[str, Words] = {}
    with path.open("rb") as file:
        size, at = path.stat().st_size, begin
        file.seek(begin)
        while at < size:
            head = _head(file, at, path)
            columns = file.read(int(head["bytes"]))
            if len(columns) < int(head["bytes"]):
                raise RunError("became shorter while it was read", where=str(path))
            if int(head["flags"]) & ANEW or not known:
                known = {"page": np.empty(0, np.uint64), "ip": np.empty(0, np.uint64)}
            yield _words(head, columns, known, f"{path}, byte {at}")
            at += BLOCK.itemsize + len(columns)


def _head(file: BinaryIO, at: int, path: Path) -> np.void:
    raw = file.read(BLOCK.itemsize)
    if len(raw) < BLOCK.itemsize:
        raise RunError(f"is cut short: a block's header of {len(raw)} bytes", where=f"{path}, byte {at}")
    head = np.frombuffer(raw, dtype=BLOCK)[0]
    records, flags = int(head["records"]), int(head["flags"])
    if not 1 <= records <= MOST_RECORDS or head["zero"] or int(head["bytes"]) != _bytes(head) or flags > 15:
        raise RunError("no block of a packed trace begins here", where=f"{path}, byte {at}")
    return np.void(head) if not isinstance(head, np.void) else head


def _bytes(head: np.void) -> int:
    flags = int(head["flags"])
    each = 5 + bool(flags & WIDE_PAGES) + bool(flags & WIDE_IPS) + 4 * bool(flags & THREADS)
    return 8 * (int(head["pages"]) + int(head["ips"]) + int(head["times"])) + each * int(head["records"])


class _Columns:
    """Takes one column after the other from a block's bytes."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def take(self, kind: str, n: int) -> npt.NDArray[np.unsignedinteger]:
        column: npt.NDArray[np.unsignedinteger] = np.frombuffer(self._raw, kind, n, self._at)
        self._at += column.nbytes
        return column


def _words(head: np.void, raw: bytes, known: dict[str, Words], where: str) -> Words:
    flags, n = int(head["flags"]), int(head["records"])
    columns = _Columns(raw)
    for name, count in (("page", "pages"), ("ip", "ips")):
        if more := int(head[count]):
            known[name] = np.concatenate([known[name], columns.take("<u8", more)])
    times = columns.take("<u8", int(head["times"]))
    tid = columns.take("<u4", n).astype(np.uint64) if flags & THREADS else np.uint64(head["tid"])
    delta = columns.take("<u2", n).astype(np.uint64)
    far = delta == LONG
    if np.count_nonzero(far) != times.size:
        raise RunError("its long times are not those that its records have", where=where)
    delta[far] = times
    page = _looked_up(columns.take("<u2" if flags & WIDE_PAGES else "u1", n), known["page"], where)
    ip = _looked_up(columns.take("<u2" if flags & WIDE_IPS else "u1", n), known["ip"], where)
    delta[0] += head["time_ns"]
    time = np.cumsum(delta, out=delta)
    time <<= np.uint64(12)
    page <<= np.uint64(12)
    words = np.empty((n, 3), dtype=np.uint64)
    np.bitwise_or(time, _FLAGS[columns.take("u1", n)], out=words[:, 0])
    np.bitwise_or(page, tid & np.uint64(0xFFF), out=words[:, 1])
    np.bitwise_or(ip, tid >> np.uint64(12) << np.uint64(48), out=words[:, 2])
    return words


def _looked_up(number: npt.NDArray[np.unsignedinteger], known: Words, where: str) -> Words:
    if number.size and int(number.max()) >= known.size:
        raise RunError(f"has number {int(number.max())} of {known.size} pages or instructions", where=where)
    values: Words = known[number]
    return values
