# SPDX-License-Identifier: MIT
"""What a first command fetches and unpacks while pip still fills .venv: the tools tree, then its first kernel's source.

A process of its own, `python -m harness.commands.ahead WORDS FILE`, that says nothing: what it has not done, for
whatever reason, the command does, and tells. What both would do at once, the store's locks let one do.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import progress, stagetimes
from harness.artefacts.store import Store
from harness.commands.catalogue import called
from harness.experiment.model import find_experiment, load_experiment
from harness.host.examine import check_room
from harness.kernel.load import load_kernel
from harness.kernel.source import fetch_source, patched_tree, source_identity
from harness.kernel.spec import KernelRecipe
from harness.packages.tree import tools


def first_kernel(words: Sequence[str]) -> KernelRecipe | None:
    """The kernel that this command line needs first; None where its first word is no experiment's and no kernel's.

    UsageError for one that cannot be.
    """
    command, _ = called(words)
    named = [word for word in words if not word.startswith("-")][1:2]
    what = command.words[0].name if command and command.words and named else ""
    text = named[0].removeprefix(f"{what}=") if named else ""
    if what == "experiment":
        folder = find_experiment(text)
        return load_kernel(next(iter(load_experiment(folder).arms.values())).kernel, beside=folder)
    return load_kernel(text) if what == "kernel" else None


def get(store: Store, words: Sequence[str]) -> None:
    """Fetch and unpack it; nothing for a command that runs no guests."""
    command, given = called(words)
    if command is None or not command.with_guests(given):
        return
    check_room(store.root)
    kernel = first_kernel(words)
    if kernel is None:
        tools()
        return
    with ThreadPoolExecutor(1) as pool:
        fetched = pool.submit(fetch_source, store, kernel.spec.source, kernel.beside)
        tools()
        archive = fetched.result()
    if archive is not None:
        patched_tree(store, kernel, archive, source_identity(kernel.spec.source, archive))


def main(words: Sequence[str], file: Path) -> None:
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    progress.console.quiet = True
    stagetimes.keep_in(file)
    get(Store.default(), words)


if __name__ == "__main__":
    main(sys.argv[1:-1], Path(sys.argv[-1]))
