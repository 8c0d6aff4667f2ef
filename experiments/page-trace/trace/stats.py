# SPDX-License-Identifier: MIT
"""What the launcher says of a trace: one line of JSON, the kernel's counters and its own."""

from __future__ import annotations

from typing import Annotated

from harness.measure.raw import Answer
from harness.yamlfile import about


class TraceStats(Answer):
    """Counters of struct page_trace_stats, then the launcher's.

    `exit_status` is the command's as a shell has it, None of a process that was there before; `written` whether the
    trace could be written to its end; `left_out` visits that it had no room for; `bytes` its size with the header;
    `user_ns` and `system_ns` the command's; `exact` what the launcher holds: window 1, and nothing lost, given up, left
    out or cut off, and no gather.
    """

    faults: Annotated[int, about("page faults on the second page table")]
    records: Annotated[int, about("visits that the kernel recorded, by its own count")]
    lost: Annotated[int, about("visits for which the ring had no room")]
    code: Annotated[int, about("faults that made a page of code accessible")]
    slow: Annotated[int, about("faults that the kernel's own handler had to serve first")]
    upgrades: Annotated[int, about("faults of a write to a page that was mapped read-only")]
    spurious: Annotated[int, about("faults of a page that was mapped by then")]
    steps: Annotated[int, about("instructions that were stepped over with several pages mapped")]
    kept: Annotated[int, about("pages that were kept because a step went on")]
    drops: Annotated[int, about("times that the kernel's flushes emptied the second page table")]
    recycled: Annotated[int, about("pages of the second page table that were used again")]
    tasks: int
    live: int
    unfit: Annotated[int, about("tasks whose data the kernel could not see: it lay on pages that can be executed")]
    other_lost: int
    window: Annotated[int, about("data pages that were mapped at once")]
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
    left_out: int
    gathers: Annotated[int, about("visits of gathers and scatters, which are not seen whole")] = 0
    written: bool
    exact: bool

    @property
    def unaccounted(self) -> int:
        """Faults less the sum of their kinds: 0 when each fault was counted once."""
        kinds = self.records + self.lost + self.code + self.slow + self.upgrades + self.spurious
        return self.faults - kinds
