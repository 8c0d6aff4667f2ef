# SPDX-License-Identifier: MIT
"""The guest programs of irq-hotspot on the host: what of them needs no guest."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from harness.image.programs import build_programs, program_sources
from harness.paths import EXPERIMENTS
from tests.conftest import needs_guest_packages
from tests.processes import PATIENCE_S

FOLDER = EXPERIMENTS / "irq-hotspot"


@pytest.fixture(scope="module", params=["x86_64", "i386"])
def programs(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(f"programs-{request.param}")
    build_programs(request.param, program_sources([FOLDER / "guest"]), folder / "bin", folder / "log")
    return folder / "bin"


def run(program: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_S, env=environment
    )


@needs_guest_packages
def test_irqload_runs_for_its_time_and_gives_the_known_answer(programs):
    def start(mode: str) -> subprocess.Popen[str]:
        command = [programs / "irqload", mode, "--seconds", "1"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"KREPRO_SEED": "42"})

    with start("idle") as idle, start("syscalls") as syscalls:  # together: each takes a second
        slept, called = (json.loads(process.communicate(timeout=PATIENCE_S)[0]) for process in (idle, syscalls))
    assert idle.returncode == syscalls.returncode == 0
    assert slept["elapsed_ns"] >= 1e9
    assert called["seed"] == 42
    assert called["rounds"] > 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "usage"),
        (("dance",), "usage"),
        (("idle",), "--seconds"),
        (("idle", "--seconds", "0"), "not a number from 1"),
        (("idle", "--seconds", "1x"), "1x"),
        (("idle", "--seconds", "-1"), "-1"),
        (("edu", "--seconds", "1", "--rate", "10"), "--loops"),
        (("edu", "--seconds", "1", "--rate", "10", "--loops", "1", "--from", "moon"), "moon"),
        (("disk", "--device", "/dev/null", "--blocks", "1"), "--block-size"),
        (("net", "--host", "nowhere", "--port", "9000", "--bytes", "1"), "nowhere"),
        (("idle", "--seconds", "1", "more"), "more"),
    ],
)
@needs_guest_packages
def test_irqload_refuses_bad_words(programs, arguments, says):
    done = run(programs / "irqload", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert not done.stdout


@needs_guest_packages
def test_irqload_says_what_is_missing(programs):
    done = run(programs / "irqload", "edu", "--seconds", "1", "--rate", "10", "--loops", "1")
    assert done.returncode == 125
    assert "krepro-edu" in done.stderr


@needs_guest_packages
def test_collector_refuses_bad_words(programs, tmp_path):
    for arguments in ((), ("begin",), ("middle", str(tmp_path))):
        assert run(programs / "collect-profile", *arguments).returncode == 2
    done = run(programs / "collect-profile", "begin", str(tmp_path))
    assert done.returncode != 0
    assert "profile" in done.stderr
