# SPDX-License-Identifier: MIT
"""Packed traces: every record as it was, whatever is in the blocks; and what is damaged is said."""

from __future__ import annotations

import struct

import numpy as np
import pandas as pd
import pytest
from experiments.page_trace.trace.packed import ANEW, THREADS, WIDE_IPS, WIDE_PAGES
from experiments.page_trace.trace.pages import PageTable
from experiments.page_trace.trace.records import Trace
from experiments.page_trace.trace.reuse import ReuseDistances
from experiments.page_trace.trace.streams import Streams
from experiments.page_trace.trace.tables import fill
from experiments.page_trace.trace.transitions import Transitions

from harness.errors import RunError
from tests.experiments.page_trace.traces import header, record, words_of, write_trace


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
        (block(pages=[1], ips=[2], delta=[0], page=[0], ip=[1], kind=[0]), "number 1 of 1 pages or instructions"),
        (block(pages=[1], ips=[2], delta=[0, 0], page=[0] * 2, ip=[0] * 2, kind=[0, 0x60]), "record 1 .* type 6"),
        (block(pages=[1], ips=[2], delta=[0xFFFF], page=[0], ip=[0], kind=[0]), "long times"),
        (block(pages=[1], ips=[2], delta=[0], page=[0], ip=[0], kind=[0], zero=1), "no block of a packed trace"),
        (block(pages=[1], ips=[2], delta=[0], page=[0], ip=[0], kind=[0], records=2), "no block of a packed trace"),
    ],
)
def test_damage_is_said(tmp_path, damaged, said):
    with pytest.raises(RunError, match=said) as error:
        list(trace(tmp_path, damaged).chunks())
    path = tmp_path / "trace"
    of_file, of_first, of_second = str(path), f"{path}, byte 64", f"{path}, byte {64 + len(FIRST)}"
    assert error.value.where == {FIRST[:-1]: of_file, FIRST + SECOND[:20]: of_second}.get(damaged, of_first)


def packed(columns, sizes, anew):
    """Blocks of so many records each, of columns time, page, ip, kind, tid; those in `anew` forget what was known."""
    blocks, begin = [], 0
    known: dict[str, dict[int, int]] = {"page": {}, "ip": {}}
    for i, size in enumerate(sizes):
        part = columns.iloc[begin : begin + size]
        begin += size
        more = {}
        for name, numbers in known.items():
            if i in anew:
                numbers.clear()
            more[name] = [value for value in dict.fromkeys(part[name].tolist()) if value not in numbers]
            numbers.update({value: len(numbers) + at for at, value in enumerate(more[name])})
        time = part["time"].to_numpy()
        threads = part["tid"].tolist()
        wide = max(map(len, known.values())) > 256
        blocks.append(
            block(
                pages=more["page"],
                ips=more["ip"],
                delta=np.diff(time, prepend=time[0]),
                time_ns=int(time[0]),
                page=[known["page"][value] for value in part["page"]],
                ip=[known["ip"][value] for value in part["ip"]],
                kind=part["kind"],
                tid=threads[0],
                tids=threads if len(set(threads)) > 1 else None,
                flags=(WIDE_PAGES | WIDE_IPS) * wide | ANEW * (i in anew),
            )
        )
    return blocks


@pytest.mark.parametrize(("threads", "each"), [(1, 1), (3, 1), (2, 1000)])
@pytest.mark.parametrize("anew", [(), (2, 5)])
def test_every_table_is_that_of_the_records_written_as_words(tmp_path, threads, each, anew):
    random = np.random.default_rng(len(anew) + threads)
    n = 6000
    columns = pd.DataFrame(
        {
            "time": np.cumsum(random.integers(1, 50, n)),
            "page": 0x7000_0000_0 + np.minimum(random.zipf(1.3, n), 900),
            "ip": 0x401000 + random.integers(0, 30, n) * 4,
            "kind": random.choice([0x00, 0x01, 0x02, 0x10, 0x20, 0x30], n, p=[0.5, 0.3, 0.17, 0.01, 0.01, 0.01]),
            "tid": 100 + random.integers(0, threads, n // each).repeat(each),  # for so many records each
        }
    )
    words = words_of(
        record(page, time, kind >> 4, tid, kind & 15, ip)
        for time, page, ip, kind, tid in columns.itertuples(index=False)
    )
    plain = Trace(write_trace(tmp_path / "plain", words))
    made = trace(tmp_path, *packed(columns, [500, 1000, 1000, 250, 250, 3000], anew))
    for size in (500, 700, 1 << 16):
        of_words, of_blocks = ([PageTable(), ReuseDistances(), Streams(), Transitions()] for _ in range(2))
        fill(plain.chunks(size), of_words)
        fill(made.chunks(size), of_blocks)
        for one, other in zip(of_words, of_blocks, strict=True):
            pd.testing.assert_frame_equal(one.frame(), other.frame())
