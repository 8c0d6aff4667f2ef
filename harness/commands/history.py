# SPDX-License-Identifier: MIT
"""`history`: the exact cost of a user's own program over several kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.commands.traceoptions import Exec, Executor, In, Memory, Timeout, To


@command("Your own work", guests=True)
def history(
    kernel: Annotated[
        tuple[str, ...],
        Option(
            "Debian's own, in order, comma-separated: `debian:6.1.*` is every build of 6.1; or those of `profile`",
            word=True,
            path=True,
            least=1,
        ),
    ],
    exec: Exec = None,
    executor: Executor = None,
    in_: In = None,
    out: Annotated[
        Path | None, Option("new folder for the report", writes="folder", none="`PROGRAM.history`, in this folder")
    ] = None,
    memory: Memory = None,
    timeout: Timeout = 600,
    to: To = None,
) -> int:
    """Tell what a program costs on each of several kernels, exactly."""
    from harness.artefacts.store import Store
    from harness.program import history as over
    from harness.program.subject import TraceRequest

    request = TraceRequest(
        traces="functions",
        program=exec,
        needs=in_ or (),
        out=out,
        memory=memory,
        timeout=timeout,
        to=to,
        executor=executor,
    )
    return over.history(Store.default(), kernel, request, terminal.output())
