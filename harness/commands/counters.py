# SPDX-License-Identifier: MIT
"""`counters`: what a user's own program counts, by thread and phase, read from the neighbouring CPU of its guest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.commands.traceoptions import Exec, ExitCode, In, Kernel, Memory, Timeout, To, Whose


@command("Your own work", guests=True)
def counters(
    exec: Exec = None,
    experiment: Whose = None,
    kernel: Kernel = None,
    in_: In = None,
    out: Annotated[
        Path | None, Option("new folder for the report", writes="folder", none="`PROGRAM.counters`, in this folder")
    ] = None,
    memory: Memory = None,
    timeout: Timeout = 600,
    to: To = None,
    exit_code: ExitCode = False,
) -> int:
    """Watch a program's counters in a guest from the neighbouring CPU."""
    from harness.artefacts.store import Store
    from harness.program.subject import TraceRequest
    from harness.program.tracing import trace_program

    request = TraceRequest(
        traces="counters",
        program=exec,
        experiment=experiment,
        kernel=kernel,
        needs=in_ or (),
        out=out,
        memory=memory,
        timeout=timeout,
        to=to,
        exit_code=exit_code,
    )
    return trace_program(Store.default(), request, terminal.output())
