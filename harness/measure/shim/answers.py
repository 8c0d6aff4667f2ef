"""What the programs say of themselves: JSON and CSV files beside the binary ones.

Fields that a later version adds are ignored; one that is missing or of another type is an error that names it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from harness.errors import RunError

Answer = TypeVar("Answer", bound="Said")


class Said(BaseModel):
    """Base of what a program of the guest says."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class ClockPair(Said):
    """One moment on two clocks: `tsc` in cycles, `mono_ns` of CLOCK_MONOTONIC."""

    tsc: int
    mono_ns: int


class Signal(Said):
    """A counter: known_expected and known_counted are instructions of the known loop, None where it was not run."""

    name: str
    source: str
    scope: str | None = None
    known_expected: int | None = None
    known_counted: int | None = None
    known_error: float | None = None
    reason: str | None = None


class Observed(Said):
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
        """Column of a signal in samples.bin, or None."""
        names = [signal.name for signal in self.signals]
        return names.index(name) if name in names else None

    def why_not(self, name: str) -> str:
        """Why a counter is not among the signals."""
        reasons = [f"{counter.source}: {counter.reason}" for counter in self.refused if counter.name == name]
        return f"no counter of {name}: " + ("; ".join(reasons) or "none was asked for")


class Traced(Said):
    """truth.json: the kernel's own trace; numbers of events."""

    clock: str
    cpu: int
    events: int
    overrun: int
    dropped: int


class TimerSampled(Said):
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


class Thread(Said):
    tid: int


class Load(Said):
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

    @property
    def seconds(self) -> float:
        """Between the clock pairs."""
        return (self.clock_end.mono_ns - self.clock_begin.mono_ns) / 1e9


class Ids(Said):
    pid: int
    tgid: int | None = None


class Idle(Ids):
    """`seen`: of so many reads of an idle CPU's slot, how many had these ids."""

    seen: int
    of: int


class Rights(Said):
    """rights.json: what the map allows, and what it shows of idle and offline CPUs."""

    open_write: str
    open_read_write: str
    map_write: str
    map_private_write: str
    mprotect: str
    idle: Idle
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


def read_answer(path: Path, kind: type[Answer]) -> Answer:
    """RunError when the file is absent or is no such JSON."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise RunError(
            f"is not what it should be: {field}{': ' if field else ''}{first['msg']}", where=str(path)
        ) from (error)


def read_csv(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """A table whose columns begin with these. RunError when it is absent, has others, or an entry is no number."""
    try:
        table = pd.read_csv(path)
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise RunError(f"is no table: {error}", where=str(path)) from error
    if tuple(table.columns[: len(columns)]) != columns:
        raise RunError(f"has columns {', '.join(table.columns)}, not {', '.join(columns)}", where=str(path))
    for name in columns:
        bad = pd.to_numeric(table[name], errors="coerce").isna()
        if bad.any():
            line = int(np.flatnonzero(bad)[0]) + 2
            raise RunError(f"{name} is no number: {table[name].iloc[line - 2]}", where=f"{path}, line {line}")
    return table


def read_names(path: Path) -> dict[int, str]:
    """comms.csv: names of threads by pid; 0 is idle. Empty when there is no such file."""
    names = {0: "idle"}
    if path.is_file():
        table = pd.read_csv(path, keep_default_na=False)
        names |= {int(pid): str(comm) for pid, comm in zip(table["pid"], table["comm"], strict=True)}
        names[0] = "idle"
    return names
