# SPDX-License-Identifier: MIT
"""Visits that a later record makes void, against a loop that goes by the letter of the kernel's header."""

from __future__ import annotations

import numpy as np
from experiments.page_trace.trace.anew import AGAIN, KERNEL, SAME, replaced
from experiments.page_trace.trace.records import LOST, Trace
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.page_trace.traces import record, words_of, write_trace

FLAGS = st.sampled_from([0, 0, SAME, KERNEL, KERNEL | SAME, AGAIN, AGAIN | KERNEL])


def by_the_letter(rows):
    """Rows: (flags, tid, type)."""
    void, last = set(), {}
    for i, (flags, tid, kind) in enumerate(rows):
        if kind:
            continue
        key = tid, bool(flags & KERNEL)
        if flags & AGAIN and not flags & SAME:
            void |= set(last.get(key, []))
        if flags & SAME:
            last.setdefault(key, []).append(i)
        else:
            last[key] = [i]
    return sorted(void)


@given(
    rows=st.lists(st.tuples(FLAGS, st.sampled_from([100, 100, 100, 70000]), st.sampled_from([0, 0, 0, 0, LOST]))),
    size=st.integers(1, 7),
    short=st.booleans(),
)
def test_it_is_what_the_header_says_in_chunks_of_any_size(rows, size, short):
    chunks = []
    for i in range(0, len(rows), size):
        flags, tids, kinds = (np.array(column) for column in zip(*rows[i : i + size], strict=True))
        alone = short and (tids == tids[0]).all()  # a thread's number for all, as packed files have it
        tid = np.uint32(tids[0]) if alone else tids.astype(np.uint32)
        chunks.append(((flags | kinds << 4).astype(np.uint8), tid))
    assert replaced(chunks).tolist() == by_the_letter(rows)


def test_a_trace_is_read_without_them(tmp_path):
    # One page is there, the instruction's other one faults first, and it is begun anew.
    flags = [(1, 0), (2, 0), (1, AGAIN), (2, SAME), (3, KERNEL), (1, AGAIN), (2, SAME), (4, 0)]
    words = words_of(record(page, i, flags=bits) for i, (page, bits) in enumerate(flags))
    trace = Trace(write_trace(tmp_path / "t", words))
    assert trace.replaced.tolist() == [1, 2, 3]
    for size in (1, 3, 100):
        pages = np.concatenate([chunk.page for chunk in trace.chunks(size)])
        assert pages.tolist() == [1, 3, 1, 2, 4]
