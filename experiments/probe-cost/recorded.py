# SPDX-License-Identifier: MIT
"""What perf and tracefs record of a probe, as the model has it: likely, at least and at most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from harness.yamlfile import Strict, about

from .model.cost import Consumer, Fields

#: Of a stack whose depth nobody has told; the most is what bpftrace and perf take.
LIKELY_FRAMES, MOST_FRAMES = 10.0, 127.0
#: Of a string that an event records; the most is the kernel's (MAX_STRING_SIZE).
LIKELY_CHARACTERS, MOST_CHARACTERS = 16.0, 4096.0


class Event(Strict):
    """One probe that perf or tracefs listens to."""

    probe: Annotated[str, about("as bpftrace would name it")]
    consumers: Annotated[list[Consumer], about("with a stack of no matter how many frames, if any")] = Field(
        min_length=1
    )
    fields: Annotated[Fields, about("recorded, with no matter how many characters")] = Fields()
    notes: Annotated[list[str], about("what its price leaves out, or is taken from")] = []


class Unpriced(Strict):
    """What has no price, as what reads the script already knows."""

    probe: Annotated[str, about("or another thing that was asked for")]
    why: Annotated[str, about("in words")]


class Filled:
    """An event's consumers and fields with what is told of it, and what is taken where nothing is."""

    def __init__(self, event: Event, passes: float | None, frames: float | None, samples: bool) -> None:
        self._event, self._passes, self._frames, self._samples = event, passes, frames, samples
        self._filters = any(consumer.predicate for consumer in event.consumers)
        self._stacks = any(consumer.stack_frames is not None for consumer in event.consumers)

    def notes(self) -> Iterator[str]:
        if self._filters and self._passes is None:
            yield "it has a filter; how often a firing passes is not told: least is never, most is always"
        if self._stacks and self._frames is None:
            yield f"how deep its stacks are is not told: taken are {LIKELY_FRAMES} frames, least 1, most {MOST_FRAMES}"
        if self._stacks and self._samples:
            yield "how many of a stack's frames are the user's is not told: taken is half; least is all, most is none"
        if self._event.fields.strings:
            yield (
                f"how long its strings are is not told: taken are {LIKELY_CHARACTERS:.0f} characters, least 1, "
                f"most {MOST_CHARACTERS:.0f}"
            )
        yield from self._event.notes

    def likely(self) -> tuple[list[Consumer], Fields]:
        return self._with(1.0, LIKELY_FRAMES, 0.5, LIKELY_CHARACTERS)

    def least(self) -> tuple[list[Consumer], Fields]:
        return self._with(0.0, 1.0, 1.0, 1.0)

    def most(self) -> tuple[list[Consumer], Fields]:
        return self._with(1.0, MOST_FRAMES, 0.0, MOST_CHARACTERS)

    def _with(self, passes: float, frames: float, users: float, characters: float) -> tuple[list[Consumer], Fields]:
        passes = passes if self._passes is None else self._passes
        frames = frames if self._frames is None else self._frames
        users = users if self._samples else 0.0
        consumers = []
        for consumer in self._event.consumers:
            update: dict[str, object] = {}
            if consumer.predicate is not None:
                update["predicate"] = consumer.predicate.model_copy(update={"passes": passes})
            if consumer.stack_frames is not None:
                update |= {"stack_frames": frames * (1 - users), "user_frames": frames * users}
            consumers.append(consumer.model_copy(update=update))
        fields = self._event.fields
        return consumers, fields.model_copy(update={"characters": fields.strings * characters})
