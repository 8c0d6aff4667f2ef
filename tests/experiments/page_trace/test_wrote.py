# SPDX-License-Identifier: MIT
"""Visits that begin with a read and write later: what WROTE records say of them."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.page_trace.trace.records import EXIT, LOST, TELLS_WRITES, VISIT, WROTE, Trace
from experiments.page_trace.trace.visits import visit_table, visits
from experiments.page_trace.trace.wrote import Told, later_writes
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.page_trace.traces import record, words_of, write_trace

READ, WRITE = 0, 1


def told(path, rows, size=1 << 16):
    """Of each visit, merged as visits are: thread, page, whether it writes."""
    trace = Trace(write_trace(path, words_of(rows), flags=TELLS_WRITES))
    table = visit_table(visits(trace.chunks(size)))
    return list(table[["tid", "page", "write"]].itertuples(index=False, name=None))


def by_hand(rows):
    """The same, one record after the other: a WROTE record finds the thread's last visit of its page."""
    found, open_visit, of_page = [], {}, {}
    for kind, tid, page, write in rows:
        if kind == WROTE:
            if (tid, page) in of_page:
                of_page[tid, page][2] = True
        elif kind == VISIT:
            if open_visit.get(tid) is not None and open_visit[tid][1] == page:
                open_visit[tid][2] |= write
            else:
                open_visit[tid] = [tid, page, write]
                found.append(open_visit[tid])
            of_page[tid, page] = open_visit[tid]
    return [tuple(one) for one in found]


def test_a_visit_that_writes_later_writes_and_others_do_not(tmp_path):
    rows = [record(1), record(2), record(1, kind=WROTE), record(3, flags=1), record(1), record(4)]
    assert told(tmp_path / "t", rows) == [
        (100, 1, True), (100, 2, False), (100, 3, True), (100, 1, False), (100, 4, False),
    ]  # fmt: skip


def test_the_record_is_none_of_the_visits_and_needs_the_headers_word(tmp_path):
    rows = [record(1), record(1, kind=WROTE), record(2), record(0, kind=LOST), record(0, kind=EXIT)]
    trace = Trace(write_trace(tmp_path / "t", words_of(rows), flags=TELLS_WRITES))
    assert np.concatenate([chunk.type for chunk in trace.chunks()]).tolist() == [VISIT, VISIT, LOST, EXIT]
    with pytest.raises(Exception, match="record 1 is damaged"):
        list(Trace(write_trace(tmp_path / "u", words_of(rows))).chunks())


@st.composite
def histories(draw):
    """Threads with up to three pages at once; each goes when others come, and says so when it was written."""
    rows, held = [], {}
    for tid, page, write, later in draw(
        st.lists(st.tuples(st.sampled_from([7, 8]), st.integers(1, 4), st.booleans(), st.booleans()), max_size=40)
    ):
        pages = held.setdefault(tid, [])
        while len(pages) > 2 or any(one[0] == page for one in pages):
            gone, dirty = pages.pop(0)
            if dirty:
                rows.append((WROTE, tid, gone, False))
        rows.append((VISIT, tid, page, write))
        pages.append((page, later and not write))
    return rows


@given(histories(), st.integers(1, 50))
def test_they_are_those_that_a_person_finds_record_by_record(tmp_path_factory, rows, size):
    path = tmp_path_factory.mktemp("wrote") / "t"
    words = [record(page, kind=kind, tid=tid, flags=int(write)) for kind, tid, page, write in rows]
    assert told(path, words, size) == by_hand(rows)


@given(histories(), st.integers(1, 50))
def test_where_the_trace_is_cut_into_chunks_makes_no_difference(rows, size):
    kind, tid, page, write = (np.array(column) for column in zip(*rows, strict=True)) if rows else [np.empty(0)] * 4
    whole = Told(np.arange(len(rows)), tid.astype(np.uint32), page.astype(np.uint64), kind == WROTE, write.astype(bool))
    cut = [whole.where(np.arange(first, min(len(rows), first + size))) for first in range(0, len(rows), size)]
    assert later_writes(cut).tolist() == later_writes([whole]).tolist()
