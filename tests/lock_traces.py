# SPDX-License-Identifier: MIT
"""Made-up lock traces: threads that take locks by the locks' own rules, and what the filters must keep of it.

Every event knows which acquisition it belongs to, so what is expected here is found without any matching of events: a
filter under test has to find that out by itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from experiments.lock_trace.locks.events import (
    ABANDONED,
    ACQUIRED,
    ALL,
    ATTEMPT,
    CONFLICT,
    EVENT,
    FAILED,
    INIT,
    READ,
    RELEASE,
    SHARED,
    SPIN,
    STREAM_LOG,
    TRY,
    VALIDATE,
    WRITE,
    Events,
)

LOCKS = (0xFFFF888000001000, 0xFFFF888000002040, 0xFFFFFFFF82000010)
#: Threads as (pid, context): the last one is an interrupt of the first.
THREADS = ((11, 0), (12, 0), (13, 0), (11, 2))
SITE = 0xFFFFFFFF81000100
#: LENT - N: a release of acquisition N, which was a reader, by another task.
LENT = -2


@dataclass
class Made:
    """One event, and which acquisition it belongs to; -1: none; see LENT."""

    lock: int
    kind: int
    type: int
    thread: int
    acquisition: int
    tried: bool = False


@dataclass
class _Held:
    number: int
    thread: int
    type: int
    holds: bool
    got: int = 0


@dataclass
class Simulation:
    """Locks and threads; `step` does what it is asked to as far as the locks allow it."""

    events: list[Made] = field(default_factory=list)
    here: dict[int, list[_Held]] = field(default_factory=dict)
    lent: set[int] = field(default_factory=set)
    count: int = 0

    def step(self, thread: int, lock: int, action: int, shared: bool) -> None:
        """`action`: 0 begin or go on, 1 try, 2 release, 3 give up, 4 release what nobody holds, 5 initialise,
        6 release for another thread: of a reader, nobody can tell for which.
        """
        mode = (READ if shared else WRITE) if lock else SPIN
        here = self.here.setdefault(lock, [])
        mine = [held for held in here if held.thread == thread]
        waits = next((held for held in mine if not held.holds), None)
        if action == 0 and waits:
            if self._free(here, waits.type):
                waits.holds, waits.got = True, len(self.events)
                self._add(lock, ACQUIRED, waits)
        elif action == 0 and (not mine or (mode in SHARED and all(held.type in SHARED for held in mine))):
            here.append(self._new(thread, mode, False))
            self._add(lock, ATTEMPT, here[-1])
        elif action == 1 and not waits:
            if self._free(here, mode):
                here.append(self._new(thread, mode, True))
                here[-1].got = len(self.events)
                self._add(lock, ACQUIRED, here[-1], tried=True)
            else:
                self.events.append(Made(lock, FAILED, mode, thread, -1))
        elif action == 2 and mine and not waits:
            # A task's readers are told apart by nothing but when they came, whatever context it is in.
            same = [held for held in here if held.holds and THREADS[held.thread][0] == THREADS[thread][0]]
            last = max(same, key=lambda held: held.got)
            self._end(lock, last if last.type in SHARED else mine[-1], RELEASE, thread)
        elif action == 3 and waits:
            self._end(lock, waits, ABANDONED, thread)
        elif action == 4 and not any(held.holds for held in here) and lock not in self.lent:
            self.events.append(Made(lock, RELEASE, mode, thread, -1))
        elif action == 5 and not here and lock not in self.lent:
            self.events.append(Made(lock, INIT, mode, thread, -1))
        elif action == 6:
            holders = [held for held in here if held.holds]
            if holders and THREADS[thread][0] not in {THREADS[held.thread][0] for held in holders}:
                if holders[-1].type in SHARED:
                    # Its own releases end what the task got last: what stays is what it got first.
                    its = [held for held in holders if THREADS[held.thread][0] == THREADS[holders[-1].thread][0]]
                    first = min(its, key=lambda held: held.got)
                    self.lent.add(lock)
                    here.remove(first)
                    self.events.append(Made(lock, RELEASE, first.type, thread, LENT - first.number))
                else:
                    self._end(lock, holders[-1], RELEASE, thread)

    def _new(self, thread: int, mode: int, holds: bool) -> _Held:
        self.count += 1
        return _Held(self.count, thread, mode, holds)

    def _add(self, lock: int, kind: int, held: _Held, *, tried: bool = False) -> None:
        self.events.append(Made(lock, kind, held.type, held.thread, held.number, tried))

    def _end(self, lock: int, held: _Held, kind: int, thread: int) -> None:
        self.here[lock].remove(held)
        self.events.append(Made(lock, kind, held.type, thread, held.number))

    @staticmethod
    def _free(here: Sequence[_Held], mode: int) -> bool:
        holders = [held for held in here if held.holds]
        return not holders or (mode in SHARED and all(held.type in SHARED for held in holders))


def ambiguous(made: Sequence[Made]) -> bool:
    """Whether nobody can tell from these events which acquisition a release ends: one that began before them, or that
    of another reader.
    """
    holders: dict[int, set[int]] = {}
    for event in made:
        here = holders.setdefault(event.lock, set())
        number = LENT - event.acquisition if event.acquisition <= LENT else event.acquisition
        if event.kind == ACQUIRED:
            here.add(number)
        elif event.kind == RELEASE:
            if here and number not in here:
                return True
            here.discard(number)
    return False


def encode(made: Sequence[Made], conflicts: Sequence[bool] = (), depths: Sequence[int] = ()) -> Events:
    """The log of these events: one CPU per thread, a time unit per event, in the order of a file."""
    log = np.zeros(len(made), dtype=EVENT)
    sequence: dict[int, int] = {}
    position: dict[int, int] = {}
    for i, event in enumerate(made):
        pid, context = THREADS[event.thread]
        number = sequence[event.lock] = sequence.get(event.lock, 0) + 1
        place = position[event.thread] = position.get(event.thread, 0) + 1
        flags = (TRY if event.tried else 0) | (CONFLICT if len(conflicts) and conflicts[i] else 0)
        depth = depths[i] if len(depths) else 0
        log[i] = (
            *(place, 1000 + 10 * i, LOCKS[event.lock], SITE + event.thread, i + 1, number, event.lock + 1, pid, depth),
            *(event.thread, event.kind, event.type, STREAM_LOG, context, flags),
        )
    return log[np.argsort(log["cpu"], kind="stable")]


@dataclass
class Expected:
    """Per event: kept by the filter; somebody incompatible was there; how many others were."""

    kept: list[bool]
    conflict: list[bool]
    depth: list[int]


def per_lock_expected(made: Sequence[Made]) -> Expected:
    """By spans: an acquisition lasts from its first to its last event, blocks are unions of spans that overlap."""
    n = len(made)
    found = Expected([False] * n, [False] * n, [0] * n)
    for lock in {event.lock for event in made}:
        places = [i for i in range(n) if made[i].lock == lock]
        inits = [i for i in places if made[i].kind == INIT]
        for low, high in zip([-1, *inits], [*inits, n], strict=True):
            _one_generation(made, [i for i in places if low < i < high], found)
    return found


def _one_generation(made: Sequence[Made], places: list[int], found: Expected) -> None:
    spans: dict[int, list[int]] = {}
    for i in places:
        if made[i].acquisition >= 0:
            spans.setdefault(made[i].acquisition, []).append(i)
    for number in [number for number, mine in spans.items() if made[mine[0]].kind in (RELEASE, ABANDONED)]:
        del spans[number]  # its begin was not seen: to the filter, a release alone
    lent = {LENT - made[i].acquisition: i for i in places if made[i].acquisition <= LENT}
    last = max(places, default=0) + 1
    ends = {
        number: lent.get(number, mine[-1] if made[mine[-1]].kind in (RELEASE, ABANDONED) else last)
        for number, mine in spans.items()
    }

    def there(i: int) -> list[int]:
        return [number for number, mine in spans.items() if mine[0] < i < ends[number] and i not in mine]

    marks = []
    for i in places:
        event, others = made[i], there(i)
        alone = event.acquisition not in spans
        begins = not alone and spans[event.acquisition][0] == i
        reader = event.type in SHARED
        clash = bool(others) and not (reader and all(made[spans[number][0]].type in SHARED for number in others))
        if begins or event.kind == FAILED:
            found.conflict[i] = clash
            found.depth[i] = len(others) if begins else 0
            if clash:
                marks.append(i)
            if event.kind == FAILED:
                found.kept[i] = clash
        elif alone and event.kind in (RELEASE, ABANDONED):
            found.kept[i] = True
            if others and LENT - event.acquisition not in spans:
                marks.append(i)
    for number, mine in spans.items():
        first = _block_begin(number, spans, ends)
        keeps = any(first <= mark <= ends[number] for mark in marks)
        if ends[number] == last:
            keeps = any(made[i].kind == ACQUIRED for i in mine) or found.conflict[mine[0]]
        for i in mine:
            found.kept[i] = keeps or number in lent


def _block_begin(number: int, spans: dict[int, list[int]], ends: dict[int, int]) -> int:
    begin = spans[number][0]
    while True:
        overlapping = [mine[0] for other, mine in spans.items() if mine[0] < begin < ends[other]]
        if not overlapping:
            return begin
        begin = min(overlapping)


def paper_expected(made: Sequence[Made]) -> list[bool]:
    """The definition, word for word."""
    kept = [True] * len(made)
    for lock in {event.lock for event in made}:
        counter, block, negative = 0, list[int](), False
        for i in (i for i in range(len(made)) if made[i].lock == lock):
            event = made[i]
            if event.kind == INIT:
                counter, block, negative, kept[i] = 0, [], False, False
                continue
            block.append(i)
            counter += event.kind == ATTEMPT or event.tried
            counter -= event.kind in (RELEASE, ABANDONED)
            negative |= counter < 0
            if counter == 0:
                began = sum(made[k].kind == ATTEMPT or made[k].tried for k in block)
                odd = any(made[k].kind in (FAILED, ABANDONED) for k in block) or negative
                if began == 1 and not odd and event.kind == RELEASE:
                    for k in block:
                        kept[k] = False
                block, negative = [], False
    return kept


def write_events(folder: Path, events: Events, /, **status: Any) -> None:
    """events.bin, and a status.json that fits it but for what is given."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "events.bin").write_bytes(renumbered(events).tobytes())
    (folder / "status.json").write_text(json.dumps(status_of(events, **status)))


