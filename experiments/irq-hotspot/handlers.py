# SPDX-License-Identifier: MIT
"""The kernel's functions that have a part in the experiment, and the handlers behind the lines of /proc/interrupts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from harness.measure.symbols import SymbolMap

from .profile.buffer import ProfileTable


@dataclass(frozen=True)
class Handler:
    """One kind of interrupt: its name here, its names in /proc/interrupts, its functions in the kernel."""

    label: str
    actions: tuple[str, ...]  # an action is one of these, or begins with one and a digit or "-" follows
    entries: tuple[str, ...]  # what action->handler may point to
    body: tuple[str, ...] = ()  # functions that only this handler calls


HANDLERS = (
    Handler("timer", ("timer",), ("timer_interrupt",)),
    Handler("edu", ("krepro-edu",), ("krepro_edu_irq",), ("krepro_edu_work",)),
    Handler("disk", ("ata_piix", "libata"), ("ata_bmdma_interrupt", "ata_sff_interrupt")),
    Handler("net", ("eth",), ("cp_interrupt", "e1000_intr", "rtl8139_interrupt")),
    # The last three are entries where the device has message-signalled interrupts; else vp_interrupt calls them.
    Handler("virtio", ("virtio",), ("vp_interrupt", "vring_interrupt", "vp_vring_interrupt", "vp_config_changed")),
    Handler("rtc", ("rtc",), ("rtc_interrupt", "cmos_interrupt")),
    Handler("keyboard", ("i8042",), ("i8042_interrupt",)),
    Handler("serial", ("ttyS", "serial"), ("serial8250_interrupt",)),
    Handler("acpi", ("acpi",), ("acpi_irq",)),
)
#: Where an idle CPU waits: what select_idle_routine() (arch/x86/kernel/process.c) and acpi_idle can choose, and the
#: halt in them where the compiler left it a function of its own. On AMD's older CPUs it is amd_e400_idle.
IDLE = (
    "default_idle",
    "amd_e400_idle",
    "native_safe_halt",
    "pv_native_safe_halt",
    "mwait_idle",
    "acpi_safe_halt",
    "acpi_idle_do_entry",
)
RAISE, TASK_WORK, HANDLERS_LOOP = "krepro_edu_raise", "krepro_edu_task_work", "krepro_edu_work"
#: The functions of the second sampling point; the first is called once for each handler.
FIX = ("__irq_hotspot_hit", "irq_hotspot_count", "profile_this_cpu", "profile_hit_direct")
#: The values of irq_sampling that count handler entries, and the one whose samples no tick takes.
ENTRIES_SAMPLED = ("entry", "handler")
BY_NMI = "nmi"


def handler_of(action: str) -> Handler | None:
    """The kind of an action of /proc/interrupts; None: none that is known here."""
    for handler in HANDLERS:
        for name in handler.actions:
            rest = action.removeprefix(name)
            if rest != action and (not rest or rest[0] in "0123456789-"):
                return handler
    return None


def roles_of(functions: Iterable[str]) -> pd.Series[Any]:
    """What each function is in this experiment, by its name: `idle`, `raise`, `handler edu`, … or `other`."""
    roles = dict.fromkeys(IDLE, "idle") | {RAISE: "raise", TASK_WORK: "task work"}
    for kind in HANDLERS:
        roles |= dict.fromkeys((*kind.entries, *kind.body), f"handler {kind.label}")
    names = pd.Series(list(functions), dtype="object")
    return names.map(roles).fillna("other")


@dataclass
class _Ran:
    """The lines that a handler ran on."""

    kind: Handler | None
    lines: list[str] = field(default_factory=list)
    interrupts: int = 0
    slack: int = 0
    shared: bool = False


def handler_rows(
    table: ProfileTable, lines: pd.DataFrame, slack: Mapping[str, int], sampling: str
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
            row = ran.setdefault(kind.label if kind else action, _Ran(kind))
            row.shared |= any(handler_of(other) is not kind for other in actions)
            row.lines.append(irq)
            row.interrupts += interrupts
            row.slack += slack.get(irq, 0)
    return [_row(table, label, row, sampling) for label, row in ran.items()]


def _row(table: ProfileTable, label: str, ran: _Ran, sampling: str) -> dict[str, Any]:
    symbols = table.symbols
    known: dict[str, Any] = {
        "handler": label,
        "lines": " ".join(dict.fromkeys(ran.lines)),
        "interrupts": ran.interrupts,
        "slack": ran.slack,
        "shared": ran.shared,
    }
    names = _entries(symbols, ran.kind)
    if ran.kind is None or not names:
        return known | {"function": None, "exclusive": False}
    # The map may have several drivers of one kind, and does not say which one is at work: their sum is.
    entry = np.unique(np.concatenate([symbols.find(name) for name in names]))
    functions = np.unique(np.concatenate([entry, *(symbols.find(name) for name in ran.kind.body)]))
    buckets = sorted({table.bucket_of(int(address)) for address in symbols.address[entry]})
    entries = float(table.buckets[buckets].sum()) if sampling in ENTRIES_SAMPLED else float("nan")
    # With entries sampled, the entry counters are theirs; what is left in the handler would be ticks.
    own = float(np.nan_to_num(entries))
    return known | {
        "function": " ".join(names),
        "entries": entries,
        "exclusive": all(table.is_exclusive(bucket) for bucket in buckets),
        "ticks": max(0.0, float(table.ticks[functions].sum()) - own),
        "ticks_high": max(0.0, float(table.high[functions].sum()) - own),
    }


def _entries(symbols: SymbolMap, kind: Handler | None) -> list[str]:
    return [name for name in (kind.entries if kind else ()) if symbols.find(name).size]
