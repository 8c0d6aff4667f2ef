# SPDX-License-Identifier: MIT
"""Names of bpftrace's probes. Standard library only."""

from __future__ import annotations

#: Short forms of kinds.
SHORT = {
    "f": "kfunc", "fr": "kretfunc", "h": "hardware", "i": "interval", "k": "kprobe", "kr": "kretprobe", "p": "profile",
    "rt": "rawtracepoint", "s": "software", "t": "tracepoint", "u": "uprobe", "ur": "uretprobe", "U": "usdt",
}  # fmt: skip


def split_probe(probe: str) -> tuple[str, str]:
    """The kind of a probe in its long form, and the rest of its name."""
    kind, _, rest = probe.partition(":")
    return SHORT.get(kind, kind), rest
