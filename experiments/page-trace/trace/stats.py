"""What the launcher says of a trace: one line of JSON, the kernel's counters and its own."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.errors import RunError


class TraceStats(BaseModel):
    """Counters of struct page_trace_stats, then the launcher's; numbers of page faults unless said otherwise.

    `exit_status` is the command's as a shell has it, None of a process that was there before; `written` whether the
    trace could be written to its end; `bytes` its size with the header; `user_ns` and `system_ns` the command's;
    `exact` what the launcher holds: window 1, and nothing lost, given up or cut off.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    faults: int
    records: int
    lost: int
    code: int
    slow: int
    upgrades: int
    spurious: int
    steps: int
    kept: int
    drops: int
    recycled: int
    tasks: int
    live: int
    unfit: int
    other_lost: int
    window: int
    follow: bool
    pid: int
    exit_status: int | None
    elapsed_ns: int
    user_ns: int
    system_ns: int
    start_ioctl_ns: int
    ring_records: int
    drains: int
    bytes: int
    written: bool
    exact: bool

    @property
    def unaccounted(self) -> int:
        """Faults less the sum of their kinds: 0 when each fault was counted once."""
        kinds = self.records + self.lost + self.code + self.slow + self.upgrades + self.spurious
        return self.faults - kinds


def read_stats(path: Path) -> TraceStats:
    """RunError when the file is absent or is no such line."""
    try:
        return TraceStats.model_validate_json(path.read_bytes())
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise RunError(
            f"not a page trace's statistics: {field}{': ' if field else ''}{first['msg']}", where=str(path)
        ) from error
