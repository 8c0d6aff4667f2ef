# SPDX-License-Identifier: MIT
"""`trace`: a user's own program in a guest, under an experiment's tracer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness import settings
from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.commands.traceoptions import Exec, ExitCode, In, Kernel, Memory, Timeout, To, Whose


@command("Your own work", guests=True)
def trace(
    exec: Exec = None,
    experiment: Whose = None,
    kernel: Kernel = None,
    window: Annotated[
        int | None,
        Option("pages that stay accessible: more is faster, and misses visits", least=1, none="1, all visits"),
    ] = None,
    in_: In = None,
    out: Annotated[
        Path | None, Option("new folder for the report", writes="folder", none="`PROGRAM.trace`, in this folder")
    ] = None,
    memory: Memory = None,
    timeout: Timeout = 600,
    to: To = None,
    exit_code: ExitCode = False,
) -> int:
    """Trace a program's memory in a guest and write a page about it."""
    from harness.artefacts.store import Store
    from harness.program.subject import MOST_MIB, TraceRequest
    from harness.program.tracing import trace_program

    most_mib = settings.number(settings.OUTPUT_MIB) or MOST_MIB

    request = TraceRequest(
        traces="pages",
        program=exec,
        experiment=experiment,
        kernel=kernel,
        params={"window": window, "most_bytes": most_mib << 20},
        needs=in_ or (),
        out=out,
        memory=memory,
        most_mib=most_mib,
        timeout=timeout,
        to=to,
        exit_code=exit_code,
    )
    return trace_program(Store.default(), request, terminal.output())
