# SPDX-License-Identifier: MIT
"""`profile`: every instruction of a user's own program in a guest, by function, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.commands.traceoptions import Exec, Executor, ExitCode, In, Memory, Timeout, ToVerdict


@command("Your own work", guests=True)
def profile(
    exec: Exec = None,
    kernel: Annotated[
        str | None,
        Option("Debian's own, as `debian:6.1`, one of `images/kernels/`, or a path", path=True, none="`debian:6.12`"),
    ] = None,
    against: Annotated[
        str | None,
        Option("compare with this kernel, or with this program, with the same arguments where it has none", path=True),
    ] = None,
    repetitions: Annotated[
        int, Option("with `--against`: runs of each side, each with a seed of its own", least=1)
    ] = 3,
    below: Annotated[
        str | None,
        Option("with `--against`: exit code 1 when it costs more per cent than this", none="any cost is well"),
    ] = None,
    verbose: Annotated[
        bool, Option("tell where each function stands in the source, by Debian's debug information (320 to 1200 MB)")
    ] = False,
    with_: Annotated[
        Literal["perf"] | None,
        Option("`perf`: run it once more, sampled as perf record does, and tell how far that is off", none="nothing"),
    ] = None,
    executor: Executor = None,
    in_: In = None,
    out: Annotated[
        Path | None, Option("new folder for the report", writes="folder", none="`PROGRAM.profile`, in this folder")
    ] = None,
    memory: Memory = None,
    timeout: Timeout = 600,
    to: ToVerdict = None,
    exit_code: ExitCode = False,
) -> int:
    """Count a program's instructions in a guest, exactly, by function."""
    from harness.artefacts.store import Store
    from harness.errors import UsageError
    from harness.program.subject import TraceRequest
    from harness.program.tracing import trace_program

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
        exit_code=exit_code,
        lines=verbose,
        beside={"sampled": "on"} if with_ else None,
    )
    if against is not None:
        for name, given in (("exit-code", exit_code), ("verbose", verbose), ("with", with_)):
            if given:
                raise UsageError(f"--{name}: not with --against")
    if against is not None:
        from harness.program.comparing import Against, bound, compare_profiles

        other = Against(against, repetitions, bound(below))
        return compare_profiles(Store.default(), request, other, terminal.output())
    for name, lone in (("below", below is not None), ("to junit", to == "junit"), ("executor", executor is not None)):
        if lone:
            raise UsageError(f"--{name}: needs --against")
    return trace_program(Store.default(), request, terminal.output())
