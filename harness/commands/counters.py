# SPDX-License-Identifier: MIT
"""`counters`: what a user's own program counts, by thread and phase, read from the neighbouring CPU of its guest."""

from __future__ import annotations

from harness.cli.declaration import command
from harness.commands.programs import TracedOptions


@command("Your own work", guests=True)
def counters(options: TracedOptions) -> int:
    """Watch a program's counters in a guest from the neighbouring CPU."""
    return options.trace("counters")
