# SPDX-License-Identifier: MIT
"""`boot` gives a person a shell: driven here through a real pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import sys
import time

import pytest

from harness.paths import ROOT
from tests.processes import PATIENCE_S

pytestmark = pytest.mark.timeout(1800)


def test_a_person_gets_a_shell_and_leaves_it(classic):
    try:
        process, terminal = pty.fork()
    except OSError as error:  # a container without /dev/pts
        pytest.skip(f"no pseudo-terminal here: {error}")
    if process == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-m", "invoke", "boot", "kernel=classic", "--accel", "tcg"])
    try:
        screen = _type(terminal, b"leave it with exit", b"echo $(uname -m) $((6*7))\n")
        screen += _type(terminal, b"i686 42", b"exit\n")
        _, status = os.waitpid(process, 0)
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0, screen.decode(errors="replace")


def _type(terminal: int, line: bytes, answer: bytes) -> bytes:
    """Wait until `line` and the shell's prompt behind it are on the screen, type `answer`; what was on the screen."""
    seen, deadline = b"", time.monotonic() + PATIENCE_S
    while b"# " not in seen.partition(line)[2]:
        assert time.monotonic() < deadline, seen.decode(errors="replace")
        if select.select([terminal], [], [], 0.5)[0]:
            seen += os.read(terminal, 4096)
    os.write(terminal, answer)
    return seen
