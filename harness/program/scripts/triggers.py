# SPDX-License-Identifier: MIT
"""What is set on one trace event of one instance: its filter and its triggers (Documentation/trace/histogram.rst)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from harness.errors import UsageError
from harness.program.scripts.asked import Consumer
from harness.program.scripts.filters import Filter, filter_of

#: They act once, or seldom.
SWITCHES = ("traceon", "traceoff", "snapshot", "enable_event", "disable_event", "enable_hist", "disable_hist")
_PLAIN = ("sort", "size", "name", "clock", "pause", "cont", "clear", "nohitcount")


@dataclass
class Triggers:
    """Of one event."""

    filter: Filter | None = None
    stack: bool = False
    histograms: list[tuple[int, int]] = field(default_factory=list)
    #: The filters that triggers have of their own.
    own: list[Filter] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def consumer(self, *, enabled: bool, stack: bool) -> tuple[Consumer, list[str]]:
        """The instance as the model has one; and what of it that leaves out."""
        notes = list(self.notes)
        filters = [*([self.filter] if self.filter else []), *self.own]
        notes += [note for one in filters for note in one.notes]
        if len(self.histograms) > 1:
            notes.append(f"{len(self.histograms)} histograms: the first is priced")
        acts = bool(self.histograms) + self.stack
        if len({(one.terms, one.either, one.characters) for one in filters}) > 1 or (
            filters and enabled and acts and len(filters) < 1 + acts
        ):
            notes.append("its record and its triggers have not the same filter: priced as if all had the first")
        if stack and filters and not self.stack:
            notes.append("a stack of all events is priced with a filter of its own, as a trigger's")
        consumer = Consumer(
            record=enabled,
            stack=self.stack or (stack and enabled),
            filter=filters[0] if filters else None,
            histogram=self.histograms[0] if self.histograms else None,
        )
        return consumer, notes


def read_trigger(text: str, into: Triggers) -> str | None:
    """A line of an event's `trigger`; why it has no price, if so. UsageError where it is none."""
    plain = re.sub(r"\s*\[(active|paused)\]\s*$", "", text.strip())
    what, _, condition = plain.partition(" if ")
    kind, _, rest = what.strip().partition(":")
    if kind in SWITCHES:
        return "it acts once, or seldom: what it does then has no price"
    if kind not in ("stacktrace", "hist", "histogram"):
        raise UsageError("is no trigger of an event", where=text, hint="hist:keys=…, stacktrace")
    if condition:
        into.own.append(filter_of(condition))
    if kind == "stacktrace":
        into.stack = True
        return None
    return _histogram(text, rest, into)


def _histogram(text: str, rest: str, into: Triggers) -> str | None:
    keys: list[str] = []
    values: list[str] = []
    # Dots and commas within brackets are a handler's.
    for part in re.findall(r"(?:[^:(]|\([^)]*\))+", rest):
        name, _, value = part.strip().partition("=")
        if name in ("keys", "key"):
            keys += value.split(",")
        elif name in ("values", "vals", "val"):
            values += [one for one in value.split(",") if one != "hitcount"]
        elif name not in _PLAIN:
            into.notes.append(f"the histogram's {part.strip()} is not in the price")
    if not all(keys) or not keys:
        raise UsageError("is no histogram of an event", where=text, hint="hist:keys=FIELD[,FIELD][:vals=FIELD]")
    if any(key.partition(".")[0] in ("stacktrace", "common_stacktrace") or key.endswith(".stacktrace") for key in keys):
        into.notes.append("a stack as a histogram's key is priced as a plain key")
    into.histograms.append((len(keys), len(values)))
    return None
