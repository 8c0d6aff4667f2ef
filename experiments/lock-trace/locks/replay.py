# SPDX-License-Identifier: MIT
"""The two filters offline: what each should have kept of a full log, event for event.

Written from the filters' definitions, not from the kernel's code. The per-lock filter follows each lock's events by
their sequence: who waits, who holds. The paper's follows one counter per lock, by the order in which it saw the events.
Neither looks at clocks of different CPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import RunError

from .events import (
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


def _starts(key: npt.NDArray[Any]) -> Flags:
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
    """The paper's filter. A block ends when its lock's counter is 0 after an event; it is dropped if one acquisition
    began in it, a release ended it, and nothing failed or was given up. An INIT is dropped and ends the block before
    it, which is kept, as is what is open in the end.
    """
    seen = np.flatnonzero(log["order"] != 0)
    order = seen[np.lexsort((log["order"][seen], log["lock"][seen]))]
    ordered = log[order]
    if not len(ordered):
        return _scattered(len(log), order, np.zeros(0, bool), np.zeros(0, np.int64))
    kind, begins = ordered["kind"], is_attempt(ordered)
    steps = begins.astype(np.int64) - (kind == RELEASE) - (kind == ABANDONED)
    init = kind == INIT
    starts = _starts(ordered["lock"]) | init
    counter = _since(np.cumsum(steps), steps, starts)
    ends = (counter == 0) | np.append(starts[1:], True)
    block = np.cumsum(np.append(False, ends[:-1]))
    first = np.flatnonzero(np.append(True, ends[:-1]))
    last = np.append(first[1:], len(ordered)) - 1
    odd = (kind == FAILED) | (kind == ABANDONED)
    dropped = (np.add.reduceat(begins.astype(np.int64), first) == 1) & ~np.logical_or.reduceat(odd, first)
    dropped &= (counter[last] == 0) & (kind[last] == RELEASE)
    return _scattered(len(log), order, ~dropped[block] & ~init, np.where(init, -1, block))


def _scattered(n: int, order: Indices, kept: Flags, block: Indices) -> Replay:
    """A replay in the log's order of what was found in another."""
    replay = Replay(np.zeros(n, bool), np.full(n, -1, np.int64), np.zeros(n, bool), np.zeros(n, np.int64))
    replay.kept[order] = kept
    replay.block[order] = block
    return replay


# -- the per-lock filter ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Party:
    """Somebody who waits for a lock or holds it; `clashed`: he met somebody when he came."""

    pid: int
    context: int
    reader: bool
    holds: bool
    clashed: bool
    events: list[int]


@dataclass(slots=True)
class _Lock:
    """One lock while its events are followed. `parties` that another task has let go of stay: which they are is not
    known, only how many, `gone`.
    """

    parties: list[_Party]
    gone: int = 0
    marked: bool = False

    def there(self) -> int:
        """How many hold or wait."""
        return len(self.parties) - self.gone

    def readers(self) -> int:
        """How many acquisitions for reading nobody was seen to release, those that are gone among them."""
        return sum(party.holds and party.reader for party in self.parties)

    def clashes(self, reader: bool) -> bool:
        """Whether one who comes meets somebody incompatible."""
        return self.there() > 0 and not (reader and all(party.reader for party in self.parties))

    def waiting(self, pid: int, context: int) -> _Party | None:
        """The thread's own wait, in the same context: an interrupt of one who waits may wait too."""
        for party in self.parties:
            if not party.holds and party.pid == pid and party.context == context:
                return party
        return None

    def released(self, pid: int, reader: bool) -> _Party | None:
        """Whose acquisition a release ends: the holder's, or the last that this task got as a reader."""
        held = [party for party in self.parties if party.holds and party.reader == reader]
        if reader:
            held = [party for party in held if party.pid == pid]
        return max(held, key=lambda party: party.events[-1], default=None)

    def leave(self, party: _Party | None) -> None:
        """Somebody goes; None: a reader, but nobody knows which."""
        if party is None:
            self.gone += 1
        else:
            self.parties.remove(party)
            self.gone = min(self.gone, self.readers())
        if not self.there():
            self.marked = False


