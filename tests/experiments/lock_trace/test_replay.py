# SPDX-License-Identifier: MIT
"""The offline filters against what made-up threads are known to have done; streams with known differences."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.lock_trace.locks.comparison import compare, compare_filters
from experiments.lock_trace.locks.events import (
    ACQUIRED,
    ATTEMPT,
    FAILED,
    OPEN,
    READ,
    RELEASE,
    SPIN,
    STREAM_PAPER,
    STREAM_PER_LOCK,
    VALIDATE,
)
from experiments.lock_trace.locks.replay import paper_filter, per_lock_filter
from experiments.lock_trace.locks.status import LockTraceStatus
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.errors import RunError
from tests.lock_traces import Made, Simulation, ambiguous, encode, paper_expected, per_lock_expected, status_of

ACTIONS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 2),
        st.sampled_from([0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 5, 6]),
        st.booleans(),
    ),
    max_size=80,
)


def simulated(actions, cut: int) -> list[Made]:
    """Events from the one with number `cut` on: a trace that begins inside of blocks."""
    simulation = Simulation()
    for action in actions:
        simulation.step(*action)
    return simulation.events[cut:]


def by_order(log, values) -> list:
    """Values in the order of the made events."""
    return np.asarray(values)[np.argsort(log["order"])].tolist()


@given(ACTIONS, st.integers(0, 6))
def test_the_per_lock_filter_keeps_what_ends_in_a_marked_block(actions, cut):
    made = simulated(actions, cut)
    assume(not cut or not ambiguous(made))
    log, expected = encode(made), per_lock_expected(made)
    found = per_lock_filter(log)
    assert by_order(log, found.kept) == expected.kept
    assert by_order(log, found.conflict) == expected.conflict
    assert by_order(log, found.depth) == expected.depth


@given(ACTIONS, st.integers(0, 6))
def test_the_papers_filter_drops_one_acquisition_and_its_release(actions, cut):
    made = simulated(actions, cut)
    log = encode(made)
    assert by_order(log, paper_filter(log).kept) == paper_expected(made)


def one(*kinds: tuple[int, int, int], tried: tuple[int, ...] = ()) -> list[Made]:
    """Events of lock 0: kind, thread, acquisition."""
    return [Made(0, kind, SPIN, thread, number, i in tried) for i, (kind, thread, number) in enumerate(kinds)]


def kept(made: list[Made]) -> tuple[list[bool], list[bool]]:
    """By the per-lock filter, by the paper's."""
    log = encode(made)
    return by_order(log, per_lock_filter(log).kept), by_order(log, paper_filter(log).kept)


A, Q, R, F = ATTEMPT, ACQUIRED, RELEASE, FAILED


def test_alone_is_dropped_and_a_second_one_keeps_both():
    alone = [(A, 0, 1), (Q, 0, 1), (R, 0, 1)]
    two = [(A, 0, 2), (Q, 0, 2), (A, 1, 3), (R, 0, 2), (Q, 1, 3), (R, 1, 3)]
    assert kept(one(*alone, *two, *alone)) == ([False] * 3 + [True] * 6 + [False] * 3,) * 2


def test_a_second_release_is_kept_and_costs_the_papers_filter_its_count():
    events = [(A, 0, 1), (Q, 0, 1), (R, 0, 1), (R, 0, -1), (A, 1, 2), (Q, 1, 2), (R, 1, 2), (A, 2, 3)]
    ours, papers = kept(one(*events))
    assert ours == [False, False, False, True, False, False, False, False]
    # The counter stays one too low: the release with the next attempt is a block, and so it goes on.
    assert papers == [False, False, False, True, True, True, True, True]


def test_a_trace_that_begins_inside_a_block_keeps_the_waiter_of_a_holder_never_seen():
    # Thread 1 comes while thread 0, whose acquisition was before the trace, still holds.
    ours, _ = kept(one((A, 1, 1), (R, 0, -1), (Q, 1, 1), (R, 1, 1)))
    assert ours == [True] * 4


def test_what_is_held_in_the_end_is_kept():
    assert kept(one((A, 0, 1), (Q, 0, 1)))[0] == [True] * 2
    assert kept(one((A, 0, 1)))[0] == [False]
    assert kept(one((A, 0, 1), (A, 1, 2)))[0] == [False, True]


