# SPDX-License-Identifier: MIT
"""Binary files of the observer and of what it is compared with: little-endian records without a header.

docs/file-formats.md describes them. Files are read in bounded pieces; what is damaged is an error that says where.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import RunError

Records = npt.NDArray[Any]
Clocks = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: Of a sample: the window from the sample before to this one is trusted; this one was delayed on purpose; samples were
#: lost before it; it is the first; its window's begin clocks are equal.
TRUSTED, DELAYED, GAP, FIRST, ZERO = 1, 2, 4, 8, 16
#: Of a switch: no line at rest was read (count and time are another switch's, the ids are right).
TORN = 1
#: Of the kernel's trace: events were lost before this one.
LOST_BEFORE = 1

SWITCH = np.dtype(
    [
        ("seen", "<u8"),
        ("pid", "<i4"),
        ("tgid", "<i4"),
        ("count", "<u8"),
        ("time", "<u8"),
        ("flags", "<u4"),
        ("cpu", "<u4"),
    ]
)
INJECTED = np.dtype([("number", "<u8"), ("begin", "<u8"), ("delay", "<u8")])
EVENT = np.dtype([("time", "<u8"), ("prev", "<i4"), ("next", "<i4"), ("cpu", "<u4"), ("flags", "<u4")])
CHUNK = np.dtype(
    [
        ("begin", "<u8"),
        ("end", "<u8"),
        ("kind", "<u4"),
        ("tid", "<i4"),
        ("instructions", "<u8"),
        ("iterations", "<u8"),
    ]
)
#: Records that are read at once when nothing else is said.
PIECE = 1 << 19
_KNOWN = {SWITCH: TORN | GAP | FIRST, EVENT: LOST_BEFORE}
_SAMPLE_FLAGS = TRUSTED | DELAYED | GAP | FIRST | ZERO


def sample_type(signals: int) -> np.dtype[Any]:
    """Records of samples.bin with so many signals: field `signals` has shape (signals,)."""
    return np.dtype(
        [
            ("begin", "<u8"),
            ("end", "<u8"),
            ("pid", "<i4"),
            ("tgid", "<i4"),
            ("count", "<u8"),
            ("flags", "<u4"),
            ("number", "<u4"),
            ("signals", "<u8", (signals,)),
        ]
    )


def pieces(path: Path, kind: np.dtype[Any], records: int = PIECE) -> Iterator[Records]:
    """All records of a file in order, at most `records` at a time.

    RunError when the file cannot be read, ends inside a record, or has flags that no version knows; `where` says at
    which byte.
    """
    known = _SAMPLE_FLAGS if "number" in (kind.names or ()) else _KNOWN.get(kind)
    try:
        size = path.stat().st_size
        if size % kind.itemsize:
            whole = size // kind.itemsize
            raise RunError(
                f"is cut short: {size % kind.itemsize} bytes after record {whole}",
                where=f"{path}, byte {whole * kind.itemsize}",
            )
        with path.open("rb") as file:
            for first in range(0, size // kind.itemsize, records):
                part = np.fromfile(file, dtype=kind, count=min(records, size // kind.itemsize - first))
                _check(part, known if "flags" in (kind.names or ()) else None, first, path)
                yield part
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", where=str(path)) from error


def whole(path: Path, kind: np.dtype[Any], written: int | None = None) -> Records:
    """All records of a file at once, shape (n,); errors as `pieces`, and where there are not `written` of them."""
    parts = list(pieces(path, kind))
    records = np.concatenate(parts) if parts else np.empty(0, dtype=kind)
    check_written(len(records), written, path)
    return records


def check_written(records: int, written: int | None, path: Path) -> None:
    """RunError when a file does not hold what its program says it wrote: it may be cut between two records."""
    if written is not None and records != written:
        raise RunError(f"holds {records} records, {written} were written", where=str(path))


def _check(part: Records, known: int | None, first: int, path: Path) -> None:
    if known is None or not len(part):
        return
    if int(np.bitwise_or.reduce(part["flags"])) & ~known:
        at = int(np.flatnonzero(part["flags"] & ~np.uint32(known))[0])
        raise RunError(
            f"record {first + at} is damaged: flags {int(part['flags'][at]):#x}",
            where=f"{path}, byte {(first + at) * part.dtype.itemsize}",
        )
