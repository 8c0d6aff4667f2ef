# SPDX-License-Identifier: MIT
"""Options that every command has that runs a user's own program in guests, and what it asks for by them.

Standard library only, until it is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from harness.cli import terminal
from harness.cli.declaration import Option

if TYPE_CHECKING:
    from harness.measure.tracer import Traces
    from harness.program.subject import TraceRequest

Whose = Annotated[
    str | None,
    Option("whose tracer: a name, or a folder's path", path=True, none="the one that has a tracer"),
]
Kernel = Annotated[
    str | None,
    Option(
        "a kernel of `images/kernels/` with the tracer's patches, or the path of a source tree",
        path=True,
        none="the tracer's",
    ),
]
ExitCode = Annotated[bool, Option("end with the program's own exit status, once the report is written")]
Executor = Annotated[
    str | None,
    Option(
        "run them on the Dask cluster of this scheduler, `dask://HOST:PORT` or `tls://HOST:PORT`, or on"
        " jobs of `slurm`, see [scale.md](scale.md)",
        none="this machine",
    ),
]


Program = Annotated[
    str | None,
    Option("the program and its arguments, as shell text; or the words after `--`", none="none", rest=True),
]
Needs = Annotated[
    tuple[str, ...] | None,
    Option(
        "what the program needs, comma-separated: Debian packages of `tools.lock`, `.deb` files, programs, files "
        "and folders of this host, or a folder with all of `/`",
        path=True,
        least=1,
        none="what it opens when it is run here once, where nothing that it does stays",
    ),
]
Memory = Annotated[int | None, Option("MiB of the guest", least=64, none="the kernel's, and more for large files")]
Timeout = Annotated[int, Option("seconds of the guest's time that the program may take", least=1)]
Json = Annotated[Literal["json"] | None, Option("print the result in this form", none="a few lines")]


@dataclass(frozen=True, kw_only=True)
class ProgramOptions:
    """Of every such command."""

    exec: Program = None
    in_: Needs = None
    out: Annotated[
        Path | None,
        Option("new folder for the report", writes="folder", none="named after the program and the command, here"),
    ] = None
    memory: Memory = None
    timeout: Timeout = 600
    to: Json = None

    def request(self, traces: Traces, **more: Any) -> TraceRequest:
        """What is asked for; `more` are fields of a TraceRequest that only this command has."""
        from harness.program.subject import TraceRequest

        return TraceRequest(
            traces=traces,
            program=self.exec,
            needs=self.in_ or (),
            out=self.out,
            memory=self.memory,
            timeout=self.timeout,
            to=self.to,
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class TracedOptions(ProgramOptions):
    """Of those that trace it by an experiment's tracer."""

    experiment: Whose = None
    kernel: Kernel = None
    exit_code: ExitCode = False
    to: Annotated[
        Literal["json", "perfetto"] | None,
        Option("`json`: print the result so; `perfetto`: a time line beside the page", none="a few lines"),
    ] = None  # type: ignore[assignment]  # it has one form more

    def trace(self, traces: Traces, **more: Any) -> int:
        """Trace it and write the report."""
        from harness.artefacts.store import Store
        from harness.program.tracing import trace_program

        own = {"experiment": self.experiment, "kernel": self.kernel, "exit_code": self.exit_code}
        return trace_program(Store.default(), self.request(traces, **own, **more), terminal.output())