def test_a_reader_let_go_of_by_another_task_is_kept_with_its_release():
    made = [Made(1, kind, READ, thread, number) for kind, thread, number in ((A, 0, 1), (Q, 0, 1), (R, 1, -3))]
    assert kept(made)[0] == [True] * 3


def test_a_failed_trylock_marks_only_where_somebody_is():
    ours, papers = kept(one((F, 0, -1), (A, 1, 1), (Q, 1, 1), (F, 0, -1), (R, 1, 1)))
    assert ours == [False, True, True, True, True]
    assert papers == [True] * 5


def test_a_successful_trylock_alone_is_dropped():
    made = one((Q, 0, 1), (R, 0, 1), tried=(0,))
    assert kept(made) == ([False] * 2, [False] * 2)


def test_locks_without_a_number_are_in_no_filter():
    made = one((A, 0, 1), (Q, 0, 1), (A, 1, 2))
    log = encode(made)
    log["sequence"] = 0
    assert not per_lock_filter(log).kept.any()
    assert per_lock_filter(log).block.tolist() == [-1] * 3


def test_a_sequence_given_twice_is_an_error():
    log = encode(one((A, 0, 1), (Q, 0, 1)))
    log["sequence"] = 7
    with pytest.raises(RunError, match="two events with sequence 7"):
        per_lock_filter(log)


def test_an_empty_log():
    log = encode([])
    assert len(per_lock_filter(log).kept) == len(paper_filter(log).kept) == 0


# -- streams against the filters -------------------------------------------------------------------------


def status(events, **more) -> LockTraceStatus:
    return LockTraceStatus.model_validate(status_of(events, arm=VALIDATE, **more))


def contended():
    """A log with six events that must be kept and three that must not, and both streams as they should be."""
    alone = [(A, 2, 9), (Q, 2, 9), (R, 2, 9)]
    log = encode(one((A, 0, 2), (Q, 0, 2), (A, 1, 3), (R, 0, 2), (Q, 1, 3), (R, 1, 3), *alone))
    ours, papers = log[per_lock_filter(log).kept].copy(), log[paper_filter(log).kept].copy()
    ours["stream"], papers["stream"] = STREAM_PER_LOCK, STREAM_PAPER
    return log, ours, papers


def test_streams_as_they_should_be_are_equal():
    log, ours, papers = contended()
    ours["flags"][0] |= OPEN  # said of the copy alone
    events = np.concatenate([log, papers, ours])
    for found in compare_filters(events, status(events)):
        assert (found.selected, found.equal, found.missing, found.extra, found.different) == (6, 6, 0, 0, 0)
        assert found.reason is None
        assert found.examples.empty


def test_what_differs_is_counted_and_shown():
    log, ours, _ = contended()
    dropped = log[~per_lock_filter(log).kept][:1]
    ours["time"][2] += 1
    found = compare("per-lock", log, per_lock_filter(log), np.concatenate([ours[1:], ours[1:2], dropped]))
    assert (found.selected, found.equal, found.missing, found.extra, found.different) == (6, 4, 1, 2, 1)
    assert found.examples["what"].tolist() == ["missing", "extra", "extra", "different"]
    assert "attempt spinlock lock 0xffff888000001000" in found.examples["event"].iloc[0]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"written": [8, 6, 6]}, "1 events of the log were lost"),
        ({"lost": [0, 2, 0]}, "2 events of the filter were lost"),
    ],
)
def test_with_lost_events_nothing_is_known(said, reason):
    events = np.concatenate(contended())
    found = compare_filters(events, status(events, **said))[0]
    assert np.isnan(found.missing)
    assert found.reason == reason


def test_a_full_table_is_a_reason_only_where_it_made_a_difference():
    log, ours, papers = contended()
    for stream, reason in ((ours, None), (ours[1:], "3 readers found no place")):
        events = np.concatenate([log, stream, papers])
        found = compare_filters(events, status(events, holds_full=3))[0]
        assert found.reason == reason
        assert np.isnan(found.missing) == (reason is not None)
