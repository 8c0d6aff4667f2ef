# SPDX-License-Identifier: MIT
"""`bisect`: the commit from which on a program costs another number of instructions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.commands.programs import Executor, ProgramOptions


@dataclass(frozen=True, kw_only=True)
class BisectOptions(ProgramOptions):
    """What `bisect` takes."""

    good: Annotated[str, Option("a commit before the change", word=True)]
    bad: Annotated[str, Option("a commit with it", word=True)]
    kernel: Annotated[
        str | None,
        Option(
            "a kernel's source tree with git: its commits are tried; or where those of the program in this folder run",
            path=True,
            none="`debian:6.12`",
        ),
    ] = None
    with_: Annotated[
        str | None,
        Option("how the program is built in a checkout, as shell text", none="`make` where there is a Makefile"),
    ] = None
    repetitions: Annotated[int, Option("runs of each commit, each with a seed of its own", least=1)] = 3
    executor: Executor = None


@command("Your own work", guests=True)
def bisect(options: BisectOptions) -> int:
    """Find the commit that made a program dearer or cheaper, exactly."""
    from harness.artefacts.store import Store
    from harness.program.bisection import Range, bisect_commits

    request = options.request("functions", kernel=options.kernel, executor=options.executor)
    commits = Range(options.good, options.bad, options.with_, options.repetitions)
    return bisect_commits(Store.default(), commits, request, terminal.output())
