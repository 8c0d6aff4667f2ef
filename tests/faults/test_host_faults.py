# SPDX-License-Identifier: MIT
"""What a host can do to a run: its QEMU stopped, killed, missing or too old, its file systems full or read-only, its
clock set."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from harness.errors import EXIT_OK, EXIT_RUN_FAILED, EXIT_USAGE
from tests.faults.rows import fault
from tests.faults.runs import Place, seeded_store
from tests.processes import eventually, machines

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

YAML = """\
name: faulty
paper: {authors: [Nobody], year: 2024, title: A host that fails}
workloads:
  work: {command: "echo well; dd if=/dev/zero of=/dev/null bs=4k count=60000 2>/dev/null; sleep 4", timeout_s: 20}
arms:
  virtual: {kernel: classic, clock: virtual}
  wall: {kernel: classic, clock: wall}
repetitions: {quick: 2}
"""
#: Of a QEMU that does not answer: until it is given up, and ended.
SILENT_S = 120.0
#: Of CPU, for QEMU to have started and its guest to run; a second of a busy machine may be too short.
GUEST_RUNS_S = 0.7
#: Python that takes this in lives in another time, now and then.
JUMPING = """\
import time
_time, _gmtime = time.time, time.gmtime
_begun = time.monotonic()
def _jump():
    return 40_000_000.0 * (1 if int(time.monotonic() - _begun) % 2 else -1)
time.time = lambda: _time() + _jump()
time.gmtime = lambda seconds=None: _gmtime(_time() + _jump() if seconds is None else seconds)
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


def with_mount(*commands: str) -> tuple[str, ...]:
    """Words before a command that sees these mounts alone: nobody else does, and none is left."""
    return ("unshare", "--mount", "sh", "-ec", f'{"; ".join(commands)}; exec "$@"', "sh")


