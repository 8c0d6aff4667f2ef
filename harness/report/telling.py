# SPDX-License-Identifier: MIT
"""What a command that makes a set ends with: its report is written, and what is in it is told."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from harness.errors import KreproError
from harness.progress import step, warn
from harness.report.site import write_report
from harness.report.view import print_set
from harness.sets.resultset import ResultSet


def tell(console: Console, result: ResultSet, *, verbose: bool, also: Sequence[str] = ()) -> None:
    """Write the set's report into the site beside it, and print the set; with `verbose` also these lines."""
    page = None
    try:
        with step("writing the report"):
            page = write_report(result, result.path.parent.parent, None)
    except KreproError as error:  # the set is whole without it
        warn(f"the report is not written: {error}")
    print_set(console, result, page, verbose=verbose, also=also)
