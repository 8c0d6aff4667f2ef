"""Removing old result sets, after saying which and asking."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

from rich.console import Console

from harness.errors import EXIT_OK, UsageError


def prune(results: Path, keep: int, older_than_days: float, yes: bool, console: Console) -> int:
    """Remove old sets after saying which and asking; UsageError when nobody can be asked and not `yes`."""
    from harness.progress import warn
    from harness.store.prune import choose, remove

    choice = choose(results, keep, older_than_days, datetime.datetime.now(datetime.UTC))
    for path in choice.broken:
        warn(f"{path} is broken and is left alone")
    for candidate in choice.candidates:
        console.print(f"{_size(candidate.size):>9}  {candidate.path}", markup=False, soft_wrap=True)
    if not choice.candidates:
        console.print("nothing to remove")
        return EXIT_OK
    total = f"{len(choice.candidates)} sets, {_size(sum(candidate.size for candidate in choice.candidates))}"
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"{total} would be removed, and there is no terminal to ask at", hint="--yes removes them")
        console.print(f"Remove {total}? [y/N] ", end="", markup=False)
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            console.print("nothing is removed")
            return EXIT_OK
    for candidate in choice.candidates:
        remove(candidate.path)
    console.print(f"{total} removed")
    return EXIT_OK


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
