# SPDX-License-Identifier: MIT
"""Which QEMU runs, and how a command line of it is started."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache

from harness.errors import UsageError
from harness.machine.board import board_by_qemu
from harness.packages.tree import QEMU, Tools, tools


def qemu_words(argv: Sequence[str]) -> list[str]:
    """A command line that begins with QEMU's name, as this process's tools start it. UsageError when there is none."""
    qemu = argv[0]
    qemu_version(qemu)
    return [*tools_of(qemu).qemu(qemu), *argv[1:]]


def tools_of(qemu: str) -> Tools:
    """The tools that the QEMU of this name is among."""
    return tools(board_by_qemu(qemu).cross)


def qemu_version(qemu: str = QEMU) -> str:
    """First line of `QEMU --version`; UsageError when it does not run."""
    return _version(tools_of(qemu), qemu)


@cache
def _version(used: Tools, qemu: str) -> str:
    try:
        done = subprocess.run([*used.qemu(qemu), "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        hint = "./inv doctor" if used.root else "install it, or do without the setting host_tools"
        raise UsageError(f"{qemu} does not run: {error}", hint=hint) from error
    return done.stdout.splitlines()[0]
