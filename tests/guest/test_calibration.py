# SPDX-License-Identifier: MIT
"""What a trace costs on this very host: measured, and nothing of it stays, however it ends. Where the host has that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.errors import EXIT_OK, EXIT_USAGE
from harness.paths import ROOT
from harness.program.bpftrace import among_trace_points
from harness.program.onhost import CPU, SETTINGS, STATE

SHOWS = among_trace_points(["test", "-d", "/sys/kernel/tracing/events"])
ABLE = not os.geteuid() and CPU in os.sched_getaffinity(0) and not subprocess.run(SHOWS, check=False).returncode
here = pytest.mark.skipif(not ABLE, reason="needs root, trace points and CPU 0")
LEFT = "cat /sys/kernel/tracing/uprobe_events /sys/kernel/tracing/kprobe_events; ls /sys/kernel/tracing/instances"


def calibrating(out: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "harness.commands.program", "calibrate", "--repetitions", "1", "--out", str(out)]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def left() -> str:
    done = subprocess.run(among_trace_points(["sh", "-c", LEFT]), capture_output=True, text=True, check=False)
    return "\n".join(line for line in done.stdout.splitlines() if "krepro" in line)


def settings() -> list[str]:
    return [Path(name).read_text() for name in SETTINGS if Path(name).exists()]


def below(pid: int) -> list[int]:
    """The processes below one, the nearest first."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [one for child in children for one in (int(child), *below(int(child)))]


def until(what: object) -> None:
    for _ in range(600):
        if what():  # type: ignore[operator]
            return
        time.sleep(0.1)
    pytest.fail(f"{what} did not come")


@pytest.mark.deep
@here
def test_a_host_is_measured_and_left_as_it_was(tmp_path):
    before = settings()
    process = calibrating(tmp_path / "model.json")
    said = process.communicate(timeout=600)[0]
    assert process.returncode == EXIT_OK, said
    model = json.loads((tmp_path / "model.json").read_text())
    assert (model["unit"], model["fidelity"], model["kernel"]) == ("ns", "host", os.uname().release)
    assert model["calibrated"]["cpus"] == os.cpu_count()
    assert "consumer" in model["providers"]["tracepoint"]["stages"]
    assert (left(), STATE.exists(), settings()) == ("", False, before)


@here
@pytest.mark.parametrize(
    "how",
    [
        "interrupted",
        pytest.param("killed", marks=pytest.mark.deep),
        pytest.param("killed with what cleans up", marks=pytest.mark.deep),
    ],
)
def test_nothing_stays_of_one_that_was_ended(how, tmp_path):
    before = settings()
    process = calibrating(tmp_path / "model.json")
    until(lambda: "krepro/e0" in left())
    if how == "interrupted":
        process.send_signal(signal.SIGINT)
    else:
        # The last are those that measure; what cleans up is what this process started.
        chosen = [process.pid, *below(process.pid)] if how == "killed with what cleans up" else [process.pid]
        for pid in reversed(chosen):
            os.kill(pid, signal.SIGKILL)
    process.wait(60)
    if how == "killed with what cleans up":
        assert "krepro" in left()
        again = calibrating(tmp_path / "again.json")
        assert "another calibration runs, or was killed (./inv calibrate undo)" in again.communicate(timeout=60)[0]
        assert again.returncode == EXIT_USAGE
        undo = [sys.executable, "-m", "harness.commands.program", "calibrate", "undo"]
        done = subprocess.run(undo, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert "instance krepro0 is gone" in done
    until(lambda: not STATE.exists())
    assert (left(), settings()) == ("", before)
    assert not (tmp_path / "model.json").exists()
