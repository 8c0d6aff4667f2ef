# SPDX-License-Identifier: MIT
"""Executing what a result set brings with it: the one way to do it, behind the one question."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from harness.errors import UsageError
from harness.harmless import harmless
from harness.store.maker import is_known, made_here
from harness.store.resultset import ResultSet

T = TypeVar("T")
WHAT = "was not made on this host, and this executes code that is in it, with your rights"


def execute(result: ResultSet, action: Callable[[], T], *, trust: bool, made_here_only: bool = False) -> T:
    """What `action` returns, which executes code of this set.

    Of a set whose code is not known here, only with `trust` (`--trust`), or after a yes at a terminal; else UsageError.
    Nothing else executes code of a set: what should surround it belongs here. `made_here_only`: the project's own code
    does not do either, for data of the set that is as good as code.
    """
    path = result.path
    known = made_here(path) if made_here_only else is_known(path, result.manifest.experiment.name)
    if not trust and not known:
        ask(str(path), WHAT)
    return action()


def ask(where: str, what: str) -> None:
    """UsageError unless somebody at a terminal says yes."""
    if sys.stdin.isatty() and sys.stderr.isatty():
        print(f"krepro: {harmless(where)}: {what}. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in {"y", "yes"}:
            return
    raise UsageError(what, where=where, hint="read its experiment/ first; --trust executes it")
