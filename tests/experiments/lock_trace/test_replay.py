# SPDX-License-Identifier: MIT
"""The offline filters against what made-up threads are known to have done; streams with known differences."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.lock_trace.locks.acquisitions import acquisitions, with_conflicts
from experiments.lock_trace.locks.comparison import COUNTER, WAITED, compare, compare_filters
from experiments.lock_trace.locks.events import (
    ABANDONED,
    ACQUIRED,
    ATTEMPT,
    FAILED,
    INIT,
    OPEN,
    READ,
    RELEASE,
    SPIN,
    STREAM_PAPER,
    STREAM_PER_LOCK,
    VALIDATE,
    WAITS,
    WRITE,
)
from experiments.lock_trace.locks.replay import counter_filter, paper_filter, per_lock_filter
from experiments.lock_trace.locks.status import LockTraceStatus
from experiments.lock_trace.locks.truth import Truth, truth_of
from hypothesis import given
from hypothesis import strategies as st

from tests.lock_traces import Made, Simulation, encode, paper_expected, per_lock_expected, status_of, traced

ACTIONS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 2),
        st.sampled_from([0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 5]),
        st.booleans(),
    ),
    max_size=80,
)


def simulated(actions, cut: int) -> list[Made]:
    """Events from the one with number `cut` on: a trace that begins inside of blocks."""
    simulation = Simulation()
    for action in actions:
        simulation.step(*action)
    return traced(simulation.events, cut)


def by_order(log, values) -> list:
    """Values in the order of the made events."""
    return np.asarray(values)[np.argsort(log["order"])].tolist()


@given(ACTIONS, st.integers(0, 6))
def test_the_per_lock_filter_keeps_who_waited_and_who_was_waited_for(actions, cut):
    made = simulated(actions, cut)
    log = encode(made)
    assert by_order(log, per_lock_filter(log).kept) == per_lock_expected(made).kept


@given(ACTIONS, st.integers(0, 6))
def test_the_papers_filter_drops_one_acquisition_and_its_release(actions, cut):
    made = simulated(actions, cut)
    log = encode(made)
    assert by_order(log, paper_filter(log).kept) == paper_expected(made)


def truth(log) -> Truth:
    return truth_of(log, acquisitions(with_conflicts(log)))


@given(ACTIONS)
def test_the_truth_of_a_log_is_what_its_threads_did(actions):
    """Found by times and brackets, and expected from what each event was made for."""
    made = simulated(actions, 0)
    log = encode(made)
    told = truth(log)
    got = np.array([event.kind == ACQUIRED for event in made], dtype=bool)
    found = np.array(by_order(log, told.among(log, told.waited | told.awaited | told.open)), dtype=bool)
    assert found[got].tolist() == np.array(per_lock_expected(made).kept, dtype=bool)[got].tolist()


def test_who_came_before_the_lock_was_let_go_is_perhaps_waited_for():
    """The trylock fails between the hook of the release and the release itself; for sure nobody is waited for."""
    told = truth(encode(one((A, 0, 1), (Q, 0, 1), (R, 0, 1), (A, 1, 2), (W, 1, 2), (Q, 1, 2), (R, 1, 2))))
    assert (told.awaited.tolist(), told.perhaps.tolist()) == ([False, False], [True, False])
    # And here between the trylock and the begin of the wait.
    told = truth(encode(one((A, 0, 1), (Q, 0, 1), (A, 1, 2), (R, 0, 1), (W, 1, 2), (Q, 1, 2), (R, 1, 2))))
    assert (told.awaited.tolist(), told.perhaps.tolist()) == ([False, False], [True, False])


@pytest.mark.parametrize(("next_of_the_reader", "perhaps"), [(False, True), (True, False)])
def test_a_reader_has_perhaps_not_let_go_when_another_reader_gets_the_lock(next_of_the_reader, perhaps):
    """But it has when its own next event comes. A writer then waits for the other reader."""
    first = [(A, READ, 0, 1), (Q, READ, 0, 1), (A, READ, 1, 2), (R, READ, 0, 1), (Q, READ, 1, 2)]
    own = [(A, READ, 0, 3), (Q, READ, 0, 3), (R, READ, 0, 3)] if next_of_the_reader else []
    rest = [(A, WRITE, 2, 4), (W, WRITE, 2, 4), (R, READ, 1, 2), (Q, WRITE, 2, 4), (R, WRITE, 2, 4)]
    told = truth(
        encode([Made(0, kind, type_, thread, number) for kind, type_, thread, number in [*first, *own, *rest]])
    )
    by = dict(zip(told.taken["begin"], zip(told.awaited, told.perhaps, strict=True), strict=True))
    assert by[told.taken["begin"].min()] == (False, perhaps)
    assert (True, True) in by.values()


def by_counter(made: list[Made]) -> list[bool]:
    """The sentence, word for word: a block in which the counter reaches 2 is saved until it ends."""
    kept = [False] * len(made)
    for lock in {event.lock for event in made}:
        counter, block, saved = 0, list[int](), False
        for i in (i for i in range(len(made)) if made[i].lock == lock):
            event = made[i]
            if event.kind == INIT:
                counter, block, saved = 0, [], False
                continue
            block.append(i)
            counter += event.kind == ATTEMPT or event.tried
            counter -= event.kind in (RELEASE, ABANDONED)
            saved |= counter >= 2
            if saved:
                for k in block:
                    kept[k] = True
            if counter == 0:
                block, saved = [], False
    return kept


@given(ACTIONS, st.integers(0, 6))
def test_the_papers_other_sentence_keeps_where_the_counter_reaches_two(actions, cut):
    made = simulated(actions, cut)
    log = encode(made)
    assert by_order(log, counter_filter(log).kept) == by_counter(made)


def one(*kinds: tuple[int, int, int], tried: tuple[int, ...] = ()) -> list[Made]:
    """Events of lock 0: kind, thread, acquisition."""
    return [Made(0, kind, SPIN, thread, number, i in tried) for i, (kind, thread, number) in enumerate(kinds)]


def kept(made: list[Made]) -> tuple[list[bool], list[bool]]:
    """By the per-lock filter, by the paper's."""
    log = encode(made)
    return by_order(log, per_lock_filter(log).kept), by_order(log, paper_filter(log).kept)


