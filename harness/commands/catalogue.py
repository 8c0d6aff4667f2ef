# SPDX-License-Identifier: MIT
"""All commands, in the order of docs/commands.md, and what a host needs for one. Standard library only."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

from harness import debian
from harness.commands.analyse import analyse
from harness.commands.bench import bench
from harness.commands.boot import boot
from harness.commands.build import build
from harness.commands.compare import compare
from harness.commands.declaration import Command
from harness.commands.doctor import doctor
from harness.commands.export import export
from harness.commands.figures import figures
from harness.commands.kvmhost import kvmhost
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
from harness.commands.test import test
from harness.commands.verify import verify

_ALL: Sequence[Command[Any]] = (
    run,
    boot,
    build,
    doctor,
    selftest,
    test,
    replay,
    reference,
    results,
    show,
    verify,
    sign,
    analyse,
    merge,
    compare,
    figures,
    predict,
    prune,
    report,
    export,
    nightly,
    bench,
    kvmhost,
)
COMMANDS: dict[str, Command[Any]] = {command.name: command for command in _ALL}


def missing_packages(arguments: Sequence[str]) -> list[str]:
    """What is missing before the command named in `arguments` can run: for the environment, for guests, for tests."""
    wanted: list[str] = []
    if importlib.util.find_spec("ensurepip") is None:
        wanted.append("python3-venv")
    command = COMMANDS.get(next((word for word in arguments if not word.startswith("-")), ""))
    if command is not None:
        given = {option.name: bool({option.flag, option.flag[1:3]} & {*arguments}) for option in command.parameters}
        wanted += debian.GUEST_PACKAGES if command.with_guests(given) else ()
        wanted += debian.TEST_PACKAGES if command.tests else ()
    return debian.missing(wanted) if wanted else []
