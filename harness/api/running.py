# SPDX-License-Identifier: MIT
"""Commands that make a set, called from Python.

Each runs in a process of its own, as `./inv` starts one: it takes signals, reaps processes and runs event loops of its
own, and a notebook's kernel has all of these already.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.api.loading import Results
from harness.commands.catalogue import COMMANDS
from harness.errors import EXIT_NEWS, EXIT_OK, EXIT_USAGE, RunError, UsageError
from harness.paths import CODE

#: What an option may be: None and False leave it out, True is a switch, a list is comma-separated.
Value = str | int | bool | Path | list[str] | tuple[str, ...] | None
#: For an orderly end after an interruption.
END_S = 15.0
INTERRUPTED = 130
#: How a command's errors begin, and its warnings too.
ERROR = "krepro: "


class RunFailed(RunError):
    """A run that failed; `results` is the set with what was measured all the same, or None."""

    results: Results | None = None


def run(experiment: str | Path, *, quiet: bool = False, **options: Value) -> Results:
    """Run an experiment, a name or a folder's path; its set, whatever the verdicts are.

    `options` are those of `./inv run` (docs/commands.md): `repetitions=5, arms=["tick"], results="/tmp/results"`.
    Progress goes to sys.stderr, unless `quiet`. UsageError when the input is wrong, RunFailed when a trial, a build or
    the analysis failed, KeyboardInterrupt after Ctrl-C: the same call then goes on where it was.
    """
    return _made("run", {"experiment": experiment, **options}, quiet)


def analyse(result: str | Path | Results, *, quiet: bool = False, **options: Value) -> Results:
    """Analyse a set's raw files again; the new set. `options` are those of `./inv analyse`; `with` is `with_`."""
    return _made("analyse", {"result": result.path if isinstance(result, Results) else result, **options}, quiet)


def _made(command: str, options: Mapping[str, Value], quiet: bool) -> Results:
    done = called(command, options, quiet)
    folder = Path((done.printed.splitlines() or [""])[-1])
    results = Results(folder) if folder.is_absolute() and folder.is_dir() else None
    if done.status in (EXIT_OK, EXIT_NEWS) and results is not None:
        return results
    raise done.error(results)


@dataclass(frozen=True)
class Done:
    """A command that ended: what it printed, and what it told besides."""

    status: int
    printed: str
    told: tuple[str, ...]

    def error(self, results: Results | None = None) -> UsageError | RunFailed:
        """What is wrong, as an exception."""
        errors = [line.removeprefix(ERROR) for line in self.told if _is_error(line)]
        first, *others = errors or self.told[-1:] or [f"ended with status {self.status}"]
        if self.status == EXIT_USAGE:
            return UsageError(first, also=[UsageError(line) for line in others])
        failed = RunFailed(first, also=[RunError(line) for line in others])
        failed.results = results
        return failed


def called(command: str, options: Mapping[str, Value], quiet: bool) -> Done:
    """Call a command in a process of its own and wait for it."""
    words = _words(command, options)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(CODE), *_path()])}
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "harness.commands.program", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    assert process.stderr is not None
    told: list[str] = []
    relay = threading.Thread(target=_relay, args=(process.stderr, told, quiet), daemon=True)
    relay.start()
    try:
        printed = process.stdout.read()
        status = process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        process.wait(END_S)
        raise
    relay.join(END_S)
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    return Done(status, printed, tuple(told))


def _path() -> list[str]:
    return [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []


def _words(command: str, options: Mapping[str, Value]) -> list[str]:
    """The command line; UsageError for an option that the command does not have."""
    known = {parameter.name: parameter for parameter in COMMANDS[command].parameters}
    words = [command]
    for name, value in options.items():
        if name not in known:
            raise UsageError(f"{command}() has no option {name} (known: {', '.join(known)})")
        if value is None or value is False:
            continue
        words.append(known[name].flag)
        if value is not True:
            words.append(",".join(value) if isinstance(value, list | tuple) else str(value))
    return words


def _relay(stream: IO[str], told: list[str], quiet: bool) -> None:
    """Keep the lines of a command's standard error, and show them as they come; errors are raised instead."""
    for line in stream:
        told.append(line.rstrip("\n"))
        if not quiet and not _is_error(line):
            print(line, end="", file=sys.stderr, flush=True)


def _is_error(line: str) -> bool:
    return line.startswith(ERROR) and not line.startswith(f"{ERROR}warning: ")
