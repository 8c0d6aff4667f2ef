# SPDX-License-Identifier: MIT
"""The kernel's functions that have a part in the experiment, and the handlers behind the lines of /proc/interrupts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from harness.errors import RunError
from harness.measure.raw import read_text
from harness.measure.symbols import SymbolMap

from .profile.buffer import ProfileTable


@dataclass(frozen=True)
class Handler:
    """One kind of interrupt: its name here, and its names in /proc/interrupts."""

    label: str
    actions: tuple[str, ...]  # an action is one of these, or begins with one and a digit or "-" follows
    body: tuple[str, ...] = ()  # functions that only this handler calls


KINDS = (
    Handler("timer", ("timer",)),
    Handler("edu", ("krepro-edu",), ("krepro_edu_work",)),
    Handler("disk", ("ata_piix", "libata")),
    Handler("net", ("eth",)),
    Handler("virtio", ("virtio",)),
    Handler("rtc", ("rtc",)),
    Handler("keyboard", ("i8042",)),
    Handler("serial", ("ttyS", "serial")),
    Handler("acpi", ("acpi",)),
)
#: The edu driver's handler and the loop in it.
EDU = ("krepro_edu_irq", "krepro_edu_work")
RAISE, TASK_WORK, HANDLERS_LOOP = "krepro_edu_raise", "krepro_edu_task_work", "krepro_edu_work"
OWN = {RAISE: "raise", TASK_WORK: "task work", **dict.fromkeys(EDU, "handler edu")}
#: The functions of the second sampling point; the first is called once for each handler.
FIX = ("__irq_hotspot_hit", "irq_hotspot_count", "profile_this_cpu", "profile_hit_direct")
#: The values of irq_sampling that count handler entries, and the one whose samples no tick takes.
ENTRIES_SAMPLED = ("entry", "handler")
BY_NMI = "nmi"
_HEX = re.compile(r"[0-9a-f]{1,16}")


def handler_of(action: str) -> Handler:
    """The kind of an action of /proc/interrupts; one of its own where no name here is its."""
    for handler in KINDS:
        for name in handler.actions:
            rest = action.removeprefix(name)
            if rest != action and (not rest or rest[0] in "0123456789-"):
                return handler
    return Handler(action, (action,))


@dataclass(frozen=True)
class Called:
    """What the kernel calls for the actions of /proc/interrupts, and the function in which it waits when idle.

    Functions are indexes of the symbol map. `handlers`: by line and action, the functions; none for one in a module.
    `idle`: None where no CPU was seen idle.
    """

    symbols: SymbolMap
    handlers: Mapping[tuple[str, str], tuple[int, ...]]
    idle: int | None

    @property
    def idle_functions(self) -> list[int]:
        """One, or none that is known."""
        return [] if self.idle is None else [self.idle]

    def roles_of(self, functions: Iterable[str]) -> pd.Series[Any]:
        """What each function is in this experiment, by its name: `idle`, `raise`, `handler edu`, … or `other`."""
        names = self.symbols.name
        roles = {str(names[index]): "idle" for index in self.idle_functions}
        for (_, action), entries in self.handlers.items():
            roles |= dict.fromkeys((str(names[entry]) for entry in entries), f"handler {handler_of(action).label}")
        return roles_of(functions, roles)


def roles_of(functions: Iterable[str], more: Mapping[str, str] = MappingProxyType({})) -> pd.Series[Any]:
    """The roles of functions by name: those of the load's own driver, and `more`; else `other`."""
    roles = {**more, **OWN}
    return pd.Series(list(functions), dtype="object").map(roles).fillna("other")


def read_called(path: Path, symbols: SymbolMap) -> Called:
    """The file `handlers` of a workload; RunError when a line is none that the module writes, or only a part of one."""
    handlers: dict[tuple[str, str], tuple[int, ...]] = {}
    idle: int | None = None
    text = read_text(path)
    if not text.endswith("\n"):
        raise RunError("ends within a line", where=str(path))
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(None, 3)
        if len(words) < 3 or not _HEX.fullmatch(words[1]) or not (words[0] == "idle" or words[0].isdecimal()):
            raise RunError("is not: IRQ, address, function, action", where=f"{path}:{number}")
        index = int(symbols.at(np.array([int(words[1], 16)], dtype=np.uint64))[0])
        inside = (index,) if index >= 0 else ()
        if words[0] == "idle":
            idle = index if inside else None
        else:
            action = (words[0], words[3] if len(words) > 3 else "")
            handlers[action] = (*handlers.get(action, ()), *inside)
    return Called(symbols, handlers, idle)


@dataclass
class _Ran:
    """The lines that a handler ran on, and its functions; `unknown`: actions that the kernel did not tell of."""

    kind: Handler
    lines: list[str] = field(default_factory=list)
    functions: set[int] = field(default_factory=set)
    unknown: int = 0
    interrupts: int = 0
    slack: int = 0
    shared: bool = False


def handler_rows(
    table: ProfileTable, lines: pd.DataFrame, slack: Mapping[str, int], sampling: str, called: Called
) -> list[dict[str, Any]]:
    """A row of the table `handlers` for every handler whose line had an interrupt.

    `lines`: columns irq, actions and interrupts of the table `interrupts`; `slack`: by irq, how many more there may
    have been. A line that is shared calls all its handlers, and a driver may own several lines, so the expected entries
    of a handler are summed over lines and its actions on them.
    """
    ran: dict[str, _Ran] = {}
    for irq, names, interrupts in zip(lines["irq"], lines["actions"], lines["interrupts"].tolist(), strict=True):
        actions = names.split(", ") if names else []
        for action in actions:
            if not interrupts + slack.get(irq, 0):
                continue
            kind = handler_of(action)
            row = ran.setdefault(kind.label, _Ran(kind))
            row.shared |= any(handler_of(other).label != kind.label for other in actions)
            row.lines.append(irq)
            row.interrupts += interrupts
            row.slack += slack.get(irq, 0)
            functions = called.handlers.get((irq, action), ())
            row.functions.update(functions)
            row.unknown += not functions
    return [_row(table, label, row, sampling) for label, row in ran.items()]


def _row(table: ProfileTable, label: str, ran: _Ran, sampling: str) -> dict[str, Any]:
    symbols = table.symbols
    row: dict[str, Any] = {
        "handler": label,
        "lines": " ".join(dict.fromkeys(ran.lines)),
        "interrupts": ran.interrupts,
        "slack": ran.slack,
        "shared": ran.shared,
    }
    if ran.unknown:
        return row | {"function": None, "exclusive": False}
    entry = np.array(sorted(ran.functions), dtype=np.intp)
    functions = np.unique(np.concatenate([entry, *(symbols.find(name) for name in ran.kind.body)]))
    buckets = sorted({table.bucket_of(int(address)) for address in symbols.address[entry]})
    entries = float(table.buckets[buckets].sum()) if sampling in ENTRIES_SAMPLED else float("nan")
    # With entries sampled, the entry counters are theirs; what is left in the handler would be ticks.
    own = float(np.nan_to_num(entries))
    return row | {
        "function": " ".join(str(symbols.name[index]) for index in entry),
        "entries": entries,
        "exclusive": all(table.is_exclusive(bucket) for bucket in buckets),
        "ticks": max(0.0, float(table.ticks[functions].sum()) - own),
        "ticks_high": max(0.0, float(table.high[functions].sum()) - own),
    }
