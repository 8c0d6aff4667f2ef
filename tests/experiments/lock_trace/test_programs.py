# SPDX-License-Identifier: MIT
"""The programs of lock-trace on this host: arguments, statuses, what the launcher does with what the kernel gives."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from harness.image.programs import build_program, build_programs, program_sources
from harness.paths import EXPERIMENTS
from tests.conftest import needs_guest_packages
from tests.processes import DEFAULT_SIGNALS, PATIENCE_S

GUEST = EXPERIMENTS / "lock-trace/guest"
PROGRAMS = ("locktrace", "lockload", "filestorm", "forkstorm", "pingpong")
#: And how many operations that is.
STORMS = {
    "filestorm -n 50 -p 3": 150,
    "filestorm -d own": 2000,
    "forkstorm -n 10": 20,
    "pingpong -n 50": 50,
    "pingpong -t unix -n 50 -b 4096 -p 2": 100,
}
WINDOW = 32 << 20

pytestmark = needs_guest_packages


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("programs")
    sources = program_sources([GUEST])
    build_programs("x86_64", {name: sources[name] for name in PROGRAMS}, folder, folder / "log")
    fake = Path(__file__).parents[2] / "lock_fake.c"
    wrap = [f"-Wl,--wrap={name}" for name in ("open", "ioctl", "read")]
    build_program("x86_64", sources["locktrace"], folder / "faked", folder / "log", [*wrap, fake])
    return folder


def run(programs: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [programs / words[0], *words[1:]]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@pytest.fixture
def faked(programs, tmp_path):
    """Runs the launcher on a kernel that gives so many events."""

    def go(events: int, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        for name in ("locks", "sites"):
            (tmp_path / name).write_text(f"{name}\tx\n1\t2\n")
        out = str(tmp_path / "out")
        fields = {"LOCK_FAKE_EVENTS": str(events), "LOCK_FAKE_TABLES": str(tmp_path), **environment}
        return run(programs, "faked", "-m", "all", "-o", out, *words, **fields)

    return go


def usage_status(name: str) -> int:
    """The launcher passes its command's status on, so 2 would be that."""
    return 125 if name == "locktrace" else 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_bad_arguments_are_one_line(programs, name):
    for words in (["-?"], ["load", "--n", "3"], ["pair", "--ops", "3"], ["-n", "x"], ["x"]):
        done = run(programs, name, *words)
        assert (done.returncode, done.stderr.count("\n")) == (usage_status(name), 1), words
        assert done.stderr.startswith(f"{name}: ")


@pytest.mark.parametrize(
    "words",
    [
        "locktrace -m no -o x true",
        "locktrace -o x true",
        "locktrace -m all true",
        "locktrace -m all -o x",
        "locktrace -m all -r 25 -o x true",
        "lockload",
        "lockload pair --n 20001",
        "lockload load --kind no",
        "lockload load --threads 33",
        "lockload load --conflicts 1001",
        "lockload load extra",
        "filestorm -f 1025",
        "pingpong -t no",
    ],
)
def test_wrong_values_are_one_line(programs, words):
    done = run(programs, *words.split())
    assert (done.returncode, done.stderr.count("\n"), done.stdout) == (usage_status(words.split()[0]), 1, "")


@pytest.mark.parametrize("words", ["locktrace -m all -o x true", "lockload load"])
def test_without_a_device_the_reason_is_one_line(programs, words):
    done = run(programs, *words.split())
    assert (done.returncode, done.stderr.count("\n")) == (125, 1)
    assert ": /dev/lock" in done.stderr


@pytest.mark.parametrize(
    ("script", "status"), [("exit 7", 7), ("kill -9 $$", -9), ("kill -TERM $$", -15), ("exit 0", 0)]
)
def test_the_launcher_ends_as_the_command_does(programs, faked, script, status):
    assert faked(10, "--", "sh", "-c", script).returncode == status
    assert run(programs, "locktrace", "-m", "off", "-o", "/nowhere", "sh", "-c", script).returncode == status


def test_a_command_that_is_not_there(programs, faked):
    for done in (faked(10, "/no/such"), run(programs, "locktrace", "-m", "off", "-o", "x", "/no/such")):
        assert (done.returncode, done.stderr.count("\n")) == (127, 1)


