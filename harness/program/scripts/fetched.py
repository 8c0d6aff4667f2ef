# SPDX-License-Identifier: MIT
"""What probes that somebody defined record: arguments as of kprobe_events and of `perf probe`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.errors import UsageError

_NAMED = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<what>.+)")
_TYPED = re.compile(r"(?P<what>.+?):(?P<type>~?\w+(?:@\w+(?:/\w+)?)?(?:\[\d+\])?)$")
_REGISTER = re.compile(r"%\w+|\$(?:stack\d*|retval|arg\d+)|\\.+")
_BEHIND = re.compile(r"[+-]u?(?:0x[0-9a-fA-F]+|\d+)\((?P<what>.+)\)|@[\w.$+-]+")
#: A variable of the source: where it is, debug info says.
_VARIABLE = re.compile(r"[A-Za-z_]\w*(?P<deep>(?:->\w+|\.\w+|\[\w+\])*)")
_STRINGS = ("string", "ustring", "symstr")


@dataclass
class Fields:
    """How many of each, by the model's names."""

    numbers: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, times: int = 1) -> None:
        self.numbers[name] = self.numbers.get(name, 0) + times


@dataclass(frozen=True)
class Place:
    """A defined event: its probe by bpftrace's name; or why that has no price."""

    probe: str
    fields: Fields
    why: str | None = None


def fields_of(arguments: Sequence[str], *, variables: bool = False) -> Fields:
    """What the arguments record; `variables`: those of the source are known. UsageError for what is none."""
    found = Fields()
    for argument in arguments:
        named = _NAMED.fullmatch(argument)
        what = named.group("what") if named else argument
        typed = _TYPED.fullmatch(what)
        what, kind = (typed.group("what"), typed.group("type")) if typed else (what, "")
        if "[" in kind:
            found.notes.append(f"the array {argument} is priced as one of its words")
        if kind.startswith(_STRINGS):
            found.add("strings")
        elif what in ("$comm", "$COMM"):
            found.add("comm")
        elif _REGISTER.fullmatch(what):
            found.add("registers")
        elif _BEHIND.fullmatch(what):
            found.add("memory", max(1, what.count("(")))
            if what.count("(") > 1:
                found.notes.append(f"the chain of pointers {argument} is priced as so many words")
        elif variables and (match := _VARIABLE.fullmatch(what)):
            found.add("memory" if match.group("deep") else "registers")
            found.notes.append(f"where {what} is, debug info says: priced as {_where(match.group('deep'))}")
        else:
            raise UsageError("is no argument of a probe", where=argument, hint="NAME=%REGISTER, NAME=+8(%di):string, …")
    return found


def _where(deep: str) -> str:
    return "a word behind a pointer" if deep else "a register"


def defined(line: str) -> tuple[str, str, Place] | None:
    """GROUP, NAME and place of a line of kprobe_events, uprobe_events or dynamic_events. None for an empty line."""
    words = line.split()
    if not words or words[0].startswith(("#", "-:")):
        return None
    match = re.fullmatch(r"(?P<kind>[a-z])\d*(?::(?:(?P<group>\w+)[/.])?(?P<name>\w+))?", words[0])
    if match is None or len(words) < 2:
        raise UsageError("defines no probe", where=line.strip(), hint="p:GROUP/NAME SYMBOL[+OFFSET] [ARGUMENT…]")
    kind, where = match.group("kind"), words[1]
    name = match.group("name") or re.sub(r"\W", "_", f"{kind}_{where}")
    if kind not in "pr":
        why = f"it is defined as {words[0]}, and the model has no provider for that"
        return match.group("group") or "", name, Place(f"{kind}:{where}", Fields(), why)
    user = ":" in where and "/" in where
    probe = f"{'u' if user else 'k'}{'ret' if kind == 'r' else ''}probe:{where.removesuffix('+0')}"
    if probe.endswith("%return"):
        probe = probe.removesuffix("%return").replace("probe:", "retprobe:", 1)
    group = match.group("group") or ("uprobes" if user else "kprobes")
    return group, name, Place(probe, fields_of(words[2:]))