def status_of(events: Events, /, arm: int = ALL, **more: Any) -> dict[str, Any]:
    """A status in which all sums hold: of VALIDATE the log has every event, of the other arms their only stream."""
    written = np.bincount(events["stream"], minlength=3).tolist()
    mine = events[events["stream"] == STREAM_LOG] if arm == VALIDATE else events
    zeros = dict.fromkeys(
        ("first_loss", "untracked", "nested", "waiting", "locks", "sites", "sites_full", "holds_full", "pool_peak",
         "pool_full"), 0,
    )  # fmt: skip
    whole: dict[str, Any] = {
        **{"arm": arm, "running": 0, "start": 500, "stop": 2_000_500, "tsc_khz": 1_000_000, "events": len(mine)},
        **{"kinds": np.bincount(mine["kind"], minlength=8).tolist(), "kept": written, "written": written},
        **{"dropped": [len(mine) - n if n or arm == VALIDATE else 0 for n in written], "lost": [0, 0, 0], "cpus": 4},
    }
    return whole | zeros | more


def renumbered(events: Events) -> Events:
    """The events CPU by CPU, with positions as a kernel would give them."""
    events = events[np.argsort(events["cpu"], kind="stable")]
    for cpu in np.unique(events["cpu"]):
        mine = events["cpu"] == cpu
        events["position"][mine] = np.arange(1, int(mine.sum()) + 1)
    return events
