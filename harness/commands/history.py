# SPDX-License-Identifier: MIT
"""`history`: the exact cost of a user's own program over several kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.commands.programs import Executor, ProgramOptions


@dataclass(frozen=True, kw_only=True)
class HistoryOptions(ProgramOptions):
    """What `history` takes."""

    kernel: Annotated[
        tuple[str, ...],
        Option(
            "Debian's own, in order, comma-separated: `debian:6.1.*` is every build of 6.1; or those of `profile`",
            word=True,
            path=True,
            least=1,
        ),
    ]
    executor: Executor = None


@command("Your own work", guests=True)
def history(options: HistoryOptions) -> int:
    """Tell what a program costs on each of several kernels, exactly."""
    from harness.artefacts.store import Store
    from harness.program import history as over

    request = options.request("functions", executor=options.executor)
    return over.history(Store.default(), options.kernel, request, terminal.output())
