# SPDX-License-Identifier: MIT
"""`prune`: old sets away, and what the store holds for nobody."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
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
    older_than: Annotated[
        int, Option("remove only what is older than this many days; with `--store`, what was not used for so long")
    ] = 0,
    unfinished: Annotated[bool, Option("also remove unfinished runs, except active ones")] = False,
    store: Annotated[bool, Option("remove things of the store, not sets: those that nothing needs")] = False,
    below: Annotated[
        int | None,
        Option("with `--store`: only until it takes at most this many GiB, the least recently used first"),
    ] = None,
    needed: Annotated[
        bool, Option("with `--store`: also what kept sets and the project's experiments need, after the rest")
    ] = False,
    dry_run: Annotated[bool, Option("say what would go, and remove nothing")] = False,
    yes: Annotated[bool, Option("do not ask")] = False,
    results: ResultsFolder = RESULTS,
) -> int:
    """Remove old result sets, or what the store holds for nobody.

    UsageError when nobody can be asked and not `yes`.
    """

    def agreed(what: str) -> bool:
        return yes or _confirmed(what)

    if store:
        from harness.commands.pruning import prune_store

        return prune_store(
            results, older_than=older_than, below=below, also_needed=needed, dry_run=dry_run, agreed=agreed
        )
    if needed or below is not None:
        raise UsageError("--below and --needed are about the store", hint="./inv prune --store")
    return _prune_sets(results, keep, older_than, unfinished=unfinished, dry_run=dry_run, agreed=agreed)


def _prune_sets(
    results: Path, keep: int, older_than: int, *, unfinished: bool, dry_run: bool, agreed: Callable[[str], bool]
) -> int:
    from harness.progress import warn
    from harness.report.amounts import size
    from harness.store.prune import choose, remove

    console = cli.output()
    choice = choose(results, keep, older_than, datetime.datetime.now(datetime.UTC), unfinished=unfinished)
    for path in choice.broken:
        warn(f"{path} is broken and is left alone")
    for candidate in choice.candidates:
        console.print(f"{size(candidate.size):>9}  {candidate.path}", markup=False, soft_wrap=True)
    if not choice.candidates:
        console.print("nothing to remove")
        return EXIT_OK
    total = f"{_counted(choice.candidates)}, {size(sum(candidate.size for candidate in choice.candidates))}"
    if dry_run:
        console.print(f"{total} would be removed")
        return EXIT_OK
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
            f"{what} would be removed, and there is no terminal for confirmation", hint="--yes removes them"
        )
    cli.output().print(f"Remove {what}? [y/N] ", end="", markup=False)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _counted(candidates: Sequence[Candidate]) -> str:
    runs = sum(candidate.unfinished for candidate in candidates)
    sets = f"{len(candidates) - runs} sets"
    return f"{sets}, {runs} unfinished runs" if runs else sets