def per_lock_filter(log: Events) -> Replay:
    """The per-lock filter: an acquisition is kept if its block is marked by a conflict when it ends.

    What is held when the log ends is kept; of what waits then, only attempts that met somebody are. A release of a
    reader by a task that has no acquisition of its own is kept, and so is what it ends, as held to the end. RunError
    as `sequence_order`.
    """
    order = sequence_order(log)
    ordered = log[order]
    n = len(ordered)
    kept, inside, conflict = np.zeros(n, bool), np.zeros(n, bool), np.zeros(n, bool)
    depth, begins = np.zeros(n, np.int64), np.zeros(n, bool)
    plain = _plain_blocks(ordered)
    begins[plain & is_attempt(ordered)] = True
    inside[plain] = True
    rest = np.flatnonzero(~plain)
    _follow(ordered[rest], rest, kept, inside, conflict, depth, begins)
    block = np.where(inside, np.cumsum(begins) - 1, -1)
    replay = _scattered(len(log), order, kept, block)
    replay.conflict[order] = conflict
    replay.depth[order] = depth
    return replay


def _plain_blocks(ordered: Events) -> Flags:
    """Events of blocks that are one thread's acquisition and release, found at once: most there are.

    Only of locks on which nothing ended that had not begun before; the others are followed one by one.
    """
    n = len(ordered)
    if not n:
        return np.zeros(0, dtype=bool)
    starts, kind, tries = _starts(ordered["lock"]), ordered["kind"], is_try(ordered)
    lock = np.cumsum(starts) - 1
    holds = (kind == ACQUIRED).astype(np.int64) - (kind == RELEASE)
    waits = (kind == ATTEMPT).astype(np.int64) - ((kind == ACQUIRED) & ~tries) - (kind == ABANDONED)
    odd = (_since(np.cumsum(holds), holds, starts) < 0) | (kind == INIT)
    shared = np.isin(ordered["type"], SHARED)
    # Each context of a thread waits for itself; what a task got for reading, it should let go of.
    for counts, context in ((waits, ordered["context"] & CONTEXT_BITS), (np.where(shared, holds, 0), None)):
        keys = [lock, ordered["pid"]] + ([] if context is None else [context])
        order = np.lexsort(keys[::-1])
        turns = np.logical_or.reduce([_starts(key[order]) for key in keys])
        odd[order] |= _since(np.cumsum(counts[order]), counts[order], turns) < 0
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
    ordered: Events, at: Indices, kept: Flags, inside: Flags, conflict: Flags, depth: Indices, begins: Flags
) -> None:
    """Event by event; `at` is where to write what is found of each."""
    reader, tried = np.isin(ordered["type"], SHARED).tolist(), is_try(ordered).tolist()
    context = (ordered["context"] & CONTEXT_BITS).tolist()
    columns = (
        ordered["lock"].tolist(),
        ordered["kind"].tolist(),
        ordered["pid"].tolist(),
        context,
        reader,
        tried,
        at.tolist(),
    )
    current, lock = None, _Lock([])
    for address, kind, pid, its_context, reads, got, i in zip(*columns, strict=True):
        if address != current:
            _end_of_log(lock, kept)
            current, lock = address, _Lock([])
        if kind == INIT:
            for open_one in lock.parties:
                kept[open_one.events] = lock.marked
            lock = _Lock([])
            continue
        party = lock.waiting(pid, its_context) if kind in (ACQUIRED, ABANDONED) and not got else None
        if kind == ATTEMPT or (kind == ACQUIRED and party is None):
            clash, begins[i], depth[i] = lock.clashes(reads), not lock.there(), lock.there()
            inside[i], conflict[i] = True, clash
            lock.marked |= clash
            lock.parties.append(_Party(pid, its_context, reads, kind == ACQUIRED, clash, [i]))
        elif kind == ACQUIRED and party is not None:
            inside[i] = party.holds = True
            party.events.append(i)
        elif kind == FAILED:
            clash = lock.clashes(reads)
            inside[i], conflict[i], kept[i] = lock.there() > 0, clash, clash
            lock.marked |= clash
        else:
            party = party if kind == ABANDONED else lock.released(pid, reads)
            inside[i] = lock.there() > 0
            if party is not None:
                party.events.append(i)
                kept[party.events] = lock.marked
                lock.leave(party)
                continue
            kept[i] = True
            if kind == RELEASE and reads and lock.readers() > lock.gone:
                lock.leave(None)
            else:
                lock.marked |= lock.there() > 0
    _end_of_log(lock, kept)


def _end_of_log(lock: _Lock, kept: Flags) -> None:
    """What is open: holders may be what somebody looks for; who waits is known by whom he met."""
    for party in lock.parties:
        if party.holds or party.clashed:
            kept[party.events] = True
