# SPDX-License-Identifier: MIT
"""The table of a command's stages, of whichever of its processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from harness.paths import ROOT
from harness.report.telling import stage_lines
from harness.stagetimes import EARLIER, Stage

PROGRAM = """
import sys, time
from pathlib import Path
from harness import stagetimes
if len(sys.argv) > 2:
    stagetimes.keep_in(Path(sys.argv[2]))
begun = time.monotonic() - float(sys.argv[1])
stagetimes.ended(f"stage of {sys.argv[1]}", begun, "a lock")
print(*(stage.name for stage in stagetimes.taken()), sep=",")
print(stagetimes.made_environment_since())
"""


def run(*words: object, **environment: str) -> list[str]:
    argv = [sys.executable, "-c", PROGRAM, *map(str, words)]
    done = subprocess.run(argv, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_commands_process_knows_the_stages_of_those_before_it(tmp_path):
    file = tmp_path / "stages"
    before = time.time()
    assert run(30, file) == ["stage of 30", "None"]
    names, since = run(5, **{EARLIER: str(file)})
    assert names == "stage of 30,stage of 5"  # in the order in which they began
    assert before - 31 < float(since) < time.time() - 29
    file.write_text("no JSON\n")
    assert run(5, **{EARLIER: str(file)}) == ["stage of 5", "None"]


def test_a_table_says_what_began_when_how_long_it_took_and_what_it_waited_for():
    stages = [Stage("unpacking", 100.0, 12.34), Stage("quick", 101.0, 0.2), Stage("waiting", 103.5, 4.0, "tools tree")]
    assert [line.split() for line in stage_lines(stages)] == [
        ["stage", "start", "seconds", "waited", "for"],
        ["unpacking", "0.0", "12.3"],
        ["waiting", "3.5", "4.0", "tools", "tree"],
    ]
    assert stage_lines([]) == []
    assert all(len(line) <= 80 for line in stage_lines([Stage("x" * 90, 0.0, 999.0)]))
