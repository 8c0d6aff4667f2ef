# SPDX-License-Identifier: MIT
"""`show`: what a set's run printed."""

from __future__ import annotations

from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.cli.shared import ResultsFolder, SetName
from harness.errors import EXIT_OK
from harness.paths import RESULTS


@command("Look at results")
def show(
    result: SetName,
    results: ResultsFolder = RESULTS,
    verbose: Annotated[
        bool, Option("print all findings, tables and remarks, and the meaning of every column and metric")
    ] = False,
) -> int:
    """Print a finished set's tables, claims and verdicts.

    From the set alone; nothing of it is executed.
    """
    from harness.report.columns import print_columns
    from harness.report.site import page_of
    from harness.report.view import print_set
    from harness.sets.resultset import find_result_set, read_metrics

    finished = find_result_set(results, result)
    read_metrics(finished.path)  # that it is damaged is told before anything is printed
    if verbose:
        print_columns(terminal.output(), finished.declared_tables, finished.declared_metrics)
    print_set(terminal.output(), finished, page_of(finished, results), verbose=verbose)
    return EXIT_OK
