# SPDX-License-Identifier: MIT
"""What the kernel counted while it traced (`status.json`), and whether its sums hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import Field

from harness.errors import RunError
from harness.measure.raw import Answer, read_answer
from harness.yamlfile import about

from .events import (
    CONTENDED,
    KINDS,
    PAPER,
    PER_LOCK,
    STREAM_LOG,
    STREAM_PAPER,
    STREAM_PER_LOCK,
    STREAMS,
    VALIDATE,
    Events,
)

_Cycles = TypeVar("_Cycles", float, "pd.Series[Any]", npt.NDArray[np.float64])


class LockTraceStatus(Answer):
    """struct lock_trace_status after the end: events are hook calls, times TSC cycles; sums over all CPUs. Lists of
    three are by stream. An arm other than VALIDATE has one stream only.
    """

    arm: int = Field(ge=1, le=CONTENDED)
    start: int
    stop: int
    tsc_khz: int = Field(gt=0)
    events: Annotated[int, about("calls of the hooks")]
    kinds: list[int]
    kept: tuple[int, int, int]
    dropped: tuple[int, int, int]
    written: tuple[int, int, int]
    lost: tuple[int, int, int]
    first_loss: int
    untracked: Annotated[int, about("events of locks that found no place in the table of locks")]
    nested: Annotated[int, about("hooks that ran within a hook")]
    waiting: Annotated[int, about("threads that still waited when the trace ended")]
    locks: Annotated[int, about("locks in the kernel's table")]
    sites: Annotated[int, about("locks, types and call sites in the kernel's table")]
    sites_full: Annotated[int, about("acquisitions whose call site found no place")]
    holds_full: Annotated[int, about("readers that found no place")]
    pool_peak: Annotated[int, about("most events that lay in the paper's shared buffer")]
    pool_full: Annotated[int, about("blocks that found no place in the paper's shared buffer")]
    ring_order: int = Field(default=0, ge=0, le=40)
    cpus: Annotated[int, about("CPUs that had a ring"), Field(ge=1, le=4096)] = 1
    wait_status: int = Field(default=0, ge=0, le=0xFFFF)
    late: Annotated[bool, about("the hooks were switched on when the trace began, and not at the boot")] = False

    @property
    def seconds(self) -> float:
        """From start to stop."""
        return (self.stop - self.start) / (1000 * self.tsc_khz)

    @property
    def stream(self) -> int:
        """The stream that the arm's own figures are about: of VALIDATE the per-lock filter."""
        filters = {PAPER: STREAM_PAPER} | dict.fromkeys((PER_LOCK, VALIDATE, CONTENDED), STREAM_PER_LOCK)
        return filters.get(self.arm, STREAM_LOG)

    @property
    def useful(self) -> float:
        """Share of the events that were kept; NaN without events."""
        return self.kept[self.stream] / self.events if self.events else float("nan")

    def decided(self, stream: int) -> int:
        """Of how many events a stream says what became of them: all."""
        untracked = 0 if stream == STREAM_LOG else self.untracked
        return self.kept[stream] + self.dropped[stream] + untracked

    def nanoseconds(self, cycles: _Cycles) -> _Cycles:
        """Cycles as ns."""
        return cycles * 1e6 / self.tsc_khz


def read_status(path: Path) -> LockTraceStatus:
    """RunError when the file is absent or is no status."""
    return read_answer(path, LockTraceStatus)


def accounting(status: LockTraceStatus, events: Events) -> pd.DataFrame:
    """Every sum that must hold, a row each: check object, balance bool (what became of the events), left int64, right
    int64, difference int64 (0 where it holds).

    `events`: all events of the file, of every stream.
    """
    in_file = np.bincount(events["stream"], minlength=len(STREAMS)).tolist()
    rows = [
        ("kinds = events", False, sum(status.kinds[1 : len(KINDS)]), status.events),
        ("kinds known", False, sum(status.kinds), sum(status.kinds[1 : len(KINDS)])),
        ("hooks within hooks", False, status.nested, 0),
    ]
    streams = range(len(STREAMS)) if status.arm == VALIDATE else [status.stream]
    for stream in streams:
        name = STREAMS[stream]
        kept = status.kept[stream]
        rows += [
            (f"{name}: kept + dropped + untracked = events", True, status.decided(stream), status.events),
            (f"{name}: kept = written + lost", True, kept, status.written[stream] + status.lost[stream]),
        ]
    # What an arm has no stream for must be 0.
    rows += [(f"{name}: written = in the file", True, status.written[i], in_file[i]) for i, name in enumerate(STREAMS)]
    table = pd.DataFrame(rows, columns=["check", "balance", "left", "right"])
    try:
        table = table.astype({"left": "int64", "right": "int64"})
    except OverflowError as error:
        raise RunError("status.json: a sum of its counts has more than 64 bits") from error
    return table.assign(difference=table["left"] - table["right"])


def log_loss(status: LockTraceStatus) -> int:
    """Events that the full log lacks; of arms that filter, all of them."""
    return status.events - status.written[STREAM_LOG]
