# SPDX-License-Identifier: MIT
"""The filters offline: what each should have kept of a full log, event for event.

Written from the filters' definitions, not from the kernel's code. The per-lock filter keeps an acquisition that waited,
or during which somebody waited for the same lock: two spans, and whether they overlap. Their ends are numbers that the
kernel's events carry, the waits of the lock that had begun or ended so far. The paper's follows one counter per lock,
by the order in which it saw the events. Neither looks at clocks of different CPUs. The paper says in two sentences what
is kept, and they differ where a counter is below 0: both are here, and the kernel has the first.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .events import (
    ABANDONED,
    ACQUIRED,
    ATTEMPT,
    CONTEXT_BITS,
    FAILED,
    INIT,
    ORPHAN,
    RELEASE,
    SHARED,
    TRY,
    WAITS,
    Events,
    Flags,
    Indices,
)


@dataclass(frozen=True)
class Replay:
    """What a filter does with n events of a log; arrays of shape (n,), in the log's order.

    kept   bool   the filter keeps the event
    block  int64  the paper's filter: number of the block the event belongs to; -1: none, or the lock was not tracked
    """

    kept: Flags
    block: Indices


def is_attempt(events: Events) -> Flags:
    """Events that begin an acquisition: attempts and successful trylocks."""
    return np.asarray((events["kind"] == ATTEMPT) | is_try(events))


def is_try(events: Events) -> Flags:
    """Successful trylocks."""
    return np.asarray((events["kind"] == ACQUIRED) & (events["flags"] & TRY != 0))


def starts(key: npt.NDArray[Any]) -> Flags:
    """Whether an element differs from the one before it."""
    return np.concatenate([[True], key[1:] != key[:-1]])[: len(key)]


def since(total: npt.NDArray[np.int64], steps: npt.NDArray[np.int64], first: Flags) -> npt.NDArray[np.int64]:
    """Running sums that begin at 0 at every start."""
    before = total - steps
    at = np.flatnonzero(first)
    return total - np.repeat(before[at], np.diff(np.append(at, len(total))))


def _ordered(log: Events) -> Indices:
    """Indices of the events that the shared buffer saw, by lock and in its order."""
    seen = np.flatnonzero(log["order"] != 0)
    return np.asarray(seen[np.lexsort((log["order"][seen], log["lock"][seen]))], dtype=np.int64)


def _scattered(n: int, order: Indices, kept: Flags, block: Indices) -> Replay:
    """A replay in the log's order of what was found in another."""
    replay = Replay(np.zeros(n, bool), np.full(n, -1, np.int64))
    replay.kept[order] = kept
    replay.block[order] = block
    return replay


# -- the paper's filter -------------------------------------------------------------------------------------


def paper_filter(log: Events) -> Replay:
    """The filter that the kernel has, by the sentence that only an acquisition and the release next after it need not
    be kept: a block is dropped if one acquisition began in it, a release ended it, and nothing failed or was given up.
    An INIT is dropped and ends the block before it, which is kept, as is what is open in the end.
    """
    blocks = _Blocks.of(log)
    if not len(blocks.events):
        return blocks.replay(np.zeros(0, bool))
    kind, first, last = blocks.events["kind"], blocks.first, blocks.last
    odd = (kind == FAILED) | (kind == ABANDONED)
    dropped = (np.add.reduceat(is_attempt(blocks.events).astype(np.int64), first) == 1) & ~np.logical_or.reduceat(
        odd, first
    )
    dropped &= (blocks.counter[last] == 0) & (kind[last] == RELEASE)
    return blocks.replay(~dropped)


def counter_filter(log: Events) -> Replay:
    """What the paper's other sentence keeps: a block in which the counter reaches 2, from its begin to its end."""
    blocks = _Blocks.of(log)
    if not len(blocks.events):
        return blocks.replay(np.zeros(0, bool))
    return blocks.replay(np.maximum.reduceat(blocks.counter, blocks.first) >= 2)


@dataclass(frozen=True)
class _Blocks:
    """What the shared buffer saw, cut where a lock's counter is 0 after an event, and before an INIT.

    counter, block  int64 (n,): after each event; number of its block
    first, last     int64 (blocks,): indices of each block's events
    """

    log: int
    order: Indices
    events: Events
    counter: Indices
    block: Indices
    first: Indices
    last: Indices

    @classmethod
    def of(cls, log: Events) -> _Blocks:
        order = _ordered(log)
        events = log[order]
        if not len(events):
            none = np.zeros(0, np.int64)
            return cls(len(log), order, events, none, none, none, none)
        kind = events["kind"]
        steps = is_attempt(events).astype(np.int64) - (kind == RELEASE) - (kind == ABANDONED)
        first_of_lock = starts(events["lock"]) | (kind == INIT)
        counter = since(np.cumsum(steps), steps, first_of_lock)
        ends = (counter == 0) | np.append(first_of_lock[1:], True)
        first = np.flatnonzero(np.append(True, ends[:-1]))
        last = np.append(first[1:], len(events)) - 1
        return cls(len(log), order, events, counter, np.cumsum(np.append(False, ends[:-1])), first, last)

    def replay(self, kept: Flags) -> Replay:
        """A replay that keeps these blocks, an INIT never."""
        init = self.events["kind"] == INIT
        return _scattered(self.log, self.order, kept[self.block] & ~init, np.where(init, -1, self.block))