A, W, Q, R, F = ATTEMPT, WAITS, ACQUIRED, RELEASE, FAILED


def test_alone_is_dropped_and_a_wait_keeps_both():
    alone = [(A, 0, 1), (Q, 0, 1), (R, 0, 1)]
    two = [(A, 0, 2), (Q, 0, 2), (A, 1, 3), (W, 1, 3), (R, 0, 2), (Q, 1, 3), (R, 1, 3)]
    assert kept(one(*alone, *two, *alone)) == ([False] * 3 + [True] * 7 + [False] * 3,) * 2


def test_who_attempts_while_another_holds_and_gets_it_at_once_has_not_waited():
    # The release was seen before the other's trylock, the attempt before the release.
    two = [(A, 0, 1), (Q, 0, 1), (A, 1, 2), (R, 0, 1), (Q, 1, 2), (R, 1, 2)]
    assert kept(one(*two)) == ([False] * 6, [True] * 6)


def test_who_waits_after_the_release_was_seen_is_kept_by_one_filter():
    # The trylock fails between the hook of the release and the release itself.
    two = [(A, 0, 1), (Q, 0, 1), (R, 0, 1), (A, 1, 2), (W, 1, 2), (Q, 1, 2), (R, 1, 2)]
    assert kept(one(*two)) == ([False] * 3 + [True] * 4, [False] * 7)


def test_who_overtakes_one_that_waits_is_kept():
    waits = [(A, 0, 1), (Q, 0, 1), (A, 1, 2), (W, 1, 2), (R, 0, 1)]
    overtakes = [(A, 2, 3), (Q, 2, 3), (R, 2, 3), (Q, 1, 2), (R, 1, 2)]
    assert kept(one(*waits, *overtakes))[0] == [True] * 10


def test_a_second_release_is_kept_and_costs_the_papers_filter_its_count():
    events = [(A, 0, 1), (Q, 0, 1), (R, 0, 1), (R, 0, -1), (A, 1, 2), (Q, 1, 2), (R, 1, 2), (A, 2, 3)]
    ours, papers = kept(one(*events))
    assert ours == [False, False, False, True, False, False, False, False]
    # The counter stays one too low: the release with the next attempt is a block, and so it goes on.
    assert papers == [False, False, False, True, True, True, True, True]


def test_a_second_release_loses_what_comes_after_it_by_the_papers_other_sentence():
    # The counter stays one too low, so that one holder and one waiter make it 1.
    events = [(A, 0, 1), (Q, 0, 1), (R, 0, 1), (R, 0, -1)]
    waits = [(A, 1, 2), (Q, 1, 2), (A, 2, 3), (W, 2, 3), (R, 1, 2), (Q, 2, 3), (R, 2, 3)]
    log = encode(one(*waits))
    assert by_order(log, counter_filter(log).kept) == [True] * 7
    log = encode(one(*events, *waits))
    assert not counter_filter(log).kept.any()
    # The first sentence takes the second attempt and the release before it for an acquisition and its own release.
    assert by_order(log, paper_filter(log).kept) == [False] * 3 + [True] * 3 + [False] * 3 + [True] * 2


def test_a_trace_that_begins_inside_keeps_the_waiter_of_a_holder_never_seen():
    # Thread 1 comes while thread 0, whose acquisition was before the trace, still holds.
    ours, _ = kept(one((A, 1, 1), (W, 1, 1), (R, 0, -1), (Q, 1, 1), (R, 1, 1)))
    assert ours == [True] * 5


def test_what_is_held_in_the_end_is_kept():
    assert kept(one((A, 0, 1), (Q, 0, 1)))[0] == [True] * 2
    assert kept(one((A, 0, 1)))[0] == [False]
    assert kept(one((A, 0, 1), (A, 1, 2), (W, 1, 2)))[0] == [False, True, True]