@pytest.mark.parametrize("late", [[], ["-n"]])
@pytest.mark.parametrize("events", [0, 1, 1_100_000])
def test_every_event_arrives_once_and_in_order(faked, tmp_path, events, late):
    done = faked(events, "-r", "9", "-i", "1000", *late, "--", "sleep", "0.2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    data = np.fromfile(tmp_path / "out/events.bin", dtype="<u8").reshape(-1, 8)
    assert len(data) == events
    assert (data[:, 0] == np.arange(1, events + 1)).all()
    assert events * 64 > 2 * WINDOW or events < 2
    status = json.loads((tmp_path / "out/status.json").read_text())
    assert status["events"] == status["drained"] == events
    assert (status["kept"], status["lost"]) == ([events, 0, 0], [0, 0, 0])
    assert (status["kinds"], status["pool_full"]) == ([0, 0, 0, 0, 0, 0, 7, 0], 9)
    assert (status["ring_order"], status["late"], status["wait_status"]) == (9, bool(late), 0)
    assert (tmp_path / "out/sites.tsv").read_text() == "sites\tx\n1\t2\n"
    assert (tmp_path / "out/locks.tsv").read_text() == "locks\tx\n1\t2\n"
    names, *lines = (tmp_path / "out/fill.tsv").read_text().splitlines()
    assert names.split("\t") == ["time", "events", "kept", "dropped", "written", "lost", "drained"]
    drained = [int(line.split("\t")[-1]) for line in lines]
    assert drained == sorted(drained)
    assert drained[-1] == events
    assert len(lines) > 1
    assert set(drained[:-1]) == {0} or not late


def test_a_kernel_that_refuses_is_one_line(faked, tmp_path):
    for error, says in ((16, "running already"), (22, "of this size"), (12, "no memory"), (1, "not permitted")):
        done = faked(10, "touch", str(tmp_path / "ran"), LOCK_FAKE_START=str(error))
        assert (done.returncode, done.stderr.count("\n")) == (125, 1)
        assert says in done.stderr
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "out/events.bin").stat().st_size == 0


def test_signals_are_passed_on_and_the_trace_is_whole(programs, tmp_path):
    for name in ("locks", "sites"):
        (tmp_path / name).write_text("")
    fields = {"LOCK_FAKE_EVENTS": "1000", "LOCK_FAKE_TABLES": str(tmp_path)}
    script = f"trap 'exit 5' INT; touch {tmp_path}/ready; while :; do sleep 0.02; done"
    for number, status in ((signal.SIGINT, 5), (signal.SIGTERM, -15)):
        launcher = subprocess.Popen(
            [*DEFAULT_SIGNALS, programs / "faked", "-m", "all", "-o", tmp_path / "out", "sh", "-c", script],
            env={**os.environ, **fields},
        )
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        launcher.send_signal(number)
        assert launcher.wait(PATIENCE_S) == status
        assert json.loads((tmp_path / "out/status.json").read_text())["drained"] == 1000
        (tmp_path / "ready").unlink()
        (tmp_path / "out/status.json").unlink()


@pytest.mark.parametrize("words", STORMS)
def test_a_storm_says_what_it_did_and_leaves_nothing(programs, tmp_path, words):
    (tmp_path / "out").mkdir()
    place = ["-C", str(tmp_path)] if words.startswith("filestorm") else []
    done = run(programs, *words.split(), *place, "-o", str(tmp_path / "out"))
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert answer["workload"] == words.split()[0]
    assert answer["operations"] == STORMS[words]
    assert answer["elapsed_ns"] > 0
    names, values = (line.split("\t") for line in (tmp_path / "out/lap.tsv").read_text().splitlines())
    assert names == ["lap", "begin", "end"]
    assert answer["cycles"] == int(values[2]) - int(values[1]) > 0
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_a_storm_that_fails_says_so(programs, tmp_path):
    done = run(programs, "filestorm", "-C", str(tmp_path / "no"))
    assert (done.returncode, done.stderr.count("\n")) == (125, 1)


def test_a_storm_is_no_better_than_its_processes(programs, tmp_path):
    done = subprocess.run(
        [programs / "filestorm", "-C", tmp_path],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (125, "")
    assert "a process failed" in done.stderr
