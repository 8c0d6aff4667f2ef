"""A trace against an exact sequence: what is equal, what differs, and why."""

from __future__ import annotations

import difflib
import itertools
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.measure.pagetrace.comparison import compare
from harness.measure.pagetrace.lcs import Lcs
from harness.measure.pagetrace.records import KERNEL, SAME, code_pages, decode
from tests.page_traces import code_record, oracle_frame, record, visits_of, words_of

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
    oracle = oracle_frame([1, 2, 5, 2, 9, 3], [False, False, True, False, False, False])
    assert by_class(compared([1, 5, 2, 9, 3], oracle)) == {"kernel": (1, 1, 0)}
    # The same without the kernel's access is nobody's fault but the trace's.
    assert by_class(compared([1, 5, 2, 9, 3], [1, 2, 5, 2, 9, 3])) == {"unknown": (1, 1, 0)}
    # Something else is missing.
    oracle = oracle_frame([1, 4, 5, 2, 9, 3], [False, False, True, False, False, False])
    assert by_class(compared([1, 5, 2, 9, 3], oracle)) == {"unknown": (1, 1, 0)}


def test_kernel_records_without_an_access():
    words = words_of([record(1), record(2), record(9, flags=KERNEL), record(3)])
    assert by_class(compared(None, [1, 2, 3], words=words)) == {"kernel": (1, 0, 1)}


def test_instructions_of_several_pages_keep_them():
    words = words_of([record(1), record(5), record(6, flags=SAME), record(2)])
    result = compared(None, [1, 5, 6, 5, 6, 5, 6, 2], words=words)
    assert by_class(result) == {"string": (1, 4, 0)}
    assert by_class(compared([1, 5, 6, 2], [1, 5, 6, 5, 6, 5, 6, 2])) == {"unknown": (1, 4, 0)}
    assert by_class(compared(None, [1, 5, 6, 7, 5, 6, 2], words=words)) == {"unknown": (1, 3, 0)}


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


@pytest.mark.parametrize("window", [2, 4, 16])
def test_a_lossy_trace_is_a_subsequence(window):
    """What a window of `window` resident pages, first in first out, leaves of a sequence."""
    random = np.random.default_rng(window)
    oracle = collapsed(np.minimum(random.geometric(0.05, 60_000), 60).tolist())
    resident, trace = [], []
    for page in oracle:
        if page not in resident:
            trace.append(page)
            resident = [*resident, page][-window:]
    result = compared(trace, oracle, size=7000)
    assert result.equal_at_most == len(collapsed(trace))
    assert result.equal >= 0.999 * result.equal_at_most
    assert result.loss == pytest.approx(1 - len(trace) / len(oracle), abs=0.002)
