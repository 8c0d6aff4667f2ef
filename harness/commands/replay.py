# SPDX-License-Identifier: MIT
"""`replay`: trials of a set again, from the set alone."""

from __future__ import annotations

from typing import Annotated

from harness.commands import cli
from harness.commands.declaration import Option, command
from harness.commands.shared import ResultsFolder, SetName, Trust
from harness.paths import RESULTS


@command(guests=True)
def replay(
    result: SetName,
    arms: Annotated[
        str | None, Option("trials of this arm, or one trial, `ARM/REPETITION`", none="all that can be replayed")
    ] = None,
    results: ResultsFolder = RESULTS,
    trust: Trust = None,
) -> int:
    """Run a set's virtual-clock trials again and compare bit by bit."""
    from harness.commands import reexecution

    return reexecution.replay(results, result, arms, cli.output(), trust=trust)
