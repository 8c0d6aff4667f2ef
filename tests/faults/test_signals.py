# SPDX-License-Identifier: MIT
"""Ctrl-C once, twice and five times, SIGTERM and SIGHUP: a run ends at once, in one line, and leaves nothing behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.paths import ROOT
from tests.faults.rows import fault
from tests.faults.runs import members
from tests.folders import NOTHING, experiment
from tests.processes import DEFAULT_SIGNALS, eventually, machines

pytestmark = [pytest.mark.guest, pytest.mark.timeout(3600)]

#: Longer than any of these tests waits.
ENDLESS = """\
name: endless
paper: {authors: [Nobody], year: 2024, title: A guest that does not end}
workloads:
  spin: {command: "while :; do :; done"}
arms:
  virtual: {kernel: classic, clock: virtual}
  wall: {kernel: classic, clock: wall}
repetitions: {quick: 4}
"""
MOST_S = 10.0


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    return experiment(tmp_path / "endless", ENDLESS, NOTHING)


def ended(folder: Path, arm: str, signals: list[int], gap_s: float, *, terminal: bool) -> None:
    """Start a run, signal it (as a terminal does its whole group, or alone), and see how it ends."""
    temporary = folder.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    results = folder.parent / "results"
    words = ["-m", "invoke", "run", str(folder), "--arms", arm, "--repetitions", "4", "--results", str(results)]
    process = subprocess.Popen(
        [*DEFAULT_SIGNALS, sys.executable, *words],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
        start_new_session=True,
    )
    try:
        assert eventually(lambda: machines(temporary) or process.poll() is not None, 300), "a guest runs"
        time.sleep(random.uniform(0, 1.5))
        begun = time.monotonic()
        for number in signals:
            (os.killpg if terminal else os.kill)(process.pid, number)
            time.sleep(gap_s)
        _, err = process.communicate(timeout=60)
        took = time.monotonic() - begun
    finally:
        left = not eventually(lambda: not members(process.pid), 2) and members(process.pid)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 130, err
    assert took < MOST_S
    assert "Traceback" not in err
    assert len([line for line in err.splitlines() if line.startswith("krepro: ")]) == 1, err
    assert "krepro: interrupted; " in err
    assert not machines(temporary)
    assert not left, "no worker outlives the run"
    assert not list(temporary.iterdir())
    assert not [path for path in results.rglob("*") if not path.is_dir()]


@fault("Ctrl-C once, twice or five times, during trials", "code 130, one line", MOST_S)
@pytest.mark.parametrize("arm", ["virtual", "wall"])
@pytest.mark.parametrize("gap_s", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_ctrl_c_any_number_of_times(endless, arm, count, gap_s):
    ended(endless, arm, [signal.SIGINT] * count, gap_s, terminal=True)


@fault("SIGTERM, SIGHUP or SIGINT to the harness alone", "code 130, one line", MOST_S)
@pytest.mark.parametrize("arm", ["virtual", "wall"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_the_harness_alone(endless, arm, number):
    ended(endless, arm, [number], 0.0, terminal=False)


@fault("the terminal is closed", "code 130", MOST_S)
def test_a_terminal_that_is_closed_ends_all(endless):
    ended(endless, "virtual", [signal.SIGHUP, signal.SIGCONT, signal.SIGTERM], 0.05, terminal=True)
