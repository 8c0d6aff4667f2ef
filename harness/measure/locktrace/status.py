"""What the kernel counted while it traced (`status.json`), and whether its sums hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import RunError
from harness.measure.locktrace.events import (
    KINDS,
    STREAM_LOG,
    STREAM_PAPER,
    STREAM_PER_LOCK,
    VALIDATE,
    Events,
)


class LockTraceStatus(BaseModel):
    """struct lock_trace_status after the end: events are hook calls, times TSC cycles; sums over all CPUs."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    arm: int = Field(ge=1, le=VALIDATE)
    running: int = 0
    start: int
    stop: int
    tsc_khz: int = Field(gt=0)
    events: int
    kept: int
    dropped: int
    written: int
    lost: int
    untracked: int = 0
    nested: int = 0
    first_loss: int = 0
    log_events: int = 0
    paper_kept: int = 0
    paper_dropped: int = 0
    paper_lost: int = 0
    pool_peak: int = 0
    pool_full: int = 0
    locks: int = 0
    sites: int = 0
    sites_full: int = 0
    kinds: list[int]

    @property
    def seconds(self) -> float:
        """From start to stop."""
        return (self.stop - self.start) / (1000 * self.tsc_khz)

    @property
    def useful(self) -> float:
        """Share of the events that were kept; NaN without events."""
        return self.kept / self.events if self.events else float("nan")

    def nanoseconds(self, cycles: float) -> float:
        """Cycles as ns."""
        return cycles * 1e6 / self.tsc_khz


def read_status(path: Path) -> LockTraceStatus:
    """RunError when the file is absent or is no status."""
    try:
        return LockTraceStatus.model_validate_json(path.read_bytes())
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise RunError(f"is no lock trace's status: {field}: {first['msg']}", where=str(path)) from error


def accounting(status: LockTraceStatus, events: Events) -> pd.DataFrame:
    """Every sum that must hold, a row each: check object, left int64, right int64, difference int64 (0 where it holds).

    `events`: all events of the file, of every stream.
    """
    in_file = np.bincount(events["stream"], minlength=STREAM_PAPER + 1).tolist()
    rows = [
        ("kept + dropped = events", status.kept + status.dropped, status.events),
        ("kept = written + lost", status.kept, status.written + status.lost),
        ("kinds = events", sum(status.kinds), status.events),
        ("kinds known", sum(status.kinds[1 : len(KINDS)]), sum(status.kinds)),
        ("hooks inside hooks", status.nested, 0),
    ]
    if status.arm == VALIDATE:
        rows += [
            ("written = per-lock events in the file", status.written, in_file[STREAM_PER_LOCK]),
            ("log = events", status.log_events, status.events),
            ("paper: kept + dropped = events", status.paper_kept + status.paper_dropped, status.events),
            (
                "paper: kept = lost + events in the file",
                status.paper_kept,
                status.paper_lost + int(in_file[STREAM_PAPER]),
            ),
        ]
    else:
        rows.append(("written = events in the file", status.written, sum(in_file)))
    table = pd.DataFrame(rows, columns=["check", "left", "right"]).astype({"left": "int64", "right": "int64"})
    return table.assign(difference=table["left"] - table["right"])


def log_loss(status: LockTraceStatus, events: Events) -> int:
    """Events that the full log lacks: of VALIDATE its own stream, else what was lost of an arm that keeps all."""
    if status.arm == VALIDATE:
        return status.log_events - int((events["stream"] == STREAM_LOG).sum())
    return status.events - len(events)