# -- the per-lock filter ------------------------------------------------------------------------------------

_FOREVER = 1 << 62


@dataclass(slots=True)
class _Acquisition:
    """One thread's way with a lock. `since` and `until` are the lock's numbers of waits when it got it and let go."""

    thread: int
    reader: bool
    events: list[int]
    waited: bool = False
    begun: int = 0
    since: int = -1
    until: int = _FOREVER


@dataclass(slots=True)
class _Lock:
    """One lock while its events are followed."""

    under_way: dict[tuple[int, int], _Acquisition] = field(default_factory=dict)
    held: list[_Acquisition] = field(default_factory=list)
    ended: list[_Acquisition] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)

    def let_go(self, thread: int, reader: bool) -> _Acquisition | None:
        """Whose acquisition a release ends: the holder's, or the last that this task got as a reader; else one that
        another task got.
        """
        held = [one for one in self.held if one.reader == reader]
        mine = [one for one in held if one.thread == thread] if reader else held
        return mine[-1] if mine else held[0] if held else None


def per_lock_filter(log: Events) -> Replay:
    """The per-lock filter. What is held when the log ends is kept, and a release without an acquisition; failed
    trylocks and initialisations are not.
    """
    order = _ordered(log)
    ordered = log[order]
    kept = np.zeros(len(ordered), bool)
    thread = np.where(ordered["pid"] == 0, -1 - ordered["cpu"].astype(np.int64), ordered["pid"].astype(np.int64))
    reader = np.isin(ordered["type"], SHARED)
    columns = (
        *(ordered[name].tolist() for name in ("lock", "kind", "sequence", "flags")),
        *(thread.tolist(), reader.tolist(), (ordered["context"] & CONTEXT_BITS).tolist()),
    )
    current, lock = None, _Lock()
    for i, (address, kind, number, flags, who, reads, context) in enumerate(zip(*columns, strict=True)):
        if address != current:
            _decide(lock, kept)
            current, lock = address, _Lock()
        if kind == ATTEMPT:
            lock.under_way[who, context] = _Acquisition(who, reads, [i])
        elif kind == WAITS and (one := lock.under_way.get((who, context))):
            one.events.append(i)
            one.waited, one.begun = True, number
        elif kind in (ACQUIRED, ABANDONED) and not flags & TRY:
            one = lock.under_way.pop((who, context), None) or _Acquisition(who, reads, [])
            one.events.append(i)
            one.since = number
            if one.waited:
                lock.waits.append((one.begun, number))
            (lock.held if kind == ACQUIRED else lock.ended).append(one)
        elif kind == ACQUIRED:
            lock.held.append(_Acquisition(who, reads, [i], since=number))
        elif kind == RELEASE:
            ended = None if flags & ORPHAN else lock.let_go(who, reads)
            if ended is None:
                kept[i] = True
            else:
                ended.events.append(i)
                _end(lock, ended, number)
        elif kind == INIT:
            for one in list(lock.held):
                _end(lock, one, number)
    _decide(lock, kept)
    return _scattered(len(log), order, kept, np.full(len(ordered), -1, np.int64))


def _end(lock: _Lock, one: _Acquisition, number: int) -> None:
    lock.held.remove(one)
    one.until = number
    lock.ended.append(one)


def _decide(lock: _Lock, kept: Flags) -> None:
    """What was done with one lock, its waits known."""
    for one in lock.under_way.values():
        kept[one.events] = one.waited
        if one.waited:
            lock.waits.append((one.begun, _FOREVER))
    for one in lock.held:
        kept[one.events] = True
    lock.waits.sort()
    begins = [begin for begin, _ in lock.waits]
    # How late the waits up to each have ended: whether one of them was still going on.
    ends = np.maximum.accumulate([end for _, end in lock.waits]).tolist() if lock.waits else []
    for one in lock.ended:
        overlaps = False
        if one.since >= 0 and lock.waits:
            last = bisect_right(begins, one.until) - 1
            overlaps = last >= 0 and ends[last] > one.since
        kept[one.events] = one.waited or overlaps
