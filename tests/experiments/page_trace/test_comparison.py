# SPDX-License-Identifier: MIT
"""A trace against an exact sequence: what is equal, what differs, and why."""

from __future__ import annotations

import difflib
import itertools
from random import Random

import numpy as np
import pytest
from experiments.page_trace.trace.comparison import compare
from experiments.page_trace.trace.lcs import Lcs
from experiments.page_trace.trace.records import KERNEL, SAME, decode
from experiments.page_trace.trace.totals import code_pages
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.page_trace.traces import code_record, oracle_frame, record, visits_of, words_of

PAGES = st.lists(st.integers(0, 5), max_size=50)


def collapsed(pages):
    return [page for page, _ in itertools.groupby(pages)]


def lcs_length(a, b):
    """By the textbook."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = row[:]
        for j, y in enumerate(b):
            row[j + 1] = before[j] + 1 if x == y else max(row[j], before[j + 1])
    return row[-1]


def compared(trace, oracle, *, size=1 << 20, kernel=None, words=None):
    words = visits_of(trace) if words is None else words
    parts = [decode(words[i : i + size]) for i in range(0, len(words), size)]
    frame = oracle_frame(oracle, kernel)
    frames = [frame.iloc[i : i + size] for i in range(0, len(frame), size)]
    return compare(parts, frames, code_pages(parts))


def by_class(comparison):
    table = comparison.differences.set_index("class")
    return {name: tuple(row) for name, row in table.iterrows() if row["differences"]}


@given(PAGES, PAGES, st.integers(0, 50))
def test_lcs_is_a_longest_common_subsequence(a, b, y):
    table = Lcs(a, b)
    y = min(y, len(b))
    pairs = table.pairs(y)
    assert len(pairs) == table.length(y) == lcs_length(a, b[:y])
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(i < k and j < m for (i, j), (k, m) in itertools.pairwise(pairs))


@given(PAGES, PAGES, st.integers(1, 60))
def test_short_sequences_are_lined_up_as_well_as_can_be(trace, oracle, size):
    result = compared(trace, oracle, size=size)
    left, right = collapsed(oracle), collapsed(trace)
    assert (result.oracle, result.trace) == (len(left), len(right))
    assert result.equal == lcs_length(left, right)
    blocks = difflib.SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    assert result.equal >= sum(block.size for block in blocks)
    assert result.equal <= result.equal_at_most
    assert result.equal + result.missing == result.oracle
    assert result.equal + result.extra == result.trace
    assert result.differences[["missing", "extra"]].sum().tolist() == [result.missing, result.extra]


@given(st.integers(0, 2**32), st.integers(1, 300), st.booleans())
def test_few_differences_in_a_long_sequence_are_counted_exactly(seed, distance, lossless):
    """Pages of a loop with excursions; some visits to a page of its own are removed on one side, or added."""
    random = Random(seed)
    base = [page for i in range(3000) for page in (1, 2 + i % 7, 1, 9 + random.randrange(50))]
    oracle, removed = list(base), 0
    for at in range(distance, len(base), max(200, distance)):
        oracle.insert(at + removed, 1000)
        removed += 1
    trace, oracle = (oracle, base) if lossless else (base, oracle)
    result = compared(trace, oracle, size=1000)
    # An added page may lie between two visits of one page, which then are two.
    assert result.equal == len(collapsed(base))
    assert (result.missing > 0) == (removed > 0 and not lossless)
    assert (result.extra > 0) == (removed > 0 and lossless)


def test_equal_sequences():
    result = compared([1, 2, 3, 3, 1] * 30_000, [1, 1, 2, 3, 1] * 30_000, size=4001)
    assert (result.equal, result.missing, result.extra, result.loss) == (90_001, 0, 0, 0.0)
    assert by_class(result) == {}


def test_sequences_of_nothing():
    assert np.isnan(compared([], []).loss)
    result = compared([], [1, 2])
    assert (result.missing, result.loss) == (2, 1.0)
    assert by_class(result) == {"boundary": (1, 2, 0)}
    assert compared([1, 2], []).extra == 2


def test_code_pages_are_left_out_on_both_sides():
    words = words_of([record(1), code_record(77), record(77), record(1), record(2)])
    result = compared(None, [77, 1, 77, 1, 77, 2], words=words)
    assert (result.oracle, result.trace, result.equal) == (2, 2, 2)
    assert (result.oracle_code, result.trace_code) == (3, 1)


def test_what_lies_before_and_behind_is_a_boundary():
    result = compared([50, 51, 1, 2, 3, 60], [40, 1, 2, 3, 70, 71])
    assert by_class(result) == {"boundary": (2, 3, 3)}
    assert result.equal == 3


def test_kernel_accesses_explain_what_vanishes_without_them():
    oracle = [1, 2, 9, 2, 3, 4, 8, 3]
    result = compared([1, 2, 3, 4, 3], oracle, kernel=[False, False, True, False, False, False, True, False])
    assert by_class(result) == {"kernel": (2, 3, 0)}
    # The same difference, but page 9 was the process's own.
    assert by_class(compared([1, 2, 3, 4, 3], oracle)) == {"unknown": (2, 3, 0)}
    # A kernel's access does not excuse its neighbours: 5 is missing too.
    result = compared([1, 2, 3], [1, 2, 9, 5, 3], kernel=[False, False, True, False, False])
    assert by_class(result) == {"unknown": (1, 2, 0)}


def test_part_of_an_interrupted_instruction_is_the_kernels():
    # The instruction touches 2 and 9; after 2 came an interrupt, in which the kernel touched 5; then it ran whole.
    words = words_of(record(page, i, flags=KERNEL if page == 5 else 0) for i, page in enumerate([1, 5, 2, 9, 3]))
    interrupted = [1, 2, 5, 2, 9, 3]
    by_kernel = [page == 5 for page in interrupted]
    assert by_class(compared(None, interrupted, words=words, kernel=by_kernel)) == {"kernel": (1, 1, 0)}
    # The same without the kernel's access is nobody's fault but the trace's.
    assert by_class(compared(None, interrupted, words=words)) == {"unknown": (1, 1, 0)}
    # Something else is missing.
    assert by_class(compared(None, [1, 4, 5, 2, 9, 3], words=words, kernel=by_kernel)) == {"unknown": (1, 1, 0)}


def test_kernel_records_without_an_access():
    words = words_of([record(1), record(2), record(9, flags=KERNEL), record(3)])
    assert by_class(compared(None, [1, 2, 3], words=words)) == {"kernel": (1, 0, 1)}


def test_instructions_of_several_pages_keep_them():
    words = words_of([record(1), record(5), record(6, flags=SAME), record(2)])
    for size in (1, 2, 3, 100):
        result = compared(None, [1, 5, 6, 5, 6, 5, 6, 2], words=words, size=size)
        assert by_class(result) == {"string": (1, 4, 0)}
    assert by_class(compared([1, 5, 6, 2], [1, 5, 6, 5, 6, 5, 6, 2])) == {"unknown": (1, 4, 0)}
    assert by_class(compared(None, [1, 5, 6, 7, 5, 6, 2], words=words)) == {"unknown": (1, 3, 0)}
    # An instruction before the neighbours explains nothing either.
    words = words_of([record(5), record(6, flags=SAME), record(1), record(2)])
    assert by_class(compared(None, [5, 6, 1, 5, 6, 2], words=words, size=2)) == {"unknown": (1, 2, 0)}


def test_an_instruction_of_several_pages_explains_what_could_as_well_be_missing_from_it():
    # fxsave over 12 and 11 goes to and fro; from the trace the last of it could be missing, or what follows.
    rows = [(7, 0), (12, 0), (11, 0), (12, SAME), (11, 0), (20, 0), (30, 0)]
    words = words_of(record(page, i, flags=flags) for i, (page, flags) in enumerate(rows))
    assert by_class(compared(None, [7, 12, 11, 12, 11, 12, 11, 20, 30], words=words)) == {"string": (1, 2, 0)}
    assert by_class(compared(None, [7, 12, 11, 12, 11, 20, 11, 20, 30], words=words)) == {"unknown": (1, 2, 0)}


def test_extra_visits_do_not_explain_themselves():
    words = words_of([record(1), record(7), record(8), record(2)])
    assert by_class(compared(None, [1, 2], words=words)) == {"unknown": (1, 0, 2)}


def test_examples_name_the_place():
    result = compared([1, 2, 3, 4], [1, 2, 0xABC, 3, 4])
    (example,) = result.examples.to_dict("records")
    assert (example["oracle_at"], example["trace_at"], example["missing"], example["extra"]) == (2, 2, 1, 0)
    assert example["oracle_pages"] == "abc"


@pytest.mark.parametrize("lost", [100, 5000, 200_000])
def test_a_loss_in_the_middle_is_found_at_its_size(lost):
    random = np.random.default_rng(1)
    oracle = random.integers(0, 500, 600_000)
    oracle = oracle[np.r_[True, oracle[1:] != oracle[:-1]]]
    at = 150_000
    trace = np.r_[oracle[:at], oracle[at + lost :]]
    result = compared(trace.tolist(), oracle.tolist(), size=50_000)
    assert result.missing == pytest.approx(lost, abs=2)
    assert result.extra <= 1


def test_a_trace_that_began_long_before():
    random = np.random.default_rng(2)
    pages = random.integers(0, 100, 100_000).tolist()
    result = compared(pages, pages[30_000:])
    assert result.missing <= 1
    table = result.differences.set_index("class")
    assert table.loc["boundary", "extra"] == result.extra
    assert table.loc["unknown", "differences"] == 0


def sorting(n, seed):
    """Two pages that approach each other, with two stack pages in between, as quicksort does."""
    random = Random(seed)
    pages = []
    while len(pages) < n:
        i = random.randrange(300)
        j = i + random.randrange(5, 200)
        while i < j:
            for _ in range(random.randrange(1, 9)):
                pages += [1000 + i, 7, 1000 + j, 7] if random.random() < 0.6 else [1000 + i, 8, 7]
            i, j = (i + 1, j) if random.random() < 0.5 else (i, j - 1)
    return collapsed(pages)


def seen_through(window, oracle):
    """What a window of resident pages, first in first out, leaves of a sequence."""
    resident, trace = [], []
    for page in oracle:
        if page not in resident:
            trace.append(page)
            resident = [*resident, page][-window:]
    return trace


@pytest.mark.parametrize("window", [2, 4, 16])
def test_a_lossy_trace_is_a_subsequence(window):
    oracle = sorting(60_000, window)
    trace = seen_through(window, oracle)
    result = compared(trace, oracle, size=7000)
    assert result.equal == result.equal_at_most == len(trace)
    assert result.loss == pytest.approx(1 - len(trace) / len(oracle))


@pytest.mark.parametrize("window", [2, 4, 16])
@pytest.mark.parametrize("places", [(5000, 6000), (7, 9)])
def test_a_lossy_trace_with_pages_of_its_own(window, places):
    """Of pages that the oracle never sees, or of its most frequent ones."""
    random = Random(1)
    oracle = sorting(60_000, 3)
    kept = seen_through(window, oracle)
    trace = collapsed(
        [x for page in kept for x in ([random.randrange(*places), page] if random.random() < 0.02 else [page])]
    )
    result = compared(trace, oracle, size=7000)
    assert result.equal >= 0.99 * len(kept)
    assert result.equal <= result.equal_at_most


def test_a_loop_in_resident_pages_leaves_no_records():
    """Long stretches of the oracle without any: they are passed over, and the rest is found."""
    before, after = sorting(5000, 1), sorting(5000, 2)
    oracle = [*before, *[2000, 2001, 2002] * 20_000, *after]
    trace = seen_through(4, oracle)
    result = compared(trace, oracle)
    assert result.equal == len(trace)


def test_pages_that_the_oracle_does_not_have_at_all():
    base = sorting(3000, 4)
    trace = [*base[:1500], *range(9000, 9200), *base[1500:]]
    result = compared(trace, base)
    assert (result.extra, result.missing) == (200, 0)
    result = compared([*range(9000, 40_000), *seen_through(16, base)], base)
    assert result.equal >= 0.99 * len(seen_through(16, base))
