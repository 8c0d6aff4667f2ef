# SPDX-License-Identifier: MIT
"""`trace`: a user's own program in a guest, under an experiment's tracer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from harness import settings
from harness.cli.declaration import Option, command
from harness.commands.programs import TracedOptions


@dataclass(frozen=True, kw_only=True)
class TraceOptions(TracedOptions):
    """What `trace` takes."""

    window: Annotated[
        int | None,
        Option("pages that stay accessible: more is faster, and misses visits", least=1, none="1, all visits"),
    ] = None


@command("Your own work", guests=True)
def trace(options: TraceOptions) -> int:
    """Trace a program's memory in a guest and write a page about it."""
    from harness.program.subject import MOST_MIB

    most_mib = settings.number(settings.OUTPUT_MIB) or MOST_MIB
    return options.trace("pages", params={"window": options.window, "most_bytes": most_mib << 20}, most_mib=most_mib)
