# SPDX-License-Identifier: MIT
"""Who waited for whom in traces of arm contended: made-up locks, whose waits and holders are known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from experiments.lock_trace.locks.contended import releases_of, waited_for, waits_of
from experiments.lock_trace.locks.events import (
    ABANDONED,
    ACQUIRED,
    ATTEMPT,
    EVENT,
    MUTEX,
    RELEASE,
    STREAM_PER_LOCK,
    WAITS,
    Events,
)
from hypothesis import given
from hypothesis import strategies as st

LOCKS = (0xFFFF888000001000, 0xFFFF888000002040)


class Traced:
    """Mutexes of one word, as the kernel traces them: a version for both, events of who waits, and marks."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, ...]] = []
        self.version = 0
        self.holder: dict[int, int] = {}
        self.waiting: dict[int, list[int]] = {lock: [] for lock in LOCKS}
        #: Waiter and when he began to, holder and when he let go.
        self.truth: set[tuple[int, int, int, int]] = set()
        self.wait: dict[int, int] = {}
        self.gave_up: dict[int, list[tuple[int, int]]] = {lock: [] for lock in LOCKS}
        self.ticks = itertools.count(1000, 10)

    def event(self, lock: int, kind: int, pid: int, sequence: int, order: int = 0) -> int:
        position, time = len(self.rows) + 1, next(self.ticks)
        self.rows.append(
            (position, time, lock, 0x100, order, sequence, 1, pid, 0, 0, kind, MUTEX, STREAM_PER_LOCK, 0, 0)
        )
        return time

    def take(self, lock: int, pid: int) -> None:
        if lock not in self.holder:
            self.holder[lock] = pid
            return
        self.version += 1
        self.waiting[lock].append(pid)
        self.event(lock, ATTEMPT, pid, 0)
        self.wait[pid] = self.event(lock, WAITS, pid, self.version)

    def give(self, lock: int, after: bool) -> None:
        """`after`: the next one has the lock before the holder looks again."""
        pid, before = self.holder.pop(lock), self.version
        mine = [(one, self.wait[one]) for one in self.waiting[lock]] + self.gave_up[lock]
        if after:
            self.get(lock)
        if mine:
            time = self.event(lock, RELEASE, pid, self.version, before)
            self.truth |= {(one, wait, pid, time) for one, wait in mine}
        self.version += len(self.gave_up[lock])  # the marks go away
        self.gave_up[lock] = []
        if not after:
            self.get(lock)

    def get(self, lock: int) -> None:
        if self.waiting[lock]:
            pid = self.holder[lock] = self.waiting[lock].pop(0)
            self.version += 1
            self.event(lock, ACQUIRED, pid, self.version)

    def give_up(self, lock: int) -> None:
        pid = self.waiting[lock].pop()
        self.version += 1
        self.gave_up[lock].append((pid, self.wait[pid]))
        self.event(lock, ABANDONED, pid, self.version)

    def events(self) -> Events:
        return np.array(self.rows, dtype=EVENT)


def made(steps: list[tuple[int, int]]) -> Traced:
    """What locks allow of `steps`, of a lock and what is done with it."""
    traced, pids = Traced(), itertools.count(11)
    for which, action in steps:
        lock = LOCKS[which]
        if action < 3:
            traced.take(lock, next(pids))
        elif action < 5 and lock in traced.holder:
            traced.give(lock, after=action == 4)
        elif action == 5 and traced.waiting[lock]:
            traced.give_up(lock)
    return traced


def found(events: Events) -> set[tuple[int, int, int, int]]:
    waits, releases = waits_of(events), releases_of(events)
    pairs = waited_for(waits, releases)
    one, other = waits.take(pairs["wait"]), releases.take(pairs["release"])
    rows = zip(one["pid"], one["begin"], other["pid"], other["time"], strict=True)
    return {(int(waiter), int(begin), int(holder), int(time)) for waiter, begin, holder, time in rows}


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5)), max_size=40))
def test_who_waited_for_whom_is_what_the_locks_know(steps):
    traced = made(steps)
    assert found(traced.events()) == traced.truth


def test_a_chain_waits_for_those_before_it():
    traced = made([(0, 0)] * 5 + [(0, 3)] * 5)
    assert len(waits_of(traced.events())) == 4
    assert len(releases_of(traced.events())) == 4
    assert len(found(traced.events())) == 10


def test_who_gives_up_has_waited_for_the_next_to_let_go():
    traced = made([(0, 0), (0, 0), (0, 5), (0, 3), (0, 0), (0, 3)])
    (pair,) = found(traced.events())
    assert pair[0] == 12
    assert pair[2] == 11
    assert waits_of(traced.events())["abandoned"].tolist() == [True]


def test_who_waits_at_the_end_has_no_end():
    waits = waits_of(made([(0, 0), (0, 0)]).events())
    assert waits["end"].isna().all()
    assert waits["last"].tolist() == [np.inf]


@pytest.mark.parametrize("kind", [WAITS, RELEASE])
def test_one_side_alone_makes_no_pair(kind):
    events = made([(0, 0)] * 3 + [(0, 3)] * 3).events()
    assert found(events[events["kind"] != kind]) == set()
