# SPDX-License-Identifier: MIT
"""`prune`: old sets away, and what the store holds for nobody."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.cli.shared import ResultsFolder
from harness.errors import EXIT_OK, UsageError
from harness.paths import RESULTS


@command("Upkeep")
def prune(
    kind: Annotated[
        Literal["sets", "unfinished", "store"],
        Option(
            "result sets, runs that were broken off, or things of the store: those that nothing needs "
            "(with bare `invoke` not as a word)",
            word=True,
        ),
    ] = "sets",
    keep: Annotated[int, Option("of sets: keep this many newest of each experiment")] = 10,
    below: Annotated[
        int | None,
        Option(
            "of the store: until it takes at most this many GiB, the least recently used first; if need be, what kept "
            "sets and the project's experiments need, too"
        ),
    ] = None,
    force: Annotated[bool, Option("do not ask")] = False,
    results: ResultsFolder = RESULTS,
) -> int:
    """Remove old result sets, or what the store holds for nobody.

    What would go is said before. UsageError when nobody can be asked and not `force`.
    """

    def agreed(what: str) -> bool:
        return force or _confirmed(what)

    if kind == "store":
        from harness.run.pruning import prune_store

        return prune_store(results, below=below, agreed=agreed)
    if below is not None:
        raise UsageError("--below is about the store", hint="./inv prune store")
    return _prune_sets(results, keep, unfinished=kind == "unfinished", agreed=agreed)


def _prune_sets(results: Path, keep: int, *, unfinished: bool, agreed: Callable[[str], bool]) -> int:
    from harness.progress import warn
    from harness.report.storelist import size
    from harness.sets.prune import broken_off, choose, remove

    console = terminal.output()
    choice = broken_off(results) if unfinished else choose(results, keep)
    for path in choice.broken:
        warn(f"{path} is broken and is left alone")
    terminal.print_lines(console, *(f"{size(one.size):>9}  {one.path}" for one in choice.candidates))
    if not choice.candidates:
        console.print("nothing to remove")
        return EXIT_OK
    what = "unfinished runs" if unfinished else "sets"
    total = f"{len(choice.candidates)} {what}, {size(sum(candidate.size for candidate in choice.candidates))}"
    if not agreed(total):
        console.print("nothing is removed")
        return EXIT_OK
    for candidate in choice.candidates:
        remove(candidate.path)
    console.print(f"{total} removed")
    return EXIT_OK


def _confirmed(what: str) -> bool:
    """What a person at the terminal says; UsageError without one."""
    if not sys.stdin.isatty():
        raise UsageError(
            f"{what} would be removed, and there is no terminal for confirmation", hint="--force removes them"
        )
    terminal.output().print(f"Remove {what}? [y/N] ", end="", markup=False)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
