# SPDX-License-Identifier: MIT
"""All commands, in groups, and what a host needs for one. Standard library only."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any

from harness import debian
from harness.cli.declaration import Command
from harness.commands.analyse import analyse
from harness.commands.bench import bench
from harness.commands.boot import boot
from harness.commands.build import build
from harness.commands.capsule import capsule
from harness.commands.compare import compare
from harness.commands.docs import docs
from harness.commands.doctor import doctor
from harness.commands.export import export
from harness.commands.figures import figures
from harness.commands.kvmhost import kvmhost
from harness.commands.lock import lock
from harness.commands.locks import locks
from harness.commands.merge import merge
from harness.commands.nightly import nightly
from harness.commands.predict import predict
from harness.commands.prune import prune
from harness.commands.reference import reference
from harness.commands.replay import replay
from harness.commands.report import report
from harness.commands.results import results
from harness.commands.run import run
from harness.commands.selftest import selftest
from harness.commands.show import show
from harness.commands.sign import sign
from harness.commands.store import store
from harness.commands.test import test
from harness.commands.trace import trace
from harness.commands.verify import verify
from harness.errors import UsageError
from harness.paths import PROGRAM

#: By what a user wants to do, in the order of `--list`.
GROUPS: dict[str, Sequence[Command[Any]]] = {
    "Run a paper": (run, replay, analyse, merge, nightly, reference),
    "Look at results": (results, show, report, figures, compare, predict, verify, sign, export, capsule),
    "Your own work": (trace, locks, boot, build, lock, kvmhost),
    "Upkeep": (doctor, selftest, store, prune, test, bench, docs),
}
COMMANDS: dict[str, Command[Any]] = {command.name: command for group in GROUPS.values() for command in group}


def called(arguments: Sequence[str]) -> tuple[Command[Any] | None, dict[str, bool]]:
    """The command named in `arguments`, and which of its options are given; as far as they can be told unparsed."""
    command = COMMANDS.get(next((word for word in arguments if not word.startswith("-")), ""))
    options = command.parameters if command else ()
    return command, {option.name: option.flag in arguments for option in options}


def check_command(arguments: Sequence[str]) -> None:
    """UsageError for a first word that is no command."""
    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        raise UsageError(f"No idea what {arguments[0]!r} is!", hint=f"{PROGRAM} --list")


def missing_packages(arguments: Sequence[str]) -> list[str]:
    """What is missing before the command named in `arguments` can run: for guests with the host's tools, for tests."""
    wanted: list[str] = []
    command, given = called(arguments)
    if command is not None:
        wanted += debian.GUEST_PACKAGES if debian.host_tools() and command.with_guests(given) else ()
        # Whoever cannot install them has the tests of them skipped.
        wanted += debian.TEST_PACKAGES if command.tests and os.geteuid() == 0 else ()
    return debian.missing(wanted) if wanted and shutil.which("dpkg-query") else []
