# SPDX-License-Identifier: MIT
"""Page traces: the file, its records, the visits made of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from experiments.page_trace.trace.records import (
    CODE,
    EXEC,
    EXIT,
    LOST,
    TASK,
    VISIT,
    Records,
    Trace,
    decode,
)
from experiments.page_trace.trace.stats import TraceStats
from experiments.page_trace.trace.totals import Totals, code_pages, totals
from experiments.page_trace.trace.visits import NO_PAGE, visit_table, visits
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import RunError
from harness.measure.raw import read_answer
from tests.experiments.page_trace.traces import (
    STATS,
    encode,
    header,
    record,
    visits_of,
    words_of,
    write_stats,
    write_trace,
)

COLUMNS = ("time_ns", "page", "write", "kernel", "same", "ip", "tid", "type")
ROW = st.tuples(
    st.integers(0, 2**52 - 1),
    st.integers(0, 2**52 - 1),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.one_of(st.integers(0, 2**47 - 1), st.integers(2**64 - 2**47, 2**64 - 1)),
    st.integers(0, 2**28 - 1),
    st.integers(0, 5),
)
KINDS = (np.int64, np.uint64, bool, bool, bool, np.uint64, np.uint32, np.uint8)


def columns(rows) -> Records:
    return Records(*(np.array([row[i] for row in rows], dtype=kind) for i, kind in enumerate(KINDS)))


@given(st.lists(ROW, max_size=40))
def test_what_is_encoded_is_decoded(rows):
    before = columns(rows)
    after = decode(encode(before))
    for name in COLUMNS:
        assert np.array_equal(getattr(before, name), getattr(after, name)), name
        assert getattr(before, name).dtype == getattr(after, name).dtype


def test_a_record_by_the_letter_of_the_header():
    one = decode(
        words_of([(0x123456789ABCD << 12 | 0x105, 0x7FFFF7DD5 << 12 | 0xABC, 0x1234 << 48 | 0xFFFF_8100_0000)])
    )
    assert int(one.time_ns[0]) == 0x123456789ABCD
    assert (one.write[0], one.kernel[0], one.same[0], int(one.type[0])) == (True, False, True, CODE)
    assert int(one.page[0]) == 0x7FFFF7DD5
    assert int(one.tid[0]) == 0x1234ABC
    assert int(one.ip[0]) == 0xFFFF_FFFF_8100_0000


@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_a_file_read_in_pieces_is_the_file(tmp_path, size):
    words = visits_of(range(100))
    trace = Trace(write_trace(tmp_path / "t", words, window=4, pid=77))
    assert (trace.records, trace.header.window, trace.header.pid, trace.header.start_ns) == (100, 4, 77, 5)
    parts = list(trace.chunks(size))
    assert max(map(len, parts)) == min(size, 100)
    assert np.concatenate([part.page for part in parts]).tolist() == list(range(100))


def test_pieces_of_the_decoder_do_not_show():
    words = visits_of(range(100_000))
    assert np.array_equal(encode(decode(words)), words)


def test_a_trace_of_nothing(tmp_path):
    assert list(Trace(write_trace(tmp_path / "t", words_of([]))).chunks()) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "cut short: a header of 0 bytes"),
        (header()[:63], "cut short: a header of 63 bytes"),
        (header() + bytes(25), "cut short: 1 bytes after record 1"),
        (header(magic=b"KRPTRACF"), "its magic is wrong"),
        (header(version=3), "its version is wrong"),
        (header(record_bytes=32), "its record_bytes is wrong"),
        (header(page_shift=13), "its page_shift is wrong"),
        (header(window=0), "its window is wrong"),
        (header(window=65), "its window is wrong"),
        (header(zeros=bytes([0, 1])), "its zeros is wrong"),
    ],
)
def test_damaged_files_are_refused(tmp_path, content, says):
    path = tmp_path / "t"
    path.write_bytes(content)
    with pytest.raises(RunError, match=says) as error:
        Trace(path)
    assert error.value.where == str(path)


@pytest.mark.parametrize("bad", [(6 << 8, 0, 0), (8 << 8, 0, 0), (0x10, 0, 0), (0x80, 0, 0)])
def test_a_damaged_record_is_named(tmp_path, bad):
    path = write_trace(tmp_path / "t", np.concatenate([visits_of(range(10)), words_of([bad])]))
    with pytest.raises(RunError, match="record 10 is damaged") as error:
        list(Trace(path).chunks(4))
    assert error.value.where == f"{path}, byte {64 + 240}"


def test_an_absent_file(tmp_path):
    with pytest.raises(RunError, match="cannot be read"):
        Trace(tmp_path / "none")


def test_a_file_that_shrinks_meanwhile(tmp_path):
    path = write_trace(tmp_path / "t", visits_of(range(10)))
    trace = Trace(path)
    path.write_bytes(path.read_bytes()[:-48])
    with pytest.raises(RunError, match="shorter"):
        list(trace.chunks(4))


def test_totals_and_code_pages():
    kinds = [(1, VISIT), (900, CODE), (3, LOST), (2, VISIT), (800, CODE), (40, LOST), (1, TASK), (0, EXEC), (0, EXIT)]
    words = words_of(record(page, i, kind) for i, (page, kind) in enumerate(kinds))
    parts = [decode(words[:4]), decode(words[4:])]
    assert totals(parts) == Totals(visits=2, code=2, losses=2, lost=43, tasks=1, execs=1, exits=1, last_ns=8)
    assert code_pages(parts).tolist() == [800, 900]


# -- statistics --------------------------------------------------------------------------------------------


def test_statistics(tmp_path):
    def stats(**changed):
        return read_answer(write_stats(tmp_path / "s", **changed), TraceStats)

    assert stats().unaccounted == 0
    assert stats().exact
    for name in ("records", "lost", "code", "slow", "upgrades", "spurious"):
        assert stats(**{name: STATS[name] + 1}).unaccounted == -1, name
    assert stats(faults=103).unaccounted == 3
    assert stats(something="of a later version").faults == 100


def test_visits_are_counted_as_the_kernel_does(tmp_path):
    kinds = [(1, VISIT), (900, CODE), (2, VISIT), (1, TASK), (0, EXEC), (0, EXIT)]
    words = [record(page, i, kind) for i, (page, kind) in enumerate(kinds)]
    again = record(2, 9, flags=8)  # its instruction was begun anew: it replaces the visit before, which was written too
    trace = Trace(write_trace(tmp_path / "t", words_of([*words, again])))
    assert trace.written_visits == 3
    assert totals(trace.chunks()).visits == 2


# -- visits ------------------------------------------------------------------------------------------------


def rows_of(words, size=1 << 20):
    """(start, page, left, left_ns) of each visit, and (page, ns) of those ended otherwise."""
    rows, ended = [], []
    for part in visits(decode(words[i : i + size]) for i in range(0, len(words), size)):
        left = [None if page == int(NO_PAGE) else page for page in part.left.tolist()]
        rows += zip(part.start_ns.tolist(), part.page.tolist(), left, part.left_ns.tolist(), strict=True)
        ended += zip(part.ended.tolist(), part.ended_ns.tolist(), strict=True)
    return rows, ended


def naive(words):
    """The same, record by record."""
    rows, ended, threads = [], [], {}
    columns = [getattr(decode(words), name).tolist() for name in ("time_ns", "page", "tid", "type")]
    for time, page, tid, kind in zip(*columns, strict=True):
        if kind == LOST:
            threads.clear()
        elif kind == VISIT:
            before = threads.get(tid)
            if before is None or before[0] != page:
                rows.append((time, page, *((before[0], time - before[1]) if before else (None, 0))))
                threads[tid] = (page, time)
        elif kind != CODE and (before := threads.pop(tid, None)):
            ended.append((before[0], time - before[1]))
    return rows, ended


def test_repeats_are_one_visit_and_last_until_the_next():
    rows, ended = rows_of(visits_of([1, 1, 2, 1, 1, 1, 3]))
    assert rows == [(10, 1, None, 0), (30, 2, 1, 20), (40, 1, 2, 10), (70, 3, 1, 30)]
    assert ended == []


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from([VISIT] * 12 + [CODE, LOST, TASK, EXEC, EXIT]), st.integers(1, 3)),
        max_size=40,
    ),
    st.integers(1, 41),
)
def test_visits_are_those_of_a_naive_reading(events, size):
    words = words_of(record(page, 10 * i, kind, tid * 5000) for i, (page, kind, tid) in enumerate(events))
    rows, ended = rows_of(words, size)
    expected, expected_ended = naive(words)
    assert rows == expected
    assert sorted(ended) == sorted(expected_ended)


def test_flags_are_those_of_the_first_record():
    words = words_of([record(1, 1, flags=1), record(1, 2, flags=2), record(2, 3, flags=2), record(2, 4, flags=1)])
    (part,) = visits([decode(words)])
    assert part.write.tolist() == [True, False]
    assert part.kernel.tolist() == [False, True]


def test_the_table_of_visits_has_dwell_times_of_each_thread():
    events = [(1, VISIT, 1), (7, VISIT, 2), (2, VISIT, 1), (7, VISIT, 2), (8, VISIT, 2), (0, EXIT, 1), (3, VISIT, 1)]
    words = words_of(record(page, 10 * i, kind, tid) for i, (page, kind, tid) in enumerate(events))
    for size in (1, 3, 100):
        table = visit_table(visits(decode(words[i : i + size]) for i in range(0, len(words), size)))
        assert table["page"].tolist() == [1, 7, 2, 8, 3]
        assert table["dwell_ns"].fillna(-1).tolist() == [20, 30, 30, -1, -1]
    assert visit_table(visits([decode(words)]), most=2)["page"].tolist() == [1, 7]
    assert len(visit_table([])) == 0


def test_threads_are_told_apart_by_all_bits():
    words = words_of(record(page, i, tid=tid) for i, (page, tid) in enumerate(itertools.product([1, 1], [5, 5 + 4096])))
    assert len(rows_of(words)[0]) == 2
