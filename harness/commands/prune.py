# SPDX-License-Identifier: MIT
"""`prune`: old sets away."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from harness.commands import cli
from harness.commands.declaration import Option, command
from harness.commands.shared import ResultsFolder
from harness.errors import EXIT_OK, UsageError
from harness.paths import RESULTS

if TYPE_CHECKING:
    from harness.store.prune import Candidate


@command()
def prune(
    keep: Annotated[int, Option("keep this many newest sets of each experiment")] = 10,
    older_than: Annotated[int, Option("remove only what is older than this many days")] = 0,
    unfinished: Annotated[bool, Option("also remove unfinished runs, except active ones")] = False,
    yes: Annotated[bool, Option("do not ask")] = False,
    results: ResultsFolder = RESULTS,
) -> int:
    """Remove old result sets and unfinished runs, after saying which and asking.

    UsageError when nobody can be asked and not `yes`.
    """
    from harness.progress import warn
    from harness.store.prune import choose, remove

    console = cli.output()
    choice = choose(results, keep, older_than, datetime.datetime.now(datetime.UTC), unfinished=unfinished)
    for path in choice.broken:
        warn(f"{path} is broken and is left alone")
    for candidate in choice.candidates:
        console.print(f"{_size(candidate.size):>9}  {candidate.path}", markup=False, soft_wrap=True)
    if not choice.candidates:
        console.print("nothing to remove")
        return EXIT_OK
    total = f"{_counted(choice.candidates)}, {_size(sum(candidate.size for candidate in choice.candidates))}"
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                f"{total} would be removed, and there is no terminal for confirmation", hint="--yes removes them"
            )
        console.print(f"Remove {total}? [y/N] ", end="", markup=False)
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            console.print("nothing is removed")
            return EXIT_OK
    for candidate in choice.candidates:
        remove(candidate.path)
    console.print(f"{total} removed")
    return EXIT_OK


def _counted(candidates: Sequence[Candidate]) -> str:
    runs = sum(candidate.unfinished for candidate in candidates)
    sets = f"{len(candidates) - runs} sets"
    return f"{sets}, {runs} unfinished runs" if runs else sets


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
