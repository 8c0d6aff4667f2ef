# SPDX-License-Identifier: MIT
"""`results`: the finished sets, and the runs that are not."""

from __future__ import annotations

from typing import Annotated

from harness.cli.declaration import Option, command
from harness.cli.shared import ResultsFolder
from harness.errors import UsageError
from harness.harmless import harmless
from harness.paths import RESULTS


@command("Look at results")
def results(
    experiment: Annotated[str | None, Option("only sets of this one", none="all")] = None,
    results: ResultsFolder = RESULTS,
) -> None:
    """List result sets with their verdicts, and unfinished runs."""
    from harness.report.setlist import list_lines, unfinished_lines
    from harness.sets.listing import describe, set_paths, unfinished_runs

    paths = set_paths(results, experiment)
    runs = unfinished_runs(results, experiment)
    if not paths and not runs:
        wanted = f"no result sets of {experiment!r}" if experiment else "there is no result set yet"
        raise UsageError(wanted, where=str(results), hint="./inv run experiment=NAME")
    print(harmless("\n".join([*list_lines([describe(path) for path in paths]), *unfinished_lines(runs)])))
