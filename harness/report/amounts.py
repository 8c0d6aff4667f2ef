# SPDX-License-Identifier: MIT
"""Bytes and times as people read them, in a few letters."""

from __future__ import annotations


def size(count: float) -> str:
    """Bytes, with three digits at most before the unit."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def age(seconds: float) -> str:
    """For how long something lies, in its largest unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return "now"
