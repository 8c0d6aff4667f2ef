# SPDX-License-Identifier: MIT
"""`locks`: the kernel's locks while a user's own program runs in a guest, and who waited for whom."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.choices import MOST_CPUS
from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.commands.traceoptions import Exec, ExitCode, In, Kernel, Memory, Timeout, To, Whose

KEYS = ("lock", "type", "waiter", "holder", "thread")


@command("Your own work", guests=True)
def locks(
    exec: Exec = None,
    experiment: Whose = None,
    kernel: Kernel = None,
    cpus: Annotated[
        int | None, Option("CPUs of the guest; one has the virtual clock", least=1, most=MOST_CPUS, none="the tracer's")
    ] = None,
    filter: Annotated[
        tuple[str, ...] | None,
        Option(
            "only waits of these: `lock=GLOB`, `type=GLOB`, `waiter=GLOB`, `holder=GLOB`, `thread=GLOB`; all must fit",
            repeated=True,
        ),
    ] = None,
    verbose: Annotated[
        bool, Option("show meanwhile, each second of the guest, what was waited for since the second before")
    ] = False,
    module: Annotated[
        tuple[str, ...] | None,
        Option(
            "folders of kernel modules of yours, comma-separated: built for the guest's kernel, and loaded under the "
            "trace before the program",
            path=True,
            least=1,
        ),
    ] = None,
    in_: In = None,
    out: Annotated[
        Path | None, Option("new folder for the report", writes="folder", none="`PROGRAM.locks`, in this folder")
    ] = None,
    memory: Memory = None,
    timeout: Timeout = 600,
    to: To = None,
    exit_code: ExitCode = False,
) -> int:
    """Trace the kernel's locks while a program of yours runs."""
    from harness.artefacts.store import Store
    from harness.errors import UsageError
    from harness.program.subject import TraceRequest
    from harness.program.tracing import trace_program

    for text in filter or ():
        if text.partition("=")[0] not in KEYS or "=" not in text:
            raise UsageError(f"--filter {text}: must be KEY=GLOB", hint=f"KEY is one of {', '.join(KEYS)}")
    request = TraceRequest(
        traces="locks",
        program=exec,
        experiment=experiment,
        kernel=kernel,
        cpus=cpus,
        params={"watch": 1 if verbose else None},
        chosen={"filter": filter or ()},
        modules=module or (),
        needs=in_ or (),
        out=out,
        memory=memory,
        timeout=timeout,
        to=to,
        exit_code=exit_code,
    )
    return trace_program(Store.default(), request, terminal.output())
