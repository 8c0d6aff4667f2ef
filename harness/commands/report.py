# SPDX-License-Identifier: MIT
"""`report`: HTML for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.cli.declaration import Option, command
from harness.cli.shared import SET, ResultsFolder
from harness.paths import RESULTS

#: With the index: of so many of the newest sets of each experiment, where there is none yet.
PAGES = 5


@command("Look at results")
def report(
    result: Annotated[
        str | None,
        Option(f"{SET} (with bare `invoke` not as a word)", word=True, path=True, none="an index of all"),
    ] = None,
    out: Annotated[
        Path | None,
        Option("the file for one set, the folder for the index", writes="either", none="below `results/reports/`"),
    ] = None,
    results: ResultsFolder = RESULTS,
) -> None:
    """Write an HTML report on one set, or an index over all."""
    from harness.report import site
    from harness.sets.resultset import find_result_set

    if result:
        print(site.write_report(find_result_set(results, result), results, out))
    else:
        print(site.write_site(results, out, PAGES))
