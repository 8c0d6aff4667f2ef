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
    ORPHAN,
    READ,
    RELEASE,
    SHARED,
    SPIN,
    STREAM_LOG,
    TRY,
    VALIDATE,
    WAITS,
    WRITE,
    Events,
)

LOCKS = (0xFFFF888000001000, 0xFFFF888000002040, 0xFFFFFFFF82000010)
#: Threads as (pid, context): the last one is an interrupt of the first.
THREADS = ((11, 0), (12, 0), (13, 0), (11, 2))
SITE = 0xFFFFFFFF81000100


@dataclass
class Made:
    """One event, and which acquisition it belongs to; -1: none."""

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
    count: int = 0

    def step(self, thread: int, lock: int, action: int, shared: bool) -> None:
        """`action`: 0 begin or go on, 1 try, 2 release, 3 give up, 4 release what nobody holds, 5 initialise."""
        mode = (READ if shared else WRITE) if lock else SPIN
        here = self.here.setdefault(lock, [])
        mine = [held for held in here if held.thread == thread]
        waits = next((held for held in mine if not held.holds), None)
        if action == 0 and waits:
            if self._free(here, waits.type):
                self._get(lock, waits)
        elif action == 0 and (not mine or (mode in SHARED and all(held.type in SHARED for held in mine))):
            free = self._free(here, mode)
            here.append(self._new(thread, mode, False))
            self._add(lock, ATTEMPT, here[-1])
            if free:
                self._get(lock, here[-1])
            else:
                self._add(lock, WAITS, here[-1])
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
        elif action == 4 and not any(held.holds for held in here):
            self.events.append(Made(lock, RELEASE, mode, thread, -1))
        elif action == 5 and not here:
            self.events.append(Made(lock, INIT, mode, thread, -1))

    def _get(self, lock: int, held: _Held) -> None:
        held.holds, held.got = True, len(self.events)
        self._add(lock, ACQUIRED, held)

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


def traced(made: Sequence[Made], begin: int) -> list[Made]:
    """What a trace has that begins with event `begin`: of an acquisition that began before, only its release."""
    before = {event.acquisition for event in made[:begin]} - {-1}
    return [event for event in made[begin:] if event.kind == RELEASE or event.acquisition not in before]


def encode(made: Sequence[Made], conflicts: Sequence[bool] = (), depths: Sequence[int] = ()) -> Events:
    """The log of these events: one CPU per thread, a time unit per event, in the order of a file."""
    log = np.zeros(len(made), dtype=EVENT)
    waits: dict[int, int] = {}
    position: dict[int, int] = {}
    waiting: set[int] = set()
    acquired = {event.acquisition for event in made if event.kind == ACQUIRED}
    for i, event in enumerate(made):
        pid, context = THREADS[event.thread]
        # A wait that begins, or ends, is one more.
        ends = event.kind in (ACQUIRED, ABANDONED) and event.acquisition in waiting
        number = waits[event.lock] = waits.get(event.lock, 0) + (event.kind == WAITS or ends)
        waiting = waiting | {event.acquisition} if event.kind == WAITS else waiting - {event.acquisition}
        place = position[event.thread] = position.get(event.thread, 0) + 1
        orphan = event.kind == RELEASE and event.acquisition not in acquired
        flags = (TRY if event.tried else 0) | (CONFLICT if len(conflicts) and conflicts[i] else 0)
        depth = depths[i] if len(depths) else 0
        log[i] = (
            *(place, 1000 + 10 * i, LOCKS[event.lock], SITE + event.thread, i + 1, number, event.lock + 1, pid, depth),
            *(event.thread, event.kind, event.type, STREAM_LOG, context, flags | (ORPHAN if orphan else 0)),
        )
    return log[np.argsort(log["cpu"], kind="stable")]


@dataclass
class Expected:
    """Per event: kept by the filter; an attempt that had to wait; how many others waited then, and one."""

    kept: list[bool]
    conflict: list[bool]
    depth: list[int]


def per_lock_expected(made: Sequence[Made]) -> Expected:
    """By spans of events: who waited, and whose hold overlaps a wait for the same lock."""
    n = len(made)
    found = Expected([False] * n, [False] * n, [0] * n)
    spans: dict[int, dict[int, int]] = {}
    for i, event in enumerate(made):
        if event.acquisition >= 0:
            spans.setdefault(event.acquisition, {})[event.kind] = i
    waits = []
    for span in spans.values():
        if WAITS in span:
            ends = [span[kind] for kind in (ACQUIRED, ABANDONED) if kind in span]
            waits.append((made[span[WAITS]].lock, span[WAITS], min(ends, default=n)))
    for span in spans.values():
        lock = made[next(iter(span.values()))].lock
        mine = [begin for _, begin, _ in waits if begin == span.get(WAITS)]
        if mine and ATTEMPT in span:
            found.conflict[span[ATTEMPT]] = True
            found.depth[span[ATTEMPT]] = sum(at == lock and begin <= mine[0] < end for at, begin, end in waits)
        held = (span.get(ACQUIRED, n), span.get(RELEASE, n))
        overlaps = any(at == lock and begin < held[1] and end > held[0] for at, begin, end in waits)
        never_released = ACQUIRED in span and RELEASE not in span
        never_acquired = RELEASE in span and ACQUIRED not in span
        for i in span.values():
            found.kept[i] = bool(mine) or overlaps or never_released or never_acquired
    for i, event in enumerate(made):
        found.kept[i] |= event.acquisition < 0 and event.kind == RELEASE
    return found


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
