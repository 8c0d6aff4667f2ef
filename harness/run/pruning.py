# SPDX-License-Identifier: MIT
"""The work of `prune store`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from harness.artefacts.holdings import decide, holdings, remove_holding
from harness.artefacts.store import Store
from harness.artefacts.uses import in_use
from harness.cli import terminal
from harness.cli.terminal import print_lines
from harness.errors import EXIT_OK, UsageError
from harness.packages.tree import ready
from harness.progress import step
from harness.report.storelist import decision_lines, kept_lines, size
from harness.run.needed import needed

GIB = 1 << 30


def prune_store(
    results: Path,
    *,
    below: int | None,
    agreed: Callable[[str], bool],
) -> int:
    """Say what of the store goes and why, ask `agreed` with a summary, and remove it.

    `below`: GiB. Nothing is removed that a running process uses, even if it began to after the list was printed.
    UsageError where nobody can tell what is needed.
    """
    if below is None and not ready():
        raise UsageError(
            "what is needed of the store cannot be told before the tools are in it",
            hint="./inv build classic fetches them; --below removes what is needed, too",
        )
    store, console = Store.default(), terminal.output()
    with step("measuring the store"):
        held = holdings(store)
    now = time.time()
    decisions = decide(
        held,
        needed(store, results),
        in_use(store.root),
        below=None if below is None else below * GIB,
    )
    going = [one.holding for one in decisions if one.goes]
    total, freed = sum(one.size for one in held), sum(one.size for one in going)
    print_lines(console, *decision_lines(decisions, now), *kept_lines(decisions))
    told = f"{len(going)} things, {size(freed)} of {size(total)}"
    if not going:
        console.print("nothing to remove")
    elif agreed(told):
        gone = [one for one in going if remove_holding(store, one.kind, one.key)]
        console.print(f"{len(gone)} things, {size(sum(one.size for one in gone))} removed")
        if len(gone) < len(going):
            console.print(f"{len(going) - len(gone)} stay: they came into use")
    else:
        console.print("nothing is removed")
    if below is not None and total - freed > below * GIB:
        console.print(f"the store is above {below} GiB still: {size(total - freed)}")
    return EXIT_OK
