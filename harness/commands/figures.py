# SPDX-License-Identifier: MIT
"""`figures`: drawn again from the set alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.choices import FigureFormat
from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.cli.shared import ResultsFolder, SetName, Trust
from harness.errors import EXIT_OK, RunError, UsageError
from harness.paths import RESULTS


@command("Look at results")
def figures(
    result: SetName,
    to: Annotated[FigureFormat, Option("file format")] = "svg",
    out: Annotated[
        Path | None, Option("folder for the files", writes="folder", none="`figures/ID`, in this folder")
    ] = None,
    results: ResultsFolder = RESULTS,
    trust: Trust = None,
) -> int:
    """Draw the figures of a set again, from the set alone.

    UsageError when `out` is in a result set, which does not change; RunError when there is nothing to draw.
    """
    from harness.analysis.trust import contained
    from harness.sets.resultset import MANIFEST, find_result_set
    from harness.sets.seal import unchanged

    finished = find_result_set(results, result)
    target = Path("figures") / finished.path.name if out is None else out
    whole = target.resolve()
    inside = next((path for path in [whole, *whole.parents] if (path / MANIFEST).is_file()), None)
    if inside is not None:
        raise UsageError("is a result set, which does not change", where=str(inside), hint="choose another --out")
    if not finished.tables:
        raise RunError("has no tables to draw from", where=str(finished.path))

    try:
        with unchanged(finished.path), contained(finished, trust=trust) as analysis:
            written = analysis.redraw(finished.path, to, target)
    except OSError as error:
        raise UsageError(f"cannot write: {error.strerror}", where=error.filename or str(target)) from error
    terminal.print_lines(terminal.output(), *written)
    if not written:
        raise RunError("its analysis draws no figures", where=str(finished.path))
    return EXIT_OK
