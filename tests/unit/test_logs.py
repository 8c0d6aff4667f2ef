# SPDX-License-Identifier: MIT
"""What `--debug` tells: lines on standard error, harmless, and nothing without it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness.paths import ROOT

CODE = """\
import logging, sys
from harness import logs
if sys.argv[1] == "on":
    logs.tell()
    logs.tell()
logging.getLogger("harness.machine.process").debug("QEMU: %s", "\\x1b[31mred\\nsecond")
logging.getLogger("paramiko").debug("no word of others")
print(logs.telling())
"""


@pytest.mark.parametrize(("asked", "lines"), [("on", 1), ("off", 0)])
def test_it_tells_once_and_only_where_it_was_asked(asked, lines):
    words = [sys.executable, "-c", CODE, asked]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == f"{asked == 'on'}\n"
    told = done.stderr.splitlines()
    assert len(told) == lines, told
    assert all("harness.machine.process: QEMU: " in line and "\x1b" not in line for line in told)


def test_a_command_tells_what_it_was_asked_for():
    words = [sys.executable, "-m", "harness.commands.program", "doctor"]
    done = subprocess.run([*words, "--debug"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "harness.cli.terminal: krepro 0.1.0: doctor --debug" in done.stderr
    assert (
        "harness.cli.terminal"
        not in subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stderr
    )
