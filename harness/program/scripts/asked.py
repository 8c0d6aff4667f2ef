# SPDX-License-Identifier: MIT
"""What a tool would have the kernel record, in the words that an experiment's hook `predict` reads as JSON."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.errors import UsageError
from harness.program.scripts.filters import Filter

#: Where all system calls pass.
RAW = "tracepoint:raw_syscalls:sys_"
#: Systems whose events are what somebody defined: these names alone do not say where they are.
DEFINED = ("kprobes", "uprobes", "eprobes", "fprobes", "synthetic", "probe")
_BOTH = ("*", "sys_*", "sys*", "s*")
_ENDS = {";", "&&"}


@dataclass(frozen=True)
class Consumer:
    """Who takes an event: a tracefs instance, or perf; `counts` is perf without a record."""

    record: bool = True
    counts: bool = False
    stack: bool = False
    filter: Filter | None = None
    #: Keys of a hist: trigger, and values besides the hit count.
    histogram: tuple[int, int] | None = None

    def as_data(self) -> dict[str, Any]:
        if self.counts:
            return {"program": {}}
        data: dict[str, Any] = {"record": self.record}
        if self.filter is not None:
            data["predicate"] = self.filter.as_data()
        if self.stack:
            data["stack_frames"] = 0
        if self.histogram is not None:
            data["histogram"] = {"keys": self.histogram[0], "values": self.histogram[1]}
        return data


@dataclass(frozen=True)
class Event:
    """A probe by bpftrace's name; what its event records of its own; who takes it."""

    probe: str
    consumers: tuple[Consumer, ...] = (Consumer(),)
    fields: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"probe": self.probe, "consumers": [one.as_data() for one in self.consumers]}
        if any(self.fields.values()):
            data["fields"] = {name: number for name, number in self.fields.items() if number}
        return data | ({"notes": list(dict.fromkeys(self.notes))} if self.notes else {})


@dataclass
class Asked:
    """All that a tool was asked for; what has no price comes with the reason."""

    tool: str
    events: list[Event] = field(default_factory=list)
    #: What is compiled: by probe, several separated by commas; maps in the order of their numbers, with kind and key.
    programs: list[tuple[str, bytes]] = field(default_factory=list)
    maps: list[tuple[str, str, int]] = field(default_factory=list)
    unpriced: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def probes(self) -> list[str]:
        compiled = [probe for names, _ in self.programs for probe in names.split(",")]
        return [*(event.probe for event in self.events), *compiled]

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def as_data(self) -> dict[str, Any]:
        """In JSON; UsageError where nothing is left to be priced."""
        if not self.events and not self.programs:
            probe, why = self.unpriced[0] if self.unpriced else ("the script", "it asks for no event")
            raise UsageError(f"nothing of the script has a price: {probe}: {why}")
        data: dict[str, Any] = {"tool": self.tool}
        if self.events:
            data["events"] = [event.as_data() for event in grouped(self.events)]
        if self.programs:
            data["programs"] = [{"probe": probe, "code": code.hex()} for probe, code in self.programs]
            data["maps"] = [{"name": name, "kind": kind, "key": key} for name, kind, key in self.maps]
        if self.unpriced:
            data["unpriced"] = [{"probe": probe, "why": why} for probe, why in self.unpriced]
        return data | ({"notes": self.notes} if self.notes else {})


def grouped(events: Sequence[Event]) -> list[Event]:
    """Each probe once, with all of its consumers, where its events record the same."""
    found: dict[tuple[str, tuple[tuple[str, int], ...]], Event] = {}
    for event in events:
        key = (event.probe, tuple(sorted(event.fields.items())))
        same = found.get(key)
        found[key] = (
            event
            if same is None
            else Event(event.probe, (*same.consumers, *event.consumers), event.fields, (*same.notes, *event.notes))
        )
    return list(found.values())


def trace_points(system: str, name: str) -> list[str] | str:
    """The probes that SYSTEM:NAME means, patterns too; or why that has no price."""
    if system in DEFINED or system.startswith(("probe_", "sdt_")):
        return "which place it has is not known: its definition is not among what was given"
    patterns = [any(char in part for char in "*?[") for part in (system, name)]
    if all(patterns) or (patterns[0] and system != "*"):
        return "a pattern of systems: what it meets, and so its price, hangs on the kernel"
    if system == "syscalls" and not name.startswith(("sys_enter_", "sys_exit_")):
        if name not in _BOTH:
            return "no event of system calls is named so, or it is a pattern of both ways: ask for one way at a time"
        return [f"tracepoint:syscalls:{way}_*" for way in ("sys_enter", "sys_exit")]
    if system == "raw_syscalls" and name in _BOTH:
        return [f"{RAW}enter", f"{RAW}exit"]
    return [f"tracepoint:{system}:{name}"]


def commands(text: str) -> list[list[str]]:
    """The commands of a shell's line. UsageError for what a shell would not read, or only a shell can."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    try:
        words = list(lexer)
    except ValueError as error:
        raise UsageError(f"is no shell text: {error}", where=brief(text)) from error
    found: list[list[str]] = [[]]
    for word in words:
        if word in _ENDS:
            found.append([])
        elif word and not word.strip("|&<>;"):
            hint = "name the commands alone, with ; between"
            raise UsageError(f"{word!r} is for a shell", where=brief(text), hint=hint)
        else:
            found[-1].append(word)
    return [plain for line in found if (plain := line[1:] if line[:1] == ["sudo"] else line)]


def brief(text: str) -> str:
    """A script in a message: its first words."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}…"


def is_number(text: str) -> bool:
    return re.fullmatch(r"\d+", text) is not None
