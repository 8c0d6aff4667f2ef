# SPDX-License-Identifier: MIT
"""A run is ended by a signal before its guests run: while it starts, makes its environment, builds or boots."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.errors import EXIT_OK
from harness.paths import ROOT
from tests.faults.rows import fault
from tests.faults.runs import STAGES, Place, come_to, members, seeded_store
from tests.processes import DEFAULT_SIGNALS, eventually, machines

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

YAML = """\
name: faulty
paper: {authors: [Nobody], year: 2024, title: A run that is broken off}
workloads:
  work: {command: "echo well", timeout_s: 20}
arms:
  virtual: {kernel: classic, clock: virtual}
repetitions: {quick: 4}
"""
#: What ends a run; the last one cannot be seen by it.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
#: From a signal to the end of the command, on a machine that is busy.
MOST_S = 20.0


def place_for(root: Path, stage: str) -> Place:
    """A place whose runs come to the stage, with a store of its own where the stage makes something for it."""
    store = {"KREPRO_STORE": str(seeded_store(root / "store"))} if stage in STAGES else {}
    return Place(root, YAML, store)


def end(place: Place, process: subprocess.Popen[str], number: int) -> str:
    """Send a signal and see the command end as it must; what it told."""
    process.send_signal(number)
    sent = time.monotonic()
    _, err = process.communicate(timeout=60)
    took = time.monotonic() - sent
    assert process.returncode == (-number if number == signal.SIGKILL else 130), err
    assert took < MOST_S, number
    assert "Traceback" not in err
    told = [line for line in err.splitlines() if line.startswith("krepro: ") and "warning" not in line]
    assert len(told) == (number != signal.SIGKILL), err
    assert eventually(lambda: not machines(place.temporary), 30), "no guest outlives its run"
    assert eventually(lambda: not members(process.pid), 30), members(process.pid)
    for path in place.sets():
        assert (path / "manifest.json").is_file(), "no half-written set"
    return err


# -- signals --------------------------------------------------------------------------------------------------------


@fault("SIGINT, SIGTERM or SIGHUP while `./inv run` starts", "ended by the signal, or code 130 and one line", MOST_S)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_ended_before_it_has_begun_says_no_more_than_that(tmp_path, number):
    place = place_for(tmp_path, "start")
    command = [*DEFAULT_SIGNALS, sys.executable, "inv", "run", str(place.folder), "--results", str(place.results)]
    for tenths in range(12):
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, **place.environment},
        )  # fmt: skip
        time.sleep(0.05 + tenths / 10)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        if number == signal.SIGINT and ("Python runtime state" in err or 'inv", line 0' in err):
            continue  # Python itself was starting, and had come to no line of ours
        assert process.returncode in (130, -number), err
        assert "Traceback" not in err, tenths
        assert len([line for line in err.splitlines() if line.startswith("krepro: ")]) == (process.returncode > 0), err
        assert not out
        place.check_nothing_is_left()


@fault("SIGINT, SIGTERM, SIGHUP or SIGKILL while an image is built or a state is saved",
       "code 130, one line; the same command goes on", MOST_S)  # fmt: skip
@pytest.mark.parametrize("stage", ["image", "state"])
def test_a_run_that_is_ended_while_it_builds_or_boots_goes_on(tmp_path, stage):
    place = place_for(tmp_path, stage)
    for number in SIGNALS:
        process = place.start()
        come_to(place, process, stage)
        end(place, process, number)
        if number != signal.SIGKILL:
            place.check_nothing_is_left()
    ended = place.run()
    assert ended.status == EXIT_OK, ended.err
    place.check_nothing_is_left()


@fault("SIGINT, SIGTERM or SIGKILL while the Python environment is made",
       "no process is left; the next command makes it anew", MOST_S)  # fmt: skip
def test_an_environment_that_is_half_made_is_made_anew(tmp_path):
    checkout = tmp_path / "krepro"
    subprocess.run(["git", "clone", "--quiet", ROOT, checkout], check=True)
    stamp = checkout / ".venv/krepro-lock.sha256"
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            process = subprocess.Popen(
                [*DEFAULT_SIGNALS, sys.executable, "inv", "--list"], cwd=checkout, start_new_session=True, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            assert eventually(lambda: (checkout / ".venv/bin/pip").exists() or process.poll() is not None, 120)  # noqa: B023
            assert process.poll() is None, process.communicate()[1]
            time.sleep(1)
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
            assert process.returncode == -number, err
            assert "Traceback" not in err
            assert eventually(lambda: not members(process.pid), 10), members(process.pid)  # noqa: B023
            assert not stamp.exists(), "what is not whole passes for nothing"
            (checkout / ".venv/bin/pip").unlink()
    finally:
        shutil.rmtree(checkout)
