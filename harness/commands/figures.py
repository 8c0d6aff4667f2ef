"""Drawing the figures of a finished set again, from the set alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from harness.errors import EXIT_OK, RunError, UsageError

if TYPE_CHECKING:
    from harness.report.figures import Format


def figures(results: Path, text: str, form: Format, out: Path | None, console: Console) -> int:
    """Draw a set's figures from its stored tables into `out` (`figures/ID`), and print their paths.

    UsageError when `out` is in a result set, which does not change; RunError when there is nothing to draw.
    """
    from harness.measure.analysis import Analysis
    from harness.report.figures import figure_style, write_figures
    from harness.store.resultset import EXPERIMENT, MANIFEST, find_result_set

    result = find_result_set(results, text)
    target = Path("figures") / result.path.name if out is None else out
    whole = target.resolve()
    inside = next((path for path in [whole, *whole.parents] if (path / MANIFEST).is_file()), None)
    if inside is not None:
        raise UsageError("is a result set, which does not change", where=str(inside), hint="choose another --out")
    tables = result.tables
    if not tables:
        raise RunError("has no tables to draw from", where=str(result.path))
    with figure_style():
        drawn = Analysis(result.path / EXPERIMENT).figures(tables, result.metrics)
    try:
        written = write_figures(drawn, target, form)
    except OSError as error:
        raise UsageError(f"cannot write: {error.strerror}", where=error.filename or str(target)) from error
    for path in written:
        console.print(str(path), markup=False, soft_wrap=True)
    if not written:
        raise RunError("its analysis draws no figures", where=str(result.path))
    return EXIT_OK
