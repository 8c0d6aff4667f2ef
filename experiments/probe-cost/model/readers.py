# SPDX-License-Identifier: MIT
"""What readers do that wake up by a period: how often, what they find, and what they fire themselves.

By the code of 6.1: a reader sleeps for its period after it has looked, so it wakes up once in its period and its own
work. `ring_buffer_read_page` gives a whole page away where nobody writes it and nothing of it was read; else it copies
what is there event by event. So each look that finds events copies what is left of the page of the look before, takes
the whole pages behind it, and copies what is in the page that is being written.
"""

from __future__ import annotations

from dataclasses import dataclass

from .cost import Counts, Probe, Refresh, Script

#: Of a page of the ring buffer, for events (BUF_PAGE_SIZE); of an event before its data (RB_EVNT_HDR_SIZE), and the
#: data that its length fits in there (RB_MAX_SMALL_DATA).
PAGE_BYTES, EVENT_HEADER, SMALL_DATA = 4080, 4, 112
#: Of a stack trace's event before its frames (struct stack_entry), and of a frame.
STACK_BYTES, FRAME_BYTES = 16, 8


@dataclass(frozen=True)
class Buffer:
    """What is written into one buffer in all: events and their bytes."""

    events: float
    bytes: float


@dataclass(frozen=True)
class Looks:
    """What all readers do in all. `reads` are calls that give events; `wakes` those of tracefs's readers."""

    wakes: float = 0.0
    buffers: float = 0.0
    pages: float = 0.0
    partials: float = 0.0
    copied: float = 0.0
    bytes: float = 0.0
    ring_wakes: float = 0.0

    @property
    def reads(self) -> float:
        return self.pages + self.partials

    @property
    def all_wakes(self) -> float:
        return self.wakes + self.ring_wakes


def event_size(data: float) -> float:
    """Bytes of an event in the ring buffer whose data are so many."""
    return EVENT_HEADER * (1 if data <= SMALL_DATA else 2) + -(-data // 4) * 4


def buffers_of(script: Script, counts: Counts, firings: dict[int, float]) -> list[Buffer]:
    """The buffers of tracefs instances: the first has the first consumer of each probe, and so on."""
    found: list[Buffer] = []
    for index, probe in enumerate(script.probes):
        if probe.period_ns is not None:
            continue
        for number, consumer in enumerate(probe.consumers):
            if consumer.program is not None:
                continue
            while len(found) <= number:
                found.append(Buffer(0.0, 0.0))
            passes = 1.0 if consumer.predicate is None else consumer.predicate.passes
            kept = firings[index] * passes
            events, size = 0.0, 0.0
            if consumer.record:
                events, size = kept, kept * event_size((probe.event_bytes or 0) + probe.fields.characters)
            if consumer.stack_frames is not None:
                events += kept
                size += kept * event_size(STACK_BYTES + FRAME_BYTES * consumer.stack_frames)
            found[number] = Buffer(found[number].events + events, found[number].bytes + size)
    return found


def rings_of(script: Script) -> list[tuple[Probe, str]]:
    """The rings of programs: their probes, and what they are: `ring` or `perf`."""
    return [
        (probe, call.name)
        for probe in script.probes
        for consumer in probe.consumers
        if consumer.program is not None
        for call in consumer.program.calls
        if call.name in ("ring", "perf")
    ]


def looks_of(refresh: Refresh, buffers: list[Buffer], rings: int, each_wake: float, ring_wake: float) -> Looks:
    """What readers find whose looks come in these numbers: of each reader of tracefs, and of each ring's."""
    readers = (len(buffers) if refresh.each else 1) if buffers else 0
    pages = partials = copied = taken = 0.0
    for buffer in buffers:
        if not buffer.events or not each_wake:
            continue
        finds = min(1.0, buffer.events / each_wake)
        whole = max(0.0, buffer.bytes / PAGE_BYTES - each_wake)
        pages += whole
        partials += each_wake * finds + buffer.bytes / PAGE_BYTES - whole
        share = 1 - whole * PAGE_BYTES / buffer.bytes
        copied += buffer.events * share
        taken += buffer.bytes * share
    return Looks(
        wakes=each_wake * readers,
        buffers=each_wake * (len(buffers) - readers),
        pages=pages,
        partials=partials,
        copied=copied,
        bytes=taken,
        ring_wakes=ring_wake * rings,
    )
