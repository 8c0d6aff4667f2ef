# SPDX-License-Identifier: MIT
"""`analyse`: new verdicts from stored raw files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.cli.shared import ResultsFolder, SetName, Trust, Verbose
from harness.paths import RESULTS


@command("Run a paper")
def analyse(
    result: SetName,
    with_: Annotated[
        Path | None, Option("folder of an experiment, whose analysis and claims are to be used", none="the set's own")
    ] = None,
    results: ResultsFolder = RESULTS,
    verbose: Verbose = False,
    trust: Trust = None,
) -> int:
    """Make tables, metrics and claims anew from a set's raw files.

    Executes `analysis.py`, of the set or of `--with`. The exit codes are those of `run`.
    """
    from harness.run import reanalysis

    return reanalysis.reanalyse(results, result, with_, terminal.output(), verbose=verbose, trust=trust)
