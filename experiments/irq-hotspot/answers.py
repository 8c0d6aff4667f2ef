# SPDX-License-Identifier: MIT
"""What programs and the kernel say of one workload: the files `bracket` and the load's own answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import ValidationError

from harness.measure.raw import Answer, misfit, read_text
from harness.yamlfile import about


class Bracket(Answer):
    """The file `bracket`; docs/file-formats.md, "Profile buffer". A kernel without a tally has an empty one."""

    begin_exact: bool
    begin_retries: int
    begin_tick_slack: int
    begin_entry_slack: str
    begin_ns: int
    begin_stats: str
    begin_nmi_stats: str
    end_exact: bool
    end_retries: int
    end_tick_slack: int
    end_entry_slack: str
    end_ns: int
    end_stats: str
    end_nmi_stats: str

    @property
    def entry_slack(self) -> dict[str, int]:
        """Handler entries that may or may not be in the buffer, by irq."""
        slack: dict[str, int] = {}
        for item in f"{self.begin_entry_slack} {self.end_entry_slack}".split():
            irq, _, uncertain = item.partition(":")
            slack[irq] = slack.get(irq, 0) + int(uncertain)
        return slack

    def row(self) -> dict[str, Any]:
        """Of the table `brackets`."""
        return {
            "exact": self.begin_exact and self.end_exact,
            "tick_slack": self.begin_tick_slack + self.end_tick_slack,
            "retries": self.begin_retries + self.end_retries,
            "window_s": (self.end_ns - self.begin_ns) / 1e9,
            "counted_entries": _growth(self.begin_stats, self.end_stats, 0),
            "counted_interrupted": _growth(self.begin_stats, self.end_stats, 1),
            "counted_clamped": _growth(self.begin_stats, self.end_stats, 2),
            "nmis": sum(_growth(self.begin_nmi_stats, self.end_nmi_stats, index) for index in (0, 2, 3)),
        }


class Load(Answer):
    """What irqload prints; a load has the fields that it has an answer for."""

    raised_user: int | None = None
    raised_kernel: Annotated[int | None, about("interrupts of the edu device that it raised in kernel mode")] = None
    handled: Annotated[int | None, about("interrupts that the edu driver's handler counted")] = None
    calibration_raises: Annotated[
        int | None, about("of the raised, those before the load, which time a handler; half have no loops")
    ] = None
    handler_loops: Annotated[int | None, about("loops that one handler run executes")] = None
    handler_ns: Annotated[
        float | None, about("one handler run less its surroundings, measured in the guest: the shortest of 8", "ns")
    ] = None
    loop_ns: Annotated[float | None, about("one loop of the same work in task context", "ns")] = None
    elapsed_ns: Annotated[int, about("the load's time", "ns")]
    reads: Annotated[int | None, about("blocks read from the disk")] = None
    bytes: Annotated[int | None, about("bytes read or received", "B")] = None

    def row(self) -> dict[str, Any]:
        """Of the table `answers`."""
        both = None not in (self.raised_user, self.raised_kernel)
        raised = (self.raised_user or 0) + (self.raised_kernel or 0) if both else None
        return self.as_columns() | {"raised": raised}


def read_bracket(path: Path) -> Bracket:
    """RunError when a line is missing or is not what it should be."""
    pairs = dict(line.split("=", 1) for line in read_text(path).splitlines() if "=" in line)
    try:
        return Bracket.model_validate(pairs)
    except ValidationError as error:
        raise misfit(error, str(path)) from error


def _growth(before: str, after: str, index: int) -> float:
    """Growth of one of the kernel's own tallies between the brackets; NaN on a kernel without them."""
    old, new = before.split(), after.split()
    return float(int(new[index]) - int(old[index])) if index < min(len(old), len(new)) else float("nan")