def test_a_reader_let_go_of_by_another_task_is_an_acquisition_as_any():
    made = [Made(1, kind, READ, thread, number) for kind, thread, number in ((A, 0, 1), (Q, 0, 1), (R, 1, 1))]
    assert kept(made)[0] == [False] * 3
    writer = [Made(1, kind, WRITE, 2, 2) for kind in (A, W)]
    assert kept(made[:2] + writer + made[2:])[0] == [True] * 5


def test_nobody_waits_where_a_trylock_fails():
    ours, papers = kept(one((F, 0, -1), (A, 1, 1), (Q, 1, 1), (F, 0, -1), (R, 1, 1)))
    assert ours == [False] * 5
    assert papers == [True] * 5


def test_a_successful_trylock_alone_is_dropped():
    made = one((Q, 0, 1), (R, 0, 1), tried=(0,))
    assert kept(made) == ([False] * 2, [False] * 2)


def test_locks_without_a_place_in_the_table_are_in_no_filter():
    made = one((A, 0, 1), (Q, 0, 1), (A, 1, 2))
    log = encode(made)
    log["order"] = 0
    assert not per_lock_filter(log).kept.any()
    assert paper_filter(log).block.tolist() == [-1] * 3


def test_an_empty_log():
    log = encode([])
    assert len(per_lock_filter(log).kept) == len(paper_filter(log).kept) == 0


# -- streams against the filters -------------------------------------------------------------------------


def status(events, **more) -> LockTraceStatus:
    return LockTraceStatus.model_validate(status_of(events, arm=VALIDATE, **more))


def contended():
    """A log with seven events that must be kept and three that must not, and both streams as they should be."""
    alone = [(A, 2, 9), (Q, 2, 9), (R, 2, 9)]
    log = encode(one((A, 0, 2), (Q, 0, 2), (A, 1, 3), (W, 1, 3), (R, 0, 2), (Q, 1, 3), (R, 1, 3), *alone))
    ours, papers = log[per_lock_filter(log).kept].copy(), log[paper_filter(log).kept].copy()
    ours["stream"], papers["stream"] = STREAM_PER_LOCK, STREAM_PAPER
    return log, ours, papers


def test_streams_as_they_should_be_are_equal():
    log, ours, papers = contended()
    ours["flags"][0] |= OPEN  # said of the copy alone
    events = np.concatenate([log, papers, ours])
    *kept_by, counter, waited = compare_filters(events, status(events), truth(log).taken)
    assert (counter.filter, counter.selected, counter.dropped_waits, counter.dropped_holders) == (COUNTER, 7, 0, 0)
    assert (waited.filter, waited.selected, waited.waits) == (WAITED, 7, 1)
    for found in kept_by:
        assert (found.selected, found.equal, found.missing, found.extra, found.different) == (7, 7, 0, 0, 0)
        assert found.reason is None
        assert found.examples.empty


def test_what_differs_is_counted_and_shown():
    log, ours, _ = contended()
    dropped = log[~per_lock_filter(log).kept][:1]
    ours["pid"][2] += 1
    replay = per_lock_filter(log)
    found = compare("per-lock", log, replay, np.concatenate([ours[1:], ours[1:2], dropped]), truth(log))
    assert (found.selected, found.equal, found.missing, found.extra, found.different) == (7, 5, 1, 2, 1)
    assert found.examples["what"].tolist() == ["missing", "extra", "extra", "different"]
    assert "attempt spinlock lock 0xffff888000001000" in found.examples["event"].iloc[0]


def test_what_waited_and_what_nobody_waited_in_are_counted():
    log, ours, papers = contended()
    alone = log[(log["kind"] == Q) & (log["pid"] == 13)]
    for stream, counts in (
        (ours, (1, 0, 0, 2, 0)),
        (ours[ours["kind"] != W], (1, 1, 0, 2, 0)),
        (ours[ours["pid"] == 12], (1, 0, 1, 1, 0)),
        (np.concatenate([papers, alone]), (1, 0, 0, 3, 1)),
    ):
        found = compare("x", log, per_lock_filter(log), stream, truth(log))
        assert (found.waits, found.dropped_waits, found.dropped_holders, found.acquisitions, found.idle) == counts


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"written": [9, 7, 7]}, "1 events of the log were lost"),
        ({"lost": [0, 2, 0]}, "2 events of the filter were lost"),
    ],
)
def test_with_lost_events_nothing_is_known(said, reason):
    events = np.concatenate(contended())
    found = compare_filters(events, status(events, **said), truth(contended()[0]).taken)[0]
    assert np.isnan(found.missing)
    assert found.reason == reason


def test_a_full_table_is_a_reason_only_where_it_made_a_difference():
    log, ours, papers = contended()
    for stream, reason in ((ours, None), (ours[1:], "3 acquisitions found no place")):
        events = np.concatenate([log, stream, papers])
        found = compare_filters(events, status(events, holds_full=3), truth(log).taken)[0]
        assert found.reason == reason
        assert np.isnan(found.missing) == (reason is not None)
