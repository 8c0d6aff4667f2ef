# SPDX-License-Identifier: MIT
"""What the launcher says of a trace: one line of JSON, the kernel's counters and its own."""

from __future__ import annotations

from harness.measure.raw import Answer


class TraceStats(Answer):
    """Counters of struct page_trace_stats, then the launcher's; numbers of page faults unless said otherwise.

    `exit_status` is the command's as a shell has it, None of a process that was there before; `written` whether the
    trace could be written to its end; `left_out` visits that it had no room for; `bytes` its size with the header;
    `user_ns` and `system_ns` the command's; `exact` what the launcher holds: window 1, and nothing lost, given up, left
    out or cut off.
    """

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
    left_out: int
    written: bool
    exact: bool

    @property
    def unaccounted(self) -> int:
        """Faults less the sum of their kinds: 0 when each fault was counted once."""
        kinds = self.records + self.lost + self.code + self.slow + self.upgrades + self.spurious
        return self.faults - kinds
