# SPDX-License-Identifier: MIT
"""`trace`: a user's own program in a guest, under an experiment's tracer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.commands import cli
from harness.commands.declaration import Option, command


@command(guests=True)
def trace(
    program: Annotated[
        str | None,
        Option("the program and its arguments, as shell text; or the words after `--`", none="none", rest=True),
    ] = None,
    experiment: Annotated[
        str | None,
        Option("whose tracer: a name, or a folder's path", path=True, none="the one that has a tracer"),
    ] = None,
    kernel: Annotated[
        str | None, Option("a kernel of `images/kernels/` with the tracer's patches", none="the tracer's")
    ] = None,
    window: Annotated[
        int | None,
        Option("pages that stay accessible: more is faster, and misses visits", least=1, none="1, all visits"),
    ] = None,
    follow: Annotated[bool, Option("trace the processes that the program starts, too")] = False,
    package: Annotated[
        tuple[str, ...] | None,
        Option(
            "Debian packages of `tools.lock`, or `.deb` files, that the program is in, comma-separated",
            path=True,
            least=1,
        ),
    ] = None,
    copy_in: Annotated[
        tuple[str, ...] | None,
        Option("files and folders that the program needs, beside those among its arguments", path=True, least=1),
    ] = None,
    with_: Annotated[
        tuple[str, ...] | None, Option("programs of this host that the program starts, comma-separated", least=1)
    ] = None,
    out: Annotated[Path | None, Option("new folder for the report", none="`PROGRAM.trace`, in this folder")] = None,
    memory: Annotated[
        int | None, Option("MiB of the guest", least=64, none="the kernel's, and more for large files")
    ] = None,
    most_mib: Annotated[int, Option("MiB of the trace; what is beyond is counted and left out", least=1)] = 1024,
    timeout: Annotated[int, Option("seconds of the guest's time that the program may take", least=1)] = 600,
) -> int:
    """Trace a program of yours in a guest and write a page about it: static, dynamic, a script or a Debian package."""
    from harness.build.store import Store
    from harness.commands.tracing import Wanted, trace_program

    wanted = Wanted(
        program=program,
        experiment=experiment,
        kernel=kernel,
        window=window,
        follow=follow,
        packages=package or (),
        copy_in=copy_in or (),
        others=with_ or (),
        out=out,
        memory=memory,
        most_mib=most_mib,
        timeout=timeout,
    )
    return trace_program(Store.default(), wanted, cli.output())
