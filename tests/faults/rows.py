# SPDX-License-Identifier: MIT
"""What a test of a fault says of itself, for docs/reliability.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., object])


@dataclass(frozen=True)
class Row:
    """One fault: what it is, what comes of it, within how long (seconds; None: no deadline of its own)."""

    what: str
    then: str
    most_s: float | None = None


def fault(what: str, then: str, most_s: float | None = None) -> Callable[[Test], Test]:
    """Mark a test as that of a fault; several marks are several rows."""

    def mark(test: Test) -> Test:
        test.__dict__.setdefault("rows", []).insert(0, Row(what, then, most_s))
        return test

    return mark
