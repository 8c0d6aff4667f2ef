# SPDX-License-Identifier: MIT
"""Executing what a result set brings with it: the one way to do it, behind the one question, in the one sandbox."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from harness.analysis.contained import Contained
from harness.choices import Trusted
from harness.errors import UsageError
from harness.harmless import harmless
from harness.machine.sandbox import Sandbox, sandbox_of_analyses
from harness.progress import warn
from harness.sets.maker import is_known, is_vouched_for
from harness.sets.resultset import EXPERIMENT, ResultSet

T = TypeVar("T")
WHAT = "was not made on this host, and this executes code that is in it, "
HOW = "with your rights"
HOW_INSIDE = "in a sandbox"
UNSANDBOXED = "unsandboxed"


def execute(
    result: ResultSet,
    action: Callable[[], T],
    *,
    trust: Trusted,
    made_here_only: bool = False,
    signers: Path | None = None,
) -> T:
    """What `action` returns, which executes code of this set other than its analysis, with the user's rights.

    Of a set whose code is not known here, only with `trust` (`--trust`), or after a yes at a terminal; else UsageError.
    `made_here_only`: the project's own code does not do either, for data of the set that is as good as code. `signers`:
    who may sign code, the user's own list where it is None.
    """
    if not _is_known(result, signers, made_here_only=made_here_only) and not trust:
        ask(str(result.path), WHAT + HOW)
    return action()


def contained(result: ResultSet, *readable: Path, trust: Trusted, signers: Path | None = None) -> Contained:
    """The analysis in this set, to be executed in the sandbox; asked about as by `execute`.

    UsageError too where this host has no sandbox for code that is not known, unless `trust` is UNSANDBOXED. Nothing
    else executes code of a set: what should surround it belongs here.
    """
    path, folder = result.path, result.path / EXPERIMENT
    if _is_known(result, signers):
        return Contained(folder, path, *readable)
    shut = may_be_executed(str(path), WHAT, trust=trust)
    return Contained(folder, path, *readable, strange=True, shut=shut)


def may_be_executed(where: str, what: str, *, trust: Trusted) -> Sandbox:
    """What a stranger's analysis is shut in; UsageError when it is not to be executed. `what`: the question's words."""
    shut = sandbox_of_analyses(fetch=True)
    if shut.keeps_in:
        if not trust:
            ask(where, what + HOW_INSIDE)
        return shut
    if trust != UNSANDBOXED:
        raise UsageError(
            f"{what.removesuffix(', ')}; there is no sandbox for it: {shut.why}",
            where=where,
            hint=f"--trust={UNSANDBOXED} executes it {HOW}",
        )
    warn(f"the code of the set is executed without a sandbox: {shut.why}")
    return shut


def _is_known(result: ResultSet, signers: Path | None, *, made_here_only: bool = False) -> bool:
    name = result.manifest.experiment.name
    return is_vouched_for(result.path, signers) if made_here_only else is_known(result.path, name, signers)


def ask(where: str, what: str) -> None:
    """UsageError unless somebody at a terminal says yes."""
    if sys.stdin.isatty() and sys.stderr.isatty():
        print(f"krepro: {harmless(where)}: {what}. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in {"y", "yes"}:
            return
    raise UsageError(what, where=where, hint="read its experiment/ first; --trust executes it")
