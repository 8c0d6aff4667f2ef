"""`show`: what a set's run printed."""

from __future__ import annotations

from harness.commands import cli
from harness.commands.declaration import command
from harness.commands.shared import ResultsFolder, SetName
from harness.errors import EXIT_OK
from harness.paths import RESULTS


@command()
def show(result: SetName, results: ResultsFolder = RESULTS) -> int:
    """Print a finished set's tables, claims and verdicts, as its run did.

    From the set alone; nothing of it is executed.
    """
    from harness.report.summary import closing_lines
    from harness.report.terminal import print_summary
    from harness.store.resultset import find_result_set

    finished = find_result_set(results, result)
    claims = finished.claims
    lines = closing_lines(finished, claims, finished.metrics, finished.manifest.seconds)
    print_summary(cli.output(), finished.shown, claims, lines)
    return EXIT_OK
