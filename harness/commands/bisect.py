# SPDX-License-Identifier: MIT
"""`bisect`: the commit from which on a program costs another number of instructions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.commands.traceoptions import Exec, Executor, In, Memory, Timeout, To


@command("Your own work", guests=True)
def bisect(
    good: Annotated[str, Option("a commit before the change", word=True)],
    bad: Annotated[str, Option("a commit with it", word=True)],
    exec: Exec = None,
    kernel: Annotated[
        str | None,
        Option(
            "a kernel's source tree with git: its commits are tried; or where those of the program in this folder run",
            path=True,
            none="`debian:6.12`",
        ),
    ] = None,
    with_: Annotated[
        str | None,
        Option("how the program is built in a checkout, as shell text", none="`make` where there is a Makefile"),
    ] = None,
    repetitions: Annotated[int, Option("runs of each commit, each with a seed of its own", least=1)] = 3,
    executor: Executor = None,
    in_: In = None,
    out: Annotated[
        Path | None, Option("new folder for the report", writes="folder", none="`PROGRAM.bisect`, in this folder")
    ] = None,
    memory: Memory = None,
    timeout: Timeout = 600,
    to: To = None,
) -> int:
    """Find the commit that made a program dearer or cheaper, exactly."""
    from harness.artefacts.store import Store
    from harness.program.bisection import Range, bisect_commits
    from harness.program.subject import TraceRequest

    request = TraceRequest(
        traces="functions",
        program=exec,
        kernel=kernel,
        needs=in_ or (),
        out=out,
        memory=memory,
        timeout=timeout,
        to=to,
        executor=executor,
    )
    return bisect_commits(Store.default(), Range(good, bad, with_, repetitions), request, terminal.output())
