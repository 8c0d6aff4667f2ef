# SPDX-License-Identifier: MIT
"""What the programs say of themselves: JSON and CSV files beside the binary ones."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd

from harness.errors import RunError
from harness.measure.raw import Answer, read_text


class ClockPair(Answer):
    """One moment on two clocks: `tsc` in cycles, `mono_ns` of CLOCK_MONOTONIC."""

    tsc: int
    mono_ns: int


#: Scope of an event that the kernel counts for the thread that opened it: the observer, not its target.
OBSERVER_SCOPE = "observer"


class Signal(Answer):
    """A counter: known_expected and known_counted are instructions of the known loop, None where it was not run."""

    name: str
    source: str
    scope: str | None = None
    known_expected: int | None = None
    known_counted: int | None = None
    known_error: float | None = None
    reason: str | None = None

    @property
    def refusal(self) -> str | None:
        """Why its counts are not used, by the program or by us; None: they are."""
        if self.reason:
            return self.reason
        own = "counts the observer's own thread, not the observed CPU"
        return own if self.scope == OBSERVER_SCOPE else None


class Observed(Answer):
    """shim.json: one run of the observer. Numbers of windows and switches; periods in cycles and ns.

    Of samples and switches: lost where the ring was full, skipped where no more were asked for. Of windows that touch a
    delay: injected_long are those that are long for so short a delay, and no part of the others.
    """

    observer_cpu: int
    cpu: int
    period_cycles: int
    period_ns: float
    bounds: tuple[str, str]
    clock_begin: ClockPair
    clock_end: ClockPair
    tsc_hz: float
    seconds: float
    samples: int
    windows: int
    trusted: int
    untrusted: int
    zero: int
    switches_seen: int
    switches_missed: int
    switches_slot: int
    torn: int
    injected: int
    injected_windows: int
    injected_trusted: int
    injected_long: int = 0
    samples_written: int
    samples_lost: int
    samples_skipped: int = 0
    switches_written: int
    switches_lost: int
    switches_skipped: int = 0
    ppid: str | None
    ppid_reason: str | None = None
    host_readings: int = 0
    host_lost: int = 0
    host_reason: str | None = None
    signals: tuple[Signal, ...]
    refused: tuple[Signal, ...]

    def signal(self, name: str) -> int | None:
        """Column in samples.bin of a signal that may be used, or None."""
        usable = (i for i, signal in enumerate(self.signals) if signal.name == name and signal.refusal is None)
        return next(usable, None)


class Traced(Answer):
    """truth.json: the kernel's own trace; numbers of events."""

    clock: str
    cpu: int
    events: int
    overrun: int
    dropped: int


class TimerSampled(Answer):
    """timer.json: the timer sampler; without samples only `reason` is said. `tids`: samples by thread."""

    cpu: int
    period_ns: int
    samples: int | None = None
    lost: int = 0
    throttled: int = 0
    seconds: float = 0.0
    samples_per_s: float = 0.0
    tids: dict[str, int] = {}
    clock_begin: ClockPair | None = None
    clock_end: ClockPair | None = None
    reason: str | None = None


class Thread(Answer):
    tid: int


class Load(Answer):
    """load.json: the target. `switches`, `checks` and `wrong` are of the loads that have them."""

    load: str
    cpu: int
    threads: tuple[Thread, ...] = ()
    clock_begin: ClockPair
    clock_end: ClockPair
    tsc_hz: float
    switches: int | None = None
    how: str | None = None
    checks: int | None = None
    wrong: int | None = None
    chunks: int | None = None

    @property
    def seconds(self) -> float:
        """Between the clock pairs."""
        return (self.clock_end.mono_ns - self.clock_begin.mono_ns) / 1e9


class Ids(Answer):
    pid: int
    tgid: int | None = None


class Idle(Ids):
    """`seen`: of so many reads of an idle CPU's slot, how many had these ids."""

    seen: int
    of: int


class Rights(Answer):
    """rights.json: what the map allows, and what it shows of idle and offline CPUs; no `idle` where there is no CPU."""

    open_write: str
    open_read_write: str
    map_write: str
    map_private_write: str
    mprotect: str
    idle: Idle | None = None
    offline: Ids | None = None
    offline_reason: str | None = None
    online_again: Ids | None = None
    unload_while_mapped: str | None = None
    after_off: Ids | None = None
    open_after_off: str | None = None
    own_before_off: bool | None = None
    own_after_on: bool | None = None

    @property
    def writers(self) -> dict[str, str]:
        """What each way to write through the map was answered."""
        names = ("open_write", "open_read_write", "map_write", "map_private_write", "mprotect")
        return {name: getattr(self, name) for name in names}


#: Names of threads where there is no trace: idle alone.
NO_NAMES = {0: "idle"}


def read_names(path: Path) -> dict[int, str]:
    """comms.csv: names of threads by pid; 0 is idle. RunError when it is no such table."""
    text = read_text(path)
    try:
        table = pd.read_csv(io.StringIO(text), keep_default_na=False)
        names = {int(pid): str(comm) for pid, comm in zip(table["pid"], table["comm"], strict=True)}
    except (ValueError, KeyError, OverflowError) as error:
        what = " ".join(str(error).split())
        raise RunError(f"is no table of pid and comm: {what}", where=str(path)) from error
    return names | NO_NAMES
