"""Showing a finished set: what its run printed, from the set alone."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from harness.errors import EXIT_OK, KreproError


def show(results: Path, text: str, console: Console) -> int:
    """Print what the run of this set printed, from the set alone: its tables through the analysis.py in it."""
    from harness.measure.analysis import Analysis
    from harness.progress import warn
    from harness.report.summary import closing_lines
    from harness.report.terminal import print_summary
    from harness.store.resultset import EXPERIMENT, find_result_set

    result = find_result_set(results, text)
    tables = result.tables
    summary = {}
    if tables:
        try:
            summary = Analysis(result.path / EXPERIMENT).summary(tables)
        except KreproError as error:
            warn(f"no tables: {error}")
    claims = result.claims
    lines = closing_lines(result, claims, result.metrics, result.manifest.seconds)
    print_summary(console, summary, claims, lines)
    return EXIT_OK
