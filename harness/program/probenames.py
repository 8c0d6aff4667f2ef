# SPDX-License-Identifier: MIT
"""Names of bpftrace's probes. Standard library only."""

from __future__ import annotations

from fnmatch import fnmatchcase

#: Other forms of kinds: short ones, and those of newer versions.
SHORT = {
    "f": "kfunc", "fr": "kretfunc", "h": "hardware", "i": "interval", "k": "kprobe", "kr": "kretprobe", "p": "profile",
    "rt": "rawtracepoint", "s": "software", "t": "tracepoint", "u": "uprobe", "ur": "uretprobe", "U": "usdt",
    "fentry": "kfunc", "fexit": "kretfunc",
}  # fmt: skip
#: Trace points whose firings perf's counters count as so many nanoseconds each (`__perf_count`).
_TIMES = [f"sched:sched_stat_{what}" for what in ("wait", "sleep", "iowait", "blocked", "runtime")]


def split_probe(probe: str) -> tuple[str, str]:
    """The kind of a probe in its long form, and the rest of its name."""
    kind, _, rest = probe.partition(":")
    return SHORT.get(kind, kind), rest


def counts_time(trace_points: str) -> str | None:
    """Why perf cannot count the firings of these trace points, or pattern of some; None if it can."""
    found = next((name for name in _TIMES if fnmatchcase(name, trace_points)), None)
    return found and f"at {found} perf counts nanoseconds, and no firings"
