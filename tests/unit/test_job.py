# SPDX-License-Identifier: MIT
"""Jobs, run by a real sh with stub programs: hostile words arrive in the guest as they were written."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.guest.job import WorkloadCommand, trial_job, variable

#: Writes how many words it was called with, and the words, each ended by NUL; fails when told to.
STUB = """#!/bin/sh
printf '%s\\0' $(($# + 1)) "${0##*/}" "$@" >>"$CALLS"
[ "$1" != "$FAIL" ]
"""


@pytest.fixture
def sh(tmp_path: Path):
    """Run a job; its exit status, every call of a krepro program as a list of words, its output."""
    for name in ("krepro-seed", "krepro-workload", "krepro-pmu"):
        (tmp_path / name).write_text(STUB)
        (tmp_path / name).chmod(0o755)

    def run(job: str, fail: str = "-", after: str = "") -> tuple[int, list[list[str]], str]:
        calls = tmp_path / "calls"
        calls.write_bytes(b"")
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls), "FAIL": fail}
        done = subprocess.run(
            ["sh"], input=(job + after).encode(), env=environment, cwd=tmp_path, capture_output=True, check=False
        )
        words = calls.read_bytes().decode().split("\0")[:-1]
        found = []
        while words:
            count = int(words[0])
            found.append(words[1 : 1 + count])
            del words[: 1 + count]
        return done.returncode, [call for call in found if call[0] != "krepro-pmu"], done.stdout.decode()

    return run


HOSTILE = [
    "echo 'single' \"double\" $HOME `id` $(id) \\ | & ; < > * ? [a] # ! ~",
    'for f in *; do\n\techo "$f"\ndone',
    "'; touch hacked; '",
    "-n --help",
    "ümläut 漢字",
    " leading and trailing ",
]


@pytest.mark.parametrize("command", HOSTILE)
def test_hostile_commands_arrive_whole(sh, tmp_path, command):
    job = trial_job(7, {"text": command}, [WorkloadCommand("load", command, 2.5, ("profile", "interrupts"))])
    status, calls, out = sh(job, after='printf %s "$KREPRO_TEXT"')
    assert status == 0
    assert calls == [["krepro-seed", "7"], ["krepro-workload", "load", "2.5", command, "profile", "interrupts"]]
    assert out == command
    assert not (tmp_path / "hacked").exists()


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30))
@example("\n")
@example("\r\n'\\")
def test_any_text_arrives_whole(sh, text):
    _, calls, out = sh(trial_job(1, {"a": text}, [WorkloadCommand("w", text, 1, ())]), after='printf %s "$KREPRO_A"')
    assert calls[-1] == ["krepro-workload", "w", "1", text]
    assert out == text


def test_workloads_run_in_order_and_stop_at_a_failure(sh):
    workloads = [WorkloadCommand(name, "true", 1, ()) for name in ("one", "two", "three")]
    job = trial_job(1, {}, workloads)
    assert [words[1] for words in sh(job)[1]] == ["1", "one", "two", "three"]
    status, calls, _ = sh(job, fail="two")
    assert status == 1
    assert [words[1] for words in calls] == ["1", "one", "two"]
    status, calls, _ = sh(job, fail="1")
    assert (status, len(calls)) == (1, 1), "nothing runs in a guest that was not seeded"


def test_parameters_and_seed_are_environment_variables(sh):
    job = trial_job(42, {"irq_sampling": True, "off_one": False, "rate": 1.5, "n": 3, "word": "a b"}, [])
    out = sh(job, after="env | grep ^KREPRO_ | sort")[2]
    assert out.splitlines() == [
        "KREPRO_IRQ_SAMPLING=on",
        "KREPRO_N=3",
        "KREPRO_OFF_ONE=off",
        "KREPRO_RATE=1.5",
        "KREPRO_SEED=42",
        "KREPRO_WORD=a b",
    ]


@pytest.mark.parametrize("name", ["", "A", "a-b", "1a", "a b", "a\n", "a=b", "ä"])
def test_names_that_no_shell_takes_are_refused(name):
    with pytest.raises(UsageError, match="lower-case letters, digits and _ only"):
        variable(name)
