# SPDX-License-Identifier: MIT
"""What readers do that wake up by a period: how often, what they find, and what they fire themselves.

By the code of 6.1: a reader sleeps for its period after it has looked, so it wakes up once in its period and its own
work. `ring_buffer_read_page` gives a whole page away where nobody writes it and nothing of it was read; else it copies
what is there event by event. So each look that finds events copies what is left of the page of the look before, takes
the whole pages behind it, and copies what is in the page that is being written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .cost import Counts, Probe, Refresh, Script

#: Of a page of the ring buffer, for events (BUF_PAGE_SIZE); of an event before its data (RB_EVNT_HDR_SIZE), and the
#: data that its length fits in there (RB_MAX_SMALL_DATA).
PAGE_BYTES, EVENT_HEADER, SMALL_DATA = 4080, 4, 112
#: Events that a read writes into its own buffer, from which on that is never empty: one, but for counting's edges.
FED = 0.9
#: Of a stack trace's event before its frames (struct stack_entry), and of a frame.
STACK_BYTES, FRAME_BYTES = 16, 8


@dataclass(frozen=True)
class Buffer:
    """What is written into one buffer in all: events and their bytes."""

    events: float
    bytes: float
    fed: float = 0.0  # events that each read of a buffer writes into this one


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
    beside: float = 0.0  # of all wake-ups, those of others than the reader that wakes up most often
    readers: tuple[Looks, ...] = ()  # of tracefs, each by itself

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
                copied = probe.fields.characters + probe.fields.bytes
                events, size = kept, kept * event_size((probe.event_bytes or 0) + copied)
            if consumer.stack_frames is not None:
                events += kept
                size += kept * event_size(STACK_BYTES + FRAME_BYTES * consumer.stack_frames)
            read = passes if consumer.predicate is None else consumer.predicate.read_passes
            own = (
                probe.by_read
                * (passes if read is None else read)
                * (consumer.record + (consumer.stack_frames is not None))
            )
            before = found[number]
            found[number] = Buffer(before.events + events, before.bytes + size, before.fed + own)
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


def looks_of(refresh: Refresh, buffers: list[Buffer], wakes: float) -> Looks:
    """What one reader of tracefs finds that wakes up so often and looks into these buffers each time."""
    pages = partials = copied = taken = 0.0
    for buffer in buffers:
        if not buffer.events or not wakes:
            continue
        finds = min(1.0, buffer.events / wakes)
        whole = max(0.0, buffer.bytes / PAGE_BYTES - wakes)
        if buffer.fed > FED:
            # It is never empty: each read finds what the one before has written, until the reader has enough.
            whole = 0.0
            partials += wakes * (refresh.reads or math.inf)
        else:
            partials += wakes * finds + buffer.bytes / PAGE_BYTES - whole
        pages += whole
        share = 1 - whole * PAGE_BYTES / buffer.bytes
        copied += buffer.events * share
        taken += buffer.bytes * share
    return Looks(wakes, wakes * (len(buffers) - 1), pages, partials, copied, taken)


def together(readers: Sequence[Looks], rings: Sequence[float]) -> Looks:
    """All readers' looks, and how often those of rings wake up."""
    wakes = [*(one.wakes for one in readers), *rings]
    return Looks(
        wakes=math.fsum(one.wakes for one in readers),
        buffers=math.fsum(one.buffers for one in readers),
        pages=math.fsum(one.pages for one in readers),
        partials=math.fsum(one.partials for one in readers),
        copied=math.fsum(one.copied for one in readers),
        bytes=math.fsum(one.bytes for one in readers),
        ring_wakes=math.fsum(rings),
        beside=math.fsum(wakes) - max(wakes, default=0.0),
        readers=tuple(readers),
    )
