# SPDX-License-Identifier: MIT
"""All commands, in groups, and what a host needs for one. Standard library only."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from harness import debian
from harness.cli.declaration import Command, Group
from harness.errors import UsageError
from harness.paths import PROGRAM

#: Of each group what `--list` has first; what is not named here comes behind, by name.
FIRST = (
    *("run", "replay", "analyse", "merge", "nightly", "reference"),
    *("results", "show", "report", "figures", "compare", "predict", "verify", "sign", "export", "capsule"),
    *("profile", "history", "bisect", "trace", "counters", "locks", "boot", "build", "lock", "kvmhost"),
    *("doctor", "selftest", "calibrate", "store", "prune", "test", "bench", "docs"),
)


def _commands() -> Iterator[Command[Any]]:
    """The command of each module beside this one that declares one; the others may import what is heavy."""
    for path in Path(__file__).parent.glob("*.py"):
        if "\n@command(" in path.read_text():
            yield vars(import_module(f"harness.commands.{path.stem}"))[path.stem]


def _place(command: Command[Any]) -> tuple[int, int, str]:
    at = FIRST.index(command.name) if command.name in FIRST else len(FIRST)
    return get_args(Group).index(command.group), at, command.name


COMMANDS: dict[str, Command[Any]] = {command.name: command for command in sorted(_commands(), key=_place)}
GROUPS: dict[str, Sequence[Command[Any]]] = {
    group: [command for command in COMMANDS.values() if command.group == group] for group in get_args(Group)
}


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
