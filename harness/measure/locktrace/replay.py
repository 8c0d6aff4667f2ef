"""The two filters offline: what each should have kept of a full log, event for event.

Written from the filters' definitions, not from the kernel's code. The per-lock filter follows each lock's events by
their sequence: who waits, who holds. The paper's follows one counter per lock, by the order in which it saw the events.
Neither looks at clocks of different CPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.errors import RunError
from harness.measure.locktrace.events import (
    ABANDONED,
    ACQUIRED,
    ATTEMPT,
    CONTEXT_BITS,
    FAILED,
    INIT,
    RELEASE,
    SHARED,
    TRY,
    Events,
    Flags,
    Indices,
)


@dataclass(frozen=True)
class Replay:
    """What a filter does with n events of a log; arrays of shape (n,), in the log's order.

    kept      bool   the filter keeps the event
    block     int64  number of the block the event belongs to; -1: to none, or the lock was not tracked
    conflict  bool   somebody incompatible was there (the paper's filter does not know: False)
    depth     int64  how many held or waited when an acquisition began; 0 for other events
    """

    kept: Flags
    block: Indices
    conflict: Flags
    depth: Indices


def is_attempt(events: Events) -> Flags:
    """Events that begin an acquisition: attempts and successful trylocks."""
    return np.asarray((events["kind"] == ATTEMPT) | is_try(events))


def is_try(events: Events) -> Flags:
    """Successful trylocks."""
    return np.asarray((events["kind"] == ACQUIRED) & (events["flags"] & TRY != 0))


def _steps(events: Events) -> npt.NDArray[np.int64]:
    """+1 for an acquisition that begins, -1 for one that ends."""
    ends = (events["kind"] == RELEASE) | (events["kind"] == ABANDONED)
    return np.asarray(is_attempt(events).astype(np.int64) - ends)


def _starts(key: npt.NDArray[np.uint64]) -> Flags:
    """Whether an element differs from the one before it."""
    return np.concatenate([[True], key[1:] != key[:-1]])[: len(key)]


def _since(total: npt.NDArray[np.int64], steps: npt.NDArray[np.int64], starts: Flags) -> npt.NDArray[np.int64]:
    """Running sums that begin at 0 at every start."""
    before = total - steps
    at = np.flatnonzero(starts)
    return total - np.repeat(before[at], np.diff(np.append(at, len(total))))


def sequence_order(log: Events) -> Indices:
    """Indices of the numbered events, by lock and sequence; RunError when a lock has a number twice."""
    numbered = np.flatnonzero(log["sequence"] != 0)
    order = numbered[np.lexsort((log["sequence"][numbered], log["lock"][numbered]))]
    lock, sequence = log["lock"][order], log["sequence"][order]
    twice = np.flatnonzero((lock[1:] == lock[:-1]) & (sequence[1:] == sequence[:-1]))
    if twice.size:
        at = int(twice[0])
        raise RunError(f"lock {int(lock[at]):#x} has two events with sequence {int(sequence[at])}")
    return np.asarray(order, dtype=np.int64)


# -- the paper's filter -------------------------------------------------------------------------------------


def paper_filter(log: Events) -> Replay:
    """The paper's filter: a block ends when its lock's counter is 0 after an event, and is dropped if it is one
    acquisition and its release. An INIT is dropped and ends the block before it; what is open in the end is kept.
    """
    seen = np.flatnonzero(log["order"] != 0)
    order = seen[np.lexsort((log["order"][seen], log["lock"][seen]))]
    mine = log[order]
    kind, steps = mine["kind"], _steps(mine)
    init = kind == INIT
    starts = _starts(mine["lock"])
    counter = _since(np.cumsum(steps), steps, starts | init)
    ends = (counter == 0) | np.append(starts[1:] | init[1:], True)[: len(mine)]
    block = np.cumsum(np.append(False, ends[:-1])[: len(mine)])
    first = np.flatnonzero(np.append(True, ends[:-1])[: len(mine)])
    size = np.diff(np.append(first, len(mine)))
    plain = np.zeros(len(first), dtype=bool)
    if len(mine):
        last = first + size - 1
        closed = (counter[last] == 0) & (kind[last] == RELEASE)
        tried = (size == 2) & is_try(mine)[first]
        waited = (size == 3) & (kind[first] == ATTEMPT) & (kind[np.minimum(first + 1, len(mine) - 1)] == ACQUIRED)
        plain = closed & (tried | (waited & ~is_try(mine)[np.minimum(first + 1, len(mine) - 1)]))
    return _scattered(len(log), order, ~plain[block] & ~init, np.where(init, -1, block))


def _scattered(n: int, order: Indices, kept: Flags, block: Indices) -> Replay:
    """A replay in the log's order of what was found in another."""
    found = Replay(np.zeros(n, bool), np.full(n, -1, np.int64), np.zeros(n, bool), np.zeros(n, np.int64))
    found.kept[order] = kept
    found.block[order] = block
    return found


# -- the per-lock filter ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Party:
    """Somebody who waits for a lock or holds it."""

    pid: int
    context: int
    reader: bool
    holds: bool
    events: list[int]


def per_lock_filter(log: Events) -> Replay:
    """The per-lock filter: an acquisition is kept if its block was marked by a conflict when it ended.

    Acquisitions that the end of the log, or an INIT of their lock, finds open end there. RunError as `sequence_order`.
    """
    order = sequence_order(log)
    mine = log[order]
    n = len(mine)
    kept, inside, conflict = np.zeros(n, bool), np.zeros(n, bool), np.zeros(n, bool)
    depth, begins = np.zeros(n, np.int64), np.zeros(n, bool)
    plain = _plain_blocks(mine)
    begins[plain & is_attempt(mine)] = True
    inside[plain] = True
    rest = np.flatnonzero(~plain)
    _follow(mine[rest], rest, kept, inside, conflict, depth, begins)
    block = np.where(inside, np.cumsum(begins) - 1, -1)
    found = _scattered(len(log), order, kept, block)
    found.conflict[order] = conflict
    found.depth[order] = depth
    return found


def _plain_blocks(mine: Events) -> Flags:
    """Events of blocks that are one thread's acquisition and release, found at once: most there are.

    Only of locks on which nothing ended that had not begun before; the others are followed one by one.
    """
    n = len(mine)
    if not n:
        return np.zeros(0, dtype=bool)
    starts, kind, tries = _starts(mine["lock"]), mine["kind"], is_try(mine)
    lock = np.cumsum(starts) - 1
    holds = (kind == ACQUIRED).astype(np.int64) - (kind == RELEASE)
    waits = (kind == ATTEMPT).astype(np.int64) - ((kind == ACQUIRED) & ~tries) - (kind == ABANDONED)
    odd = (_since(np.cumsum(holds), holds, starts) < 0) | (kind == INIT)
    thread = np.lexsort((mine["context"] & CONTEXT_BITS, mine["pid"], lock))
    turns = _starts(lock[thread]) | _starts(mine["pid"][thread]) | _starts(mine["context"][thread] & CONTEXT_BITS)
    odd[thread] |= _since(np.cumsum(waits[thread]), waits[thread], turns) < 0
    regular = ~np.bincount(lock, weights=odd).astype(bool)[lock]
    # Where none of these sums is negative and all together are 0, nobody is there.
    steps = holds + waits
    counter = _since(np.cumsum(steps), steps, starts)
    first = np.flatnonzero(np.append(True, ((counter == 0) | np.append(starts[1:], True))[:-1]))
    size = np.diff(np.append(first, n))
    last, second = first + size - 1, np.minimum(first + 1, n - 1)
    tried = (size == 2) & tries[first]
    waited = (size == 3) & (kind[first] == ATTEMPT) & (kind[second] == ACQUIRED) & ~tries[second]
    plain = (counter[last] == 0) & (kind[last] == RELEASE) & (tried | waited) & regular[first]
    return np.asarray(np.repeat(plain, size))


def _follow(
    mine: Events, at: Indices, kept: Flags, inside: Flags, conflict: Flags, depth: Indices, begins: Flags
) -> None:
    """Event by event; `at` is where to write what is found of each."""
    reader = np.isin(mine["type"], SHARED).tolist()
    tried, context = is_try(mine).tolist(), (mine["context"] & CONTEXT_BITS).tolist()
    columns = (mine["lock"].tolist(), mine["kind"].tolist(), mine["pid"].tolist(), context, reader, tried, at.tolist())
    current, parties, marked = None, list[_Party](), False
    for lock, kind, pid, its_context, reads, got, i in zip(*columns, strict=True):
        if lock != current or kind == INIT:
            _end(parties, marked, kept)
            current, parties, marked = lock, [], False
            if kind == INIT:
                continue
        clashes = bool(parties) and not (reads and all(party.reader for party in parties))
        party = _waiting(parties, pid, its_context) if kind in (ACQUIRED, ABANDONED) and not got else None
        if kind == ATTEMPT or (kind == ACQUIRED and party is None):
            if not parties:
                begins[i], marked = True, False
            marked |= clashes
            inside[i], conflict[i], depth[i] = True, clashes, len(parties)
            parties.append(_Party(pid, its_context, reads, kind == ACQUIRED, [i]))
        elif kind == ACQUIRED:
            assert party is not None
            inside[i] = party.holds = True
            party.events.append(i)
        elif kind == FAILED:
            inside[i], conflict[i], kept[i] = bool(parties), clashes, clashes
            marked |= clashes
        else:
            party = party if kind == ABANDONED else _holding(parties, pid, its_context, reads)
            if party is None:
                inside[i], kept[i] = bool(parties), True
                marked |= bool(parties)
                continue
            inside[i] = True
            party.events.append(i)
            _end([party], marked, kept)
            parties.remove(party)
    _end(parties, marked, kept)


def _end(parties: list[_Party], marked: bool, kept: Flags) -> None:
    """Acquisitions end: their events are kept if their block is marked."""
    if marked:
        for party in parties:
            kept[party.events] = True


def _waiting(parties: list[_Party], pid: int, context: int) -> _Party | None:
    """The thread's own wait, in the same context: an interrupt of one who waits may wait too."""
    for party in parties:
        if not party.holds and party.pid == pid and party.context == context:
            return party
    return None


def _holding(parties: list[_Party], pid: int, context: int, reader: bool) -> _Party | None:
    """Whose acquisition a release ends: the same way of holding, the same thread, its context, the last of several."""
    best, most = None, -1
    for party in parties:
        if party.holds:
            alike = 4 * (party.reader == reader) + 2 * (party.pid == pid) + (party.context == context)
            if alike >= most:
                best, most = party, alike
    return best
