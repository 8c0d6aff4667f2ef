# SPDX-License-Identifier: MIT
"""Executing what a result set brings with it: the one way to do it, behind the one question."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from harness.commands.inside import bubblewrap
from harness.errors import UsageError
from harness.harmless import harmless
from harness.progress import warn
from harness.store.maker import is_known, is_vouched_for
from harness.store.resultset import ResultSet

T = TypeVar("T")
WHAT = "was not made on this host, and this executes code that is in it, "
HOW = "with your rights"
HOW_INSIDE = "in a sandbox"


def execute(
    result: ResultSet,
    action: Callable[[], T],
    *,
    trust: bool,
    made_here_only: bool = False,
    signers: Path | None = None,
    inside: Callable[[], T] | None = None,
) -> T:
    """What `action` returns, which executes code of this set.

    Of a set whose code is not known here, only with `trust` (`--trust`), or after a yes at a terminal; else UsageError.
    Nothing else executes code of a set: what should surround it belongs here. `made_here_only`: the project's own code
    does not do either, for data of the set that is as good as code. `signers`: who may sign code, the user's own list
    where it is None. `inside`: the same, done in a sandbox; that is used for code which is not known, where this host
    allows it.
    """
    path = result.path
    name = result.manifest.experiment.name
    known = is_vouched_for(path, signers) if made_here_only else is_known(path, name, signers)
    if known:
        return action()
    boxed = inside is not None and bubblewrap() is not None
    if not trust:
        ask(str(path), WHAT + (HOW_INSIDE if boxed else HOW))
    if inside is not None and not boxed:
        warn("the code of the set is executed without a sandbox: this host allows no user namespaces")
    return inside() if inside is not None and boxed else action()


def ask(where: str, what: str) -> None:
    """UsageError unless somebody at a terminal says yes."""
    if sys.stdin.isatty() and sys.stderr.isatty():
        print(f"krepro: {harmless(where)}: {what}. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in {"y", "yes"}:
            return
    raise UsageError(what, where=where, hint="read its experiment/ first; --trust executes it")
