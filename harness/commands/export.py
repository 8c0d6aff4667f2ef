# SPDX-License-Identifier: MIT
"""`export`: files for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.choices import ExportFormat
from harness.cli.declaration import Option, command
from harness.cli.shared import ResultsFolder, SetName
from harness.paths import RESULTS


@command("Look at results")
def export(
    result: SetName,
    to: Annotated[ExportFormat, Option("output format, see below")],
    out: Annotated[
        Path | None,
        Option("file or folder to write", writes="either", none="`EXPERIMENT-ID` and a suffix, in this folder"),
    ] = None,
    results: ResultsFolder = RESULTS,
) -> None:
    """Write a result set in a format that other tools read."""
    from harness.sets.export import export as write
    from harness.sets.resultset import find_result_set

    print(write(find_result_set(results, result), to, out))
