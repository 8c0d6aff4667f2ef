# SPDX-License-Identifier: MIT
"""What came of a thing that was tried, in one vocabulary: a trial, a check, an arm of the self-test, a host's part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from harness.errors import exit_code

#: `ok`: as it should be. `news`: a verdict other than the known one. `failed`: it broke, or is needed and not there.
#: `absent`: this host or this run cannot have it, and nothing is wrong. `untried`: it had no turn.
Status = Literal["ok", "news", "failed", "absent", "untried"]
#: A trial has only these: its data may be used, or may not.
TrialStatus = Literal["ok", "failed"]
STATUSES: tuple[Status, ...] = get_args(Status)
STYLES: dict[Status, str] = {
    "ok": "green",
    "news": "bold red",
    "failed": "bold red",
    "absent": "yellow",
    "untried": "bold yellow",
}


def exit_code_of(statuses: Iterable[Status]) -> int:
    """How a command ends that tried these: 3 when one failed, else 1 when one is news, else 0."""
    seen = set(statuses)
    return exit_code(failed="failed" in seen, news="news" in seen)
