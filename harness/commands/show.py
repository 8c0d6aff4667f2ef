"""Showing a finished set: what its run printed, from the set alone."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from harness.errors import EXIT_OK


def show(results: Path, text: str, console: Console) -> int:
    """Print what the run of this set printed, from the set alone; nothing of it is executed."""
    from harness.report.summary import closing_lines
    from harness.report.terminal import print_summary
    from harness.store.resultset import find_result_set

    result = find_result_set(results, text)
    claims = result.claims
    lines = closing_lines(result, claims, result.metrics, result.manifest.seconds)
    print_summary(console, result.shown, claims, lines)
    return EXIT_OK