def cpu_s(process: int) -> float:
    """What a process has had of CPUs, in seconds; 0 for one that has gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def reasons(place: Place) -> dict[str, str | None]:
    return {f"{trial['arm']} {trial['repetition']}": trial["reason"] for trial in place.manifest()["trials"]}


@fault("QEMU is killed (SIGKILL)", "its trial fails: `the guest ended`; the others are kept")
@fault("QEMU is stopped (SIGSTOP)", "its trial fails: QEMU did not answer, or no heartbeat; it is killed", SILENT_S)
@pytest.mark.parametrize("arm", ["virtual", "wall"])
@pytest.mark.parametrize(
    ("number", "says"),
    [(signal.SIGKILL, "the guest ended"), (signal.SIGSTOP, "the guest (cannot be reached|hung: no heartbeat)")],
)
def test_a_qemu_that_is_killed_or_stopped_costs_its_trial(tmp_path, arm, number, says):
    place = Place(tmp_path, YAML)
    process = place.start("--arms", arm)
    trials = place.temporary / ".krepro-trial-"  # another machine may prove KVM before
    assert eventually(lambda: max(map(cpu_s, machines(trials)), default=0) > GUEST_RUNS_S, 300)
    victim = max(machines(trials), key=cpu_s)
    begun = time.monotonic()
    os.kill(victim, number)
    assert eventually(lambda: not Path(f"/proc/{victim}").exists(), SILENT_S), "it is ended"
    took = time.monotonic() - begun
    _, err = process.communicate(timeout=600)
    assert process.returncode == EXIT_RUN_FAILED, err
    found = [reason for reason in reasons(place).values() if reason is not None]
    assert len(found) == 1, "the other trial is kept"
    assert re.match(says, found[0]), found
    assert took < SILENT_S
    place.check_nothing_is_left()


@fault("QEMU is missing, does not run, or is older than 7.2", "code 2, before anything is built")
@pytest.mark.parametrize(
    ("script", "says"),
    [
        (None, "qemu-system-x86_64 does not run"),
        ("#!/bin/sh\nexit 1\n", "qemu-system-x86_64 does not run"),
        ("#!/bin/sh\necho 'QEMU emulator version 5.2.0 (Debian)'\n", "is not QEMU 7.2 or later"),
    ],
)
def test_a_qemu_that_is_missing_or_too_old_is_found_before_anything_is_built(tmp_path, script, says):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("git", "env", "setpriv", "prlimit", "sh"):
        (programs / name).symlink_to(str(shutil.which(name)))
    if script is not None:
        (programs / "qemu-system-x86_64").write_text(script)
        (programs / "qemu-system-x86_64").chmod(0o755)
    environment = {"PATH": str(programs), "KREPRO_HOST_TOOLS": "1", "KREPRO_STORE": f"{tmp_path}/store"}
    place = Place(tmp_path / "place", YAML, environment)
    ended = place.run(timeout_s=120)
    assert ended.status == EXIT_USAGE, ended.err
    assert says in ended.lines[-1]
    assert not [path for path in (tmp_path / "store").rglob("*") if path.name == "bzImage"]
    place.check_nothing_is_left()


@fault("results or temporary folder full", "code 3; the same command goes on when there is room")
@needs_root
@pytest.mark.parametrize(("where", "size"), [("results", "64k"), ("temporary", "8k")])
def test_a_file_system_without_room_ends_a_run_in_one_line(tmp_path, where, size):
    place = Place(tmp_path, YAML)
    folder = {"results": place.results, "temporary": place.temporary}[where]
    small = with_mount(f"mount -t tmpfs -o size={size} tmpfs {folder}")
    ended = place.run("--arms", "virtual", before=small)
    assert ended.status == EXIT_RUN_FAILED, ended.err
    assert "no space left" in ended.err.lower()
    assert "Traceback" not in ended.err
    assert "bug of krepro" not in ended.err
    place.check_nothing_is_left()
    assert place.run("--arms", "virtual").status == EXIT_OK, "the same command then works"


@fault("results folder read-only", "one line, before a guest runs")
@needs_root
def test_results_that_cannot_be_written_are_told_before_a_guest_runs(tmp_path):
    place = Place(tmp_path, YAML)
    closed = with_mount(f"mount --bind {place.results} {place.results}", f"mount -o remount,bind,ro {place.results}")
    ended = place.run("--arms", "virtual", before=closed)
    assert ended.status in (EXIT_USAGE, EXIT_RUN_FAILED), ended.err
    assert "read-only file system" in ended.lines[-1].lower()
    assert "Traceback" not in ended.err
    place.check_nothing_is_left()


@fault("temporary folder read-only", "another temporary folder is used")
@needs_root
def test_temporary_files_that_cannot_be_written_go_elsewhere(tmp_path):
    place = Place(tmp_path, YAML)
    folder = place.temporary
    closed = with_mount(f"mount --bind {folder} {folder}", f"mount -o remount,bind,ro {folder}")
    assert place.run("--arms", "virtual", before=closed).status == EXIT_OK, "Python takes /tmp then"


@fault("the host's clock jumps by a year, forth and back", "same digest")
def test_a_clock_that_jumps_changes_no_bit(tmp_path):
    place = Place(tmp_path / "steady", YAML)
    assert place.run("--arms", "virtual").status == EXIT_OK
    (tmp_path / "jumps").mkdir()
    (tmp_path / "jumps/sitecustomize.py").write_text(JUMPING)
    jumping = Place(tmp_path / "jumping", YAML, {"PYTHONPATH": str(tmp_path / "jumps")})
    ended = jumping.run("--arms", "virtual")
    assert ended.status == EXIT_OK, ended.err
    assert jumping.manifest()["digest"] == place.manifest()["digest"]
    assert not jumping.manifest()["created"].startswith(place.manifest()["created"][:7]), "it did jump"


@fault("/dev/kvm opens, and guests under it hang", "they are emulated, and say why; `--accel kvm`: code 2")
def test_a_kvm_whose_guests_hang_is_found_by_a_boot(tmp_path):
    store = seeded_store(tmp_path / "store")
    place = Place(tmp_path / "place", YAML, {"KREPRO_STORE": str(store)})
    try:
        ended = place.run("--arms", "wall", "--accel", "kvm")
        if ended.status == EXIT_OK:
            pytest.skip("KVM works here")
        assert ended.status == EXIT_USAGE, ended.err
        if "there is no /dev/kvm" in ended.err or "does not open" in ended.err:
            pytest.skip("no /dev/kvm that opens")
        (line,) = ended.lines
        assert re.match(r"krepro: --accel kvm: /dev/kvm opens, but .* nothing (for|in) \d+ s", line)
        proof = next((store / "kvm").glob("*.json"))
        proof.unlink()  # it is kept for ten minutes
        ended = place.run("--arms", "wall")
        assert ended.status == EXIT_OK, ended.err
        assert proof.exists(), "it was tried again"
        assert "/dev/kvm opens, but" in place.manifest()["accelerator_why"]["wall"]
        place.check_nothing_is_left()
    finally:
        shutil.rmtree(store)
