# SPDX-License-Identifier: MIT
"""`trace`: a user's own program in a guest, under an experiment's tracer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness import settings
from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.commands.traceoptions import CopyIn, Exec, Kernel, Memory, Package, Timeout, Whose, With


@command("Your own work", guests=True)
def trace(
    exec: Exec = None,
    experiment: Whose = None,
    kernel: Kernel = None,
    window: Annotated[
        int | None,
        Option("pages that stay accessible: more is faster, and misses visits", least=1, none="1, all visits"),
    ] = None,
    follow: Annotated[bool, Option("trace the processes that the program starts, too")] = False,
    package: Package = None,
    copy_in: CopyIn = None,
    with_: With = None,
    out: Annotated[
        Path | None, Option("new folder for the report", writes="folder", none="`PROGRAM.trace`, in this folder")
    ] = None,
    memory: Memory = None,
    timeout: Timeout = 600,
) -> int:
    """Trace a program's memory in a guest and write a page about it."""
    from harness.artefacts.store import Store
    from harness.program.tracing import MOST_MIB, TraceRequest, trace_program

    most_mib = settings.number(settings.OUTPUT_MIB) or MOST_MIB

    request = TraceRequest(
        traces="pages",
        program=exec,
        experiment=experiment,
        kernel=kernel,
        params={"window": window, "follow": follow or None, "most_bytes": most_mib << 20},
        packages=package or (),
        copy_in=copy_in or (),
        others=with_ or (),
        out=out,
        memory=memory,
        most_mib=most_mib,
        timeout=timeout,
    )
    return trace_program(Store.default(), request, terminal.output())
