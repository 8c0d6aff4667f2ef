# SPDX-License-Identifier: MIT
"""`replay`: trials of a set again, from the set alone."""

from __future__ import annotations

from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.cli.shared import ResultsFolder, SetName, Trust
from harness.paths import RESULTS


@command("Run a paper", guests=True)
def replay(
    result: SetName,
    arms: Annotated[
        str | None, Option("trials of this arm, or one trial, `ARM/REPETITION`", none="all that can be replayed")
    ] = None,
    results: ResultsFolder = RESULTS,
    trust: Trust = None,
) -> int:
    """Run a set's virtual-clock trials again and compare bit by bit."""
    from harness.run import reexecution

    return reexecution.replay(results, result, arms, terminal.output(), trust=trust)
