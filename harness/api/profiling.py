# SPDX-License-Identifier: MIT
"""Exact profiles of one's own programs as pandas tables."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from harness.api.running import Value, called
from harness.errors import EXIT_OK


@dataclass(frozen=True)
class ProgramProfile:
    """What a program executed, exactly; docs/profiling.md says what the columns mean.

    `functions`: a row per function and context; `system_calls` and `threads` likewise. `report`: the page's path, None
    where its folder was not asked for.
    """

    functions: pd.DataFrame
    system_calls: pd.DataFrame
    threads: pd.DataFrame
    exit_status: int
    report: Path | None

    @property
    def instructions(self) -> int:
        """Of the program's threads, in its own code and in the kernel."""
        return int(self._ours["instructions"].sum())

    @property
    def user_instructions(self) -> int:
        """Of the program's threads, in its own code: the same on every kernel that gives it the same answers."""
        return int(self._ours["in user code"].sum())

    @property
    def _ours(self) -> pd.DataFrame:
        return self.threads[self.threads["of the program"]]

    def of(self, function: str) -> int:
        """Instructions of a function itself, in all contexts; 0 where it was not executed."""
        return int(self.functions.loc[self.functions["function"] == function, "instructions"].sum())


def profile(program: Sequence[str], *, quiet: bool = False, **options: Value) -> ProgramProfile:
    """Run a program in a guest and count its instructions.

    `options` are those of `./inv profile` (docs/commands.md): `kernel="debian:6.12", in_=["sqlite3"]`. With `out` the
    report stays there. UsageError when the input is wrong, RunFailed when the program could not be profiled.
    """
    with tempfile.TemporaryDirectory(prefix="krepro-profile-") as folder:
        out = options.get("out") or Path(folder) / "profile"
        done = called("profile", {**options, "out": str(out), "exec": shlex.join(program), "to": "json"}, quiet)
        if done.status != EXIT_OK:
            raise done.error()
        told = json.loads(done.printed)
    tables = {name: pd.DataFrame(told[name]) for name in ("functions", "syscalls", "threads")}
    report = Path(told["report"]) if options.get("out") else None
    return ProgramProfile(tables["functions"], tables["syscalls"], tables["threads"], told["exit_status"], report)
