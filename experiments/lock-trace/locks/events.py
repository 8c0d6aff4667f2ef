# SPDX-License-Identifier: MIT
"""A lock trace's file: events of 64 bytes, as the kernel's include/uapi/linux/lock_trace.h has them.

The launcher appends what it reads: whole events, those of a CPU's ring in order, rings one after another. An event's
position is its place in the ring; positions count from 1 without a gap, because losses are counted apart and not
skipped. Which ring it was is not said: an event that a filter decided on later, on another CPU, has the first CPU's
number.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import RunError

ALL, PAPER, PER_LOCK, TRACEPOINT, VALIDATE, CONTENDED = range(1, 7)
ARMS = {
    "all": ALL, "paper": PAPER, "per-lock": PER_LOCK, "tracepoint": TRACEPOINT, "validate": VALIDATE,
    "contended": CONTENDED,
}  # fmt: skip

ATTEMPT, ACQUIRED, RELEASE, FAILED, ABANDONED, INIT, WAITS = range(1, 8)
KINDS = ("", "attempt", "acquired", "release", "failed", "abandoned", "init", "waits")

SPIN, READ, WRITE, MUTEX, RWSEM_READ, RWSEM_WRITE, OTHER = range(1, 8)
#: What `perf lock contention` calls them.
TYPES = ("", "spinlock", "rwlock:R", "rwlock:W", "mutex", "rwsem:R", "rwsem:W", "other")
#: Types whose holders do not exclude each other.
SHARED = (READ, RWSEM_READ)

IN_TASK, IN_SOFTIRQ, IN_IRQ, IN_NMI = range(4)
CONTEXTS = ("task", "softirq", "interrupt", "nmi")
CONTEXT_BITS, IRQS_OFF = 0x7F, 0x80

TRY, ORPHAN, OPEN, CONFLICT, OTHER_TASK = (1 << bit for bit in range(5))
STREAM_LOG, STREAM_PER_LOCK, STREAM_PAPER = range(3)
STREAMS = ("log", "per-lock", "paper")

EVENT = np.dtype(
    [
        ("position", "<u8"),  # in the ring of the CPU that wrote it, from 1
        ("time", "<u8"),  # TSC cycles
        ("lock", "<u8"),  # address
        ("site", "<u8"),  # place the call returns to
        ("order", "<u8"),  # validate: place in the order that the paper's filter saw; contended.py has that of releases
        ("sequence", "<u4"),  # per-lock, validate, contended: waits of the lock that had begun or ended
        ("entry", "<u4"),  # of the table of locks, 0: none
        ("pid", "<u4"),  # thread
        ("depth", "<u4"),  # attempts: how many others held or waited
        ("cpu", "<u2"),
        ("kind", "u1"),
        ("type", "u1"),
        ("stream", "u1"),
        ("context", "u1"),
        ("flags", "<u2"),
    ]
)
#: Events that are read at once when nothing else is said: 16 MB.
CHUNK = 1 << 18

Events = npt.NDArray[np.void]
Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]


class EventLog:
    """One `events.bin`. It is read piece by piece; `chunks` checks what it gives."""

    def __init__(self, path: Path) -> None:
        """RunError when the file is absent or was cut short."""
        self.path = path
        try:
            size = path.stat().st_size
        except OSError as error:
            raise RunError(f"cannot be read: {error.strerror}", where=str(path)) from error
        self.events, rest = divmod(size, EVENT.itemsize)
        if rest:
            raise RunError(f"is cut short: {rest} bytes after event {self.events}", where=str(path))

    def __len__(self) -> int:
        return self.events

    def chunks(self, events: int = CHUNK) -> Iterator[Events]:
        """Arrays of EVENT, at most `events` long, in the file's order.

        RunError with the place when an event is damaged, or its position goes on with no ring's.
        """
        rings = _Rings(self.path)
        try:
            with self.path.open("rb") as file:
                for first in range(0, self.events, events):
                    part = np.fromfile(file, dtype=EVENT, count=min(events, self.events - first))
                    if len(part) < min(events, self.events - first):
                        raise RunError("became shorter while it was read", where=str(self.path))
                    self._check_values(part, first)
                    rings.add(part["position"], first)
                    yield part
        except OSError as error:
            raise RunError(f"cannot be read: {error.strerror}", where=str(self.path)) from error

    def read(self) -> Events:
        """All events; 64 bytes of memory each."""
        whole = np.empty(self.events, dtype=EVENT)
        done = 0
        for part in self.chunks():
            whole[done : done + len(part)] = part
            done += len(part)
        return whole

    def _check_values(self, part: Events, first: int) -> None:
        bad = (part["kind"] - 1 > WAITS - 1) | (part["type"] - 1 > OTHER - 1) | (part["stream"] > STREAM_PAPER)
        bad |= (part["context"] & CONTEXT_BITS) > IN_NMI
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            names = ("kind", "type", "stream", "context")
            values = ", ".join(f"{name} {int(part[name][at])}" for name in names)
            raise RunError(f"event {first + at} is damaged: {values}", where=self._place(first + at))

    def _place(self, event: int) -> str:
        return f"{self.path}, byte {event * EVENT.itemsize}"


class _Rings:
    """The last position of each ring, as far as the file has been read; `now` is the ring that is being read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last: list[int] = []
        self.now = -1

    def add(self, position: npt.NDArray[np.uint64], first: int) -> None:
        """Events from number `first` on. RunError where one is the next of no ring, nor the first of one."""
        begins = np.flatnonzero(np.diff(position) != 1) + 1 if len(position) else np.empty(0, dtype=np.intp)
        for low, high in zip([0, *begins.tolist()], [*begins.tolist(), len(position)], strict=True):
            at = int(position[low])
            if self.now < 0 or at != self.last[self.now] + 1:
                self.now = self._ring(at, first + low)
            self.last[self.now] = int(position[high - 1])

    def _ring(self, position: int, event: int) -> int:
        if position - 1 in self.last:
            return self.last.index(position - 1)
        if position == 1:
            self.last.append(0)
            return len(self.last) - 1
        ends = ", ".join(map(str, sorted(self.last))) or "none"
        raise RunError(
            f"event {event} has position {position}, which no ring goes on with: they end at {ends}",
            where=f"{self.path}, byte {event * EVENT.itemsize}",
        )


def read_events(path: Path) -> Events:
    """All events of a file, checked; RunError as `EventLog`."""
    return EventLog(path).read()


def only(events: Events, stream: int) -> Events:
    """The events of one stream, in the same order."""
    return np.asarray(events[events["stream"] == stream])


def describe(event: Any) -> str:
    """One event in a line, for messages and examples."""
    kind = KINDS[int(event["kind"])] + ("+try" if int(event["flags"]) & TRY else "")
    return (
        f"{kind} {TYPES[int(event['type'])]} lock {int(event['lock']):#x} sequence {int(event['sequence'])}"
        f" pid {int(event['pid'])} cpu {int(event['cpu'])} time {int(event['time'])} flags {int(event['flags']):#x}"
    )
