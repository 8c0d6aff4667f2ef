# SPDX-License-Identifier: MIT
"""What the programs say of themselves: JSON and CSV files beside the binary ones."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Annotated

import pandas as pd
from pydantic import model_validator

from harness.errors import RunError
from harness.measure.raw import Answer, read_text
from harness.yamlfile import about


class ClockPair(Answer):
    """One moment on two clocks: `tsc` in cycles, `mono_ns` of CLOCK_MONOTONIC."""

    tsc: int
    mono_ns: int


#: Scope of an event that the kernel counts for the thread that opened it: the observer, not its target.
OBSERVER_SCOPE = "observer"
#: What programs print is rounded, by no more than this.
ROUNDED = 1e-3


class Signal(Answer):
    """A counter, and what it said of the loop of known length."""

    name: Annotated[str, about("what it counts")]
    source: Annotated[
        str, about("slot: the PMU, as published; pmu: by the observer; oracle: the oracle's page; memory: a word of it")
    ]
    scope: Annotated[str | None, about("cpu: of the observed CPU; observer: of the observer's own thread; memory")] = (
        None
    )
    known_expected: Annotated[
        int | None,
        about("of the loop of known length; NaN: it was not run, or the event was on no counter", "instructions"),
    ] = None
    known_counted: Annotated[int | None, about("counted over that loop; NaN: it was not run", "instructions")] = None
    known_error: Annotated[float | None, about("counted over expected, less 1; NaN: it was not run", "1")] = None
    reason: Annotated[str | None, about("why it is not used; null: it is")] = None

    @model_validator(mode="after")
    def _adds_up(self) -> Signal:
        if self.known_expected and self.known_counted is not None and self.known_error is not None:
            error = self.known_counted / self.known_expected - 1
            if not math.isclose(error, self.known_error, rel_tol=ROUNDED, abs_tol=ROUNDED):
                raise ValueError(f"known_error is {self.known_error:g}, and its counts say {error:g}")
        return self

    @property
    def refusal(self) -> str | None:
        """Why its counts are not used, by the program or by us; None: they are."""
        if self.reason:
            return self.reason
        own = "counts the observer's own thread, not the observed CPU"
        return own if self.scope == OBSERVER_SCOPE else None


class Observed(Answer):
    """shim.json: one run of the observer.

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
    tsc_hz: Annotated[float, about("the rate of the time-stamp counter", "Hz")]
    seconds: Annotated[float, about("how long it ran", "s")]
    samples: Annotated[int, about("samples taken")]
    windows: Annotated[int, about("windows judged")]
    trusted: Annotated[int, about("windows trusted")]
    untrusted: int
    zero: Annotated[int, about("windows whose begin clocks are equal")]
    switches_seen: Annotated[int, about("switches that the observer saw")]
    switches_missed: Annotated[int, about("switches that it did not see, by the slot's count")]
    switches_slot: Annotated[int, about("switches that the slot counted meanwhile")]
    torn: Annotated[int, about("readings of the slot that never were at rest")]
    injected: Annotated[int, about("delays put into samples")]
    injected_windows: Annotated[
        int, about("windows with a delay of more than twice what the bounds allow, by the program")
    ]
    injected_trusted: Annotated[int, about("of these, windows that the program trusted")]
    injected_long: int = 0
    samples_written: int
    samples_lost: Annotated[int, about("samples that found no room in the ring")]
    samples_skipped: int = 0
    switches_written: int
    switches_lost: Annotated[int, about("switches that it saw and that found no room in the ring")]
    switches_skipped: int = 0
    ppid: Annotated[str | None, about("how the slot is published: callback or tracepoint; null: there is none")]
    ppid_reason: Annotated[str | None, about("why there is no slot; null: there is one")] = None
    host_readings: int = 0
    host_lost: int = 0
    host_reason: Annotated[
        str | None, about("why the observer was not told how the host ran the vCPUs; null: it was")
    ] = None
    signals: tuple[Signal, ...]
    refused: tuple[Signal, ...]

    @model_validator(mode="after")
    def _adds_up(self) -> Observed:
        if self.trusted + self.untrusted != self.windows:
            raise ValueError(f"{self.trusted} windows trusted and {self.untrusted} not, of {self.windows}")
        return self

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
    period_ns: Annotated[int, about("the period that was asked for", "ns")]
    samples: Annotated[int | None, about("samples; NaN: the sampler could not run")] = None
    lost: Annotated[int, about("samples that found no room")] = 0
    throttled: Annotated[int, about("how often the kernel held it back")] = 0
    seconds: Annotated[float, about("how long it ran", "s")] = 0.0
    samples_per_s: Annotated[float, about("samples in a second; 0: none", "count/s")] = 0.0
    tids: dict[str, int] = {}
    clock_begin: ClockPair | None = None
    clock_end: ClockPair | None = None
    reason: Annotated[str | None, about("why it could not run; null: it did")] = None

    @model_validator(mode="after")
    def _adds_up(self) -> TimerSampled:
        counted = (self.samples + self.lost) / self.seconds if self.samples and self.seconds else 0.0
        if not math.isclose(counted, self.samples_per_s, rel_tol=ROUNDED):
            raise ValueError(f"samples_per_s is {self.samples_per_s:g}, and its samples and seconds say {counted:g}")
        return self


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
