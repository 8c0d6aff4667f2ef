# SPDX-License-Identifier: MIT
"""Whether a guest can still come to anything, seen from outside: its CPUs' registers, and its own clock."""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: Of `info registers -a`: i386's and x86_64's flags; whether the CPU is halted.
_CPU = re.compile(r"^CPU#\d+", re.MULTILINE)
_FLAGS = re.compile(r"\b[ER]FL=([0-9a-f]+)")
_HALTED = re.compile(r"\bHLT=([01])")
INTERRUPTS_ON = 1 << 9
#: Looks in a row that find all CPUs halted with interrupts off: nothing but an NMI ends that, and no timer does.
LOOKS_AT_HALTED = 3
HALTED = "is halted with its interrupts off: powered off, or stopped for good"
#: Of QEMU's CPU time, with interrupts off at each look; on a busy host a sound guest may get none for minutes. A kernel
#: decompresses itself so, which takes long on a host that is emulated.
DEAF_S = 60.0
#: Then it is looked at more often, and must be found so for as long once more: a guest that spends nearly all of its
#: time in handlers is found so for a while, now and then.
LOOK_CLOSELY_S = 0.1
#: Under the host's clock a look costs the guest some of its time.
LOOK_VIRTUAL_S, LOOK_WALL_S = 1.0, 5.0


@dataclass(frozen=True)
class Cpu:
    """One CPU at one moment."""

    halted: bool
    interrupts: bool


def read_cpus(registers: str) -> list[Cpu]:
    """The CPUs in what QEMU's monitor prints for `info registers -a`; none where that is not what is expected."""
    parts = _CPU.split(registers)[1:]
    flags = [_FLAGS.search(part) for part in parts]
    halted = [_HALTED.search(part) for part in parts]
    return [
        Cpu(halted=halt[1] == "1", interrupts=bool(int(flag[1], 16) & INTERRUPTS_ON))
        for flag, halt in zip(flags, halted, strict=True)
        if flag is not None and halt is not None
    ]


def guest_seconds(date: dict[str, Any]) -> float:
    """The moment that QEMU's real-time clock shows (the property `rtc-time`), in seconds."""
    names = ("tm_year", "tm_mon", "tm_mday", "tm_hour", "tm_min", "tm_sec")
    year, month, *rest = (int(date[name]) for name in names)
    return float(calendar.timegm((year + 1900, month + 1, *rest)))


class Vitals:
    """What was seen of one guest's CPUs, look by look. Times are seconds of one clock; `next`: of the next look."""

    def __init__(self, *, virtual: bool) -> None:
        self.next = 0.0
        self._usual = LOOK_VIRTUAL_S if virtual else LOOK_WALL_S
        self._halted = 0
        self._deaf_since: float | None = None

    @staticmethod
    def silent(cpus: Sequence[Cpu]) -> bool:
        """Whether no timer can wake this guest."""
        return bool(cpus) and all(cpu.halted and not cpu.interrupts for cpu in cpus)

    def look(self, cpus: Sequence[Cpu], now: float, spent: float) -> str:
        """Take in one look; what is wrong with the guest, in words behind `the guest`, or nothing.

        `spent`: CPU time of its QEMU, in seconds.
        """
        self.next = now + self._usual
        if not cpus or any(cpu.interrupts for cpu in cpus):
            self._halted, self._deaf_since = 0, None
            return ""
        self._halted = self._halted + 1 if self.silent(cpus) else 0
        if self._halted >= LOOKS_AT_HALTED:
            return HALTED
        self._deaf_since = spent if self._deaf_since is None else self._deaf_since
        deaf_s = spent - self._deaf_since
        if deaf_s > DEAF_S:
            self.next = now + LOOK_CLOSELY_S
        return f"hung: its interrupts were off for {deaf_s:.0f} s" if deaf_s > 2 * DEAF_S else ""
