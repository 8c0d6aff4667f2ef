# SPDX-License-Identifier: MIT
"""Packed traces: every record as it was, whatever is in the blocks; and what is damaged is said."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from experiments.page_trace.trace.packed import ANEW, THREADS, WIDE_IPS, WIDE_PAGES
from experiments.page_trace.trace.records import HEADER, Trace

from harness.errors import RunError
from tests.experiments.page_trace.traces import header


def block(
    pages=(), ips=(), times=(), delta=(), page=(), ip=(), kind=(), tid=7, tids=None, flags=0, time_ns=0, **changed
):
    """One block, by the letter of guest/pagetrace/output.c."""
    n = len(kind)
    flags |= THREADS if tids is not None else 0
    columns = np.array([*pages, *ips, *times], dtype="<u8").tobytes()
    columns += (
        np.array(tids if tids is not None else [], dtype="<u4").tobytes() + np.array(delta, dtype="<u2").tobytes()
    )
    columns += np.array(page, dtype="<u2" if flags & WIDE_PAGES else "u1").tobytes()
    columns += np.array(ip, dtype="<u2" if flags & WIDE_IPS else "u1").tobytes() + np.array(kind, dtype="u1").tobytes()
    fields = {"bytes": len(columns), "records": n, "pages": len(pages), "ips": len(ips), "times": len(times)}
    fields |= {"flags": flags, "tid": tid, "zero": 0} | changed
    return struct.pack("<8IQ", *fields.values(), time_ns) + columns


FIRST = block(
    pages=[0x500, 0x501], ips=[0x401000], delta=[0, 5, 0xFFFF], times=[100_000], page=[0, 1, 0], ip=[0, 0, 0],
    kind=[0x00, 0x15, 0x02], time_ns=1000,
)  # fmt: skip
SECOND = block(
    pages=[0x7FFF_FFFF_F], delta=[0, 1], page=[2, 0], ip=[0, 0], kind=[0, 0], tids=[7, 0x12345], time_ns=200_000,
    flags=WIDE_PAGES | WIDE_IPS,
)  # fmt: skip
ANEW_BLOCK = block(
    pages=[0x900], ips=[0xFFFF_8000_0000], delta=[0], page=[0], ip=[0], kind=[0], flags=ANEW, time_ns=300_000
)


def trace(tmp_path, *blocks):
    path = tmp_path / "trace"
    path.write_bytes(header(version=2, record_bytes=0) + b"".join(blocks))
    return Trace(path)


@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_records_come_back_as_they_were(tmp_path, size):
    made = trace(tmp_path, FIRST, SECOND, ANEW_BLOCK)
    assert (made.packed, made.records) == (True, 6)
    parts = list(made.chunks(size))
    assert max(map(len, parts)) <= size
    page = np.concatenate([part.page for part in parts]).tolist()
    assert page == [0x500, 0x501, 0x500, 0x7FFF_FFFF_F, 0x500, 0x900]
    assert np.concatenate([part.time_ns for part in parts]).tolist() == [1000, 1005, 101_005, 200_000, 200_001, 300_000]
    assert np.concatenate([part.tid for part in parts]).tolist() == [7, 7, 7, 7, 0x12345, 7]
    assert np.concatenate([part.type for part in parts]).tolist() == [0, 1, 0, 0, 0, 0]
    assert np.concatenate([part.kernel for part in parts]).tolist() == [False, False, True, False, False, False]
    ip = np.concatenate([part.ip for part in parts]).tolist()
    assert ip == [0x401000] * 5 + [0xFFFF_FFFF_8000_0000 & ~0xFFFF_0000_0000 | 0xFFFF_0000_0000]
    assert made.last_ns() == 300_000


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (FIRST[:-1], "cut short: 1 bytes"),
        (FIRST + SECOND[:20], "cut short: a block's header of 20 bytes"),
        (block(pages=[1], ips=[2], delta=[0], page=[1], ip=[0], kind=[0]), "number 1 of 1 pages"),
        (block(pages=[1], ips=[2], delta=[0xFFFF], page=[0], ip=[0], kind=[0]), "long times"),
        (block(pages=[1], ips=[2], delta=[0], page=[0], ip=[0], kind=[0], zero=1), "no block of a packed trace"),
        (block(pages=[1], ips=[2], delta=[0], page=[0], ip=[0], kind=[0], records=2), "no block of a packed trace"),
    ],
)
def test_damage_is_said(tmp_path, damaged, said):
    with pytest.raises(RunError, match=said):
        list(trace(tmp_path, damaged).chunks())
    assert HEADER.itemsize == 64
