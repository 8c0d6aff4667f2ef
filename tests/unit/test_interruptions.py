# SPDX-License-Identifier: MIT
"""An interruption that comes while C code calls Python is not lost: the command ends by it all the same."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.cli.terminal import EXIT_INTERRUPTED
from harness.paths import ROOT
from tests.processes import PATIENCE_S

#: A signal comes while an object is dropped, where no exception can be passed on; then a command does what it does.
CODE = """
import os, signal, time
from invoke import Exit
from harness.cli.terminal import guarded
from harness.errors import UsageError

class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        time.sleep(1)

def action():
    Dropped()
    print("went on", flush=True)
    {then}

try:
    guarded(action)
except Exit as ended:
    raise SystemExit(ended.code)
"""
#: A signal comes while a library is imported, whose C code makes an error of its own of whatever is raised there.
TURNED = """
import os, runpy, signal, sys
import {where} as place

def imported(*_, **__):
    try:
        os.kill(os.getpid(), signal.{name})
    except BaseException:
        raise ImportError("initialization failed") from None

place.{what} = imported
sys.argv = ["inv", "results"]
runpy.run_module("harness.commands.program", run_name="__main__")
"""
#: A signal comes when a scratch folder is made, and before anybody has said what becomes of it.
MADE = """
import os, signal, sys, time
from pathlib import Path
from invoke import Exit
from harness.cli.terminal import guarded
from harness.scratch import scratch_folder

def action():
    scratch_folder(Path(sys.argv[1]), "trial")
    print(len(os.listdir(sys.argv[1])), flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(30)

try:
    guarded(action)
except Exit as ended:
    raise SystemExit(ended.code)
"""
#: After the last of these, other errors that are printed and forgotten are still printed.
OTHER = """
from harness.cli.terminal import end_in_order
end_in_order()
class Dropped:
    def __del__(self):
        raise ValueError("told")
Dropped()
"""


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    # A signal that whoever runs the tests ignores (nohup, a shell's `&`) stays ignored in a command, as it should.
    words = ["env", "--default-signal", sys.executable, "-c", code, *arguments]
    return subprocess.run(
        words, capture_output=True, text=True, cwd=ROOT, check=False, timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("then", ["time.sleep(30)", "raise UsageError('pattern', where='field')", "pass"])
def test_a_signal_in_a_callback_of_c_code_ends_the_command(name: str, then: str):
    ended = python(CODE.format(name=name, then=then))
    assert ended.stdout == "went on\n", "the interpreter swallowed it"
    assert ended.returncode == EXIT_INTERRUPTED
    # The last resort says that a process may still be running.
    assert ended.stderr == "krepro: interrupted; guests are killed, and no partial files are left\n"


def test_other_errors_are_printed_as_ever():
    assert "ValueError: told" in python(OTHER).stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize(
    ("where", "what"), [("invoke.program", "Program.parse_core"), ("harness.sets.listing", "set_paths")]
)
def test_a_signal_that_became_an_error_of_a_library_ends_the_command(name: str, where: str, what: str):
    ended = python(TURNED.format(name=name, where=where, what=what))
    assert ended.stderr == "krepro: interrupted; guests are killed, and no partial files are left\n"
    assert ended.returncode == EXIT_INTERRUPTED


def test_an_interrupted_command_leaves_no_scratch_folder(tmp_path):
    ended = python(MADE, str(tmp_path))
    assert (ended.stdout, ended.returncode) == ("1\n", EXIT_INTERRUPTED), ended.stderr
    assert not list(tmp_path.iterdir())
