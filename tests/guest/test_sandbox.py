# SPDX-License-Identifier: MIT
"""QEMU's sandbox: what a QEMU that a guest has taken over, played by a plugin, can do to its host."""

from __future__ import annotations

import errno
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.machine import process
from harness.machine.plugin import build_plugin, plugin_api
from harness.machine.qemu import qemu_version
from harness.machine.sandbox import Sandbox, View, environment, sandbox
from harness.machine.spec import Plugin
from harness.packages.tree import tools
from harness.paths import ROOT
from harness.scratch import PREFIX, discard, scratch_folder, sweep
from harness.trial.execution import run_trial
from tests.faults.rows import fault
from tests.mailbox_guests import mailbox_trial
from tests.processes import PATIENCE_S, eventually, machines, sandboxes

SOURCES = Path(__file__).with_name("broken_out")
#: What works in a sandbox of QEMU's own filter alone: it sees what its user sees.
UNSEEN = {"read", "write", "create", "passwd", "root", "loopback", "address", "interfaces", "kill", "ptrace"}
FILTERED = ("setuid", "priority", "mount", "vfork", "fork", "execve")


def attack(root: Path, last: str = "") -> tuple[dict[str, int], str | None]:
    """By what was tried, the errno that it got, 0 where it worked; why the trial failed."""
    home = root / "home"
    home.mkdir(parents=True)
    (home / "secret").write_text("mine")
    sleeper = subprocess.Popen(["sleep", "600"])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = build_plugin(Store.default(), "attack", SOURCES, plugin_api(qemu_version()))
        where = {"port": str(listener.getsockname()[1]), "pid": str(sleeper.pid), "home": str(home).lstrip("/")}
        where["last"] = last
        trial = mailbox_trial(root / "trial", "true", "tcg", restored=False)
        plugin = Plugin(path=made.file("attack.so"), arguments=where)
        record = run_trial(trial.model_copy(update={"plugin": plugin}))
    sleeper.kill()
    sleeper.wait()
    assert (home / "secret").read_text() == "mine"
    lines = (trial.folder / "oracle/report").read_text().splitlines()
    return {name: int(number) for name, number in (line.split() for line in lines)}, record.reason


def test_a_qemu_that_is_taken_over_reaches_nothing(tmp_path):
    assert sandbox().told == "bubblewrap + seccomp", "this host allows it"
    attacked, reason = attack(tmp_path)
    assert reason is None, "the guest itself is not disturbed"
    assert attacked.keys() == UNSEEN | {"last"}
    assert not [name for name, number in attacked.items() if number == 0]
    assert attacked["read"] == attacked["passwd"] == errno.ENOENT
    assert attacked["kill"] == errno.ESRCH


@pytest.mark.parametrize("last", FILTERED)
def test_a_qemu_that_would_start_or_become_another_is_killed(tmp_path, last):
    attacked, reason = attack(tmp_path, last)
    assert "last" in attacked
    assert attacked.get(last) != 0
    assert (reason is None) == (last in attacked), "QEMU was killed, or got an error"


def test_without_user_namespaces_it_sees_what_its_user_sees_and_starts_nothing(tmp_path, monkeypatch):
    alone = Sandbox((), filtered=True, why="a test")
    monkeypatch.setattr(process, "sandbox", lambda: alone)
    attacked, reason = attack(tmp_path / "seen")
    assert reason is None
    assert attacked["read"] == attacked["loopback"] == attacked["create"] == 0, "else the other test could not fail"
    attacked, reason = attack(tmp_path / "started", "execve")
    assert "execve" not in attacked
    assert reason is not None, "QEMU was killed"


@pytest.mark.deep
def test_a_qemu_of_root_has_no_capability(tmp_path, ssh_guest, classic, monkeypatch):
    for chosen in (sandbox(), Sandbox((), filtered=True, why="a test")):
        monkeypatch.setattr(process, "sandbox", lambda chosen=chosen: chosen)
        machine, session = ssh_guest(classic)
        lines = Path(f"/proc/{machine.process.pid}/status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines)
        assert machine.process.pid != os.getpid()
        assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0} or (
            os.geteuid() != 0 and not chosen.program  # the bounding set is an ordinary user's, who has none of it
        )
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert session.command("echo well") == (0, "well\n", "")


def test_a_guest_that_writes_too_much_is_told_how_much_it_may(tmp_path):
    trial = mailbox_trial(tmp_path / "trial", "head -c 3000000 /dev/zero >big", "tcg", restored=True)
    record = run_trial(trial.model_copy(update={"file_bytes": 2_000_000}))
    assert record.status == "failed"
    assert record.reason.startswith("the guest filled bulk with 2000000 bytes; all after them is lost (KREPRO_")
    assert run_trial(trial).status == "ok"


def test_the_set_says_what_qemu_was_shut_in(tmp_path):
    record = run_trial(mailbox_trial(tmp_path / "trial", "true", "tcg", restored=True))
    assert record.sandbox == sandbox().told
    assert record.argv[-2] == "-sandbox"
    assert tools().told.startswith("tree ")


def killed_while_set_up(folder: Path) -> None:
    """Kill sandboxes in their first milliseconds until a child is left that waits for its parent."""
    command = [*sandbox().words(tools(), View((), folder)), *tools().qemu(), "--version"]
    with (folder / "qemu.stderr").open("wb") as stderr:
        for _ in range(1000):
            started = subprocess.Popen(command, stdout=stderr, stderr=stderr, env=environment())
            time.sleep(random.uniform(0, 0.02))
            started.kill()
            started.wait()
            if sandboxes(folder) and not eventually(lambda: not sandboxes(folder), 1):
                return
    pytest.skip("no sandbox was killed at that moment")


def owned(parent: Path) -> tuple[Path, Callable[[], None]]:
    folder = scratch_folder(parent, "trial")
    return folder, lambda: discard(folder)


def abandoned(parent: Path) -> tuple[Path, Callable[[], None]]:
    folder = parent / f"{PREFIX}trial-dead"
    folder.mkdir()
    return folder, lambda: sweep(parent)


@pytest.mark.deep
@fault("SIGKILL while a sandbox is set up", "the next run ends what is left of it, with its folder")
@pytest.mark.parametrize("made", [owned, abandoned])
def test_a_sandbox_that_was_killed_while_it_was_set_up_ends_with_its_folder(made, tmp_path):
    if not sandbox().program:
        pytest.skip("this host has no bubblewrap that works")
    folder, done_with = made(tmp_path)
    killed_while_set_up(folder)
    other = tmp_path / "other"
    other.mkdir()
    killed_while_set_up(other)
    done_with()
    assert eventually(lambda: not sandboxes(folder))
    assert not folder.exists()
    assert sandboxes(other), "what belongs to another folder is left alone"
    discard(other)
    assert eventually(lambda: not sandboxes(other))


#: Words: QEMU's folder, and whether bubblewrap encloses it. QEMU starts a second after its harness did all for that.
LATE = """
import subprocess, sys, time
from pathlib import Path
from harness.machine import process
from harness.machine.qemu import qemu_version
from harness.machine.sandbox import Sandbox, View, sandbox

def late(words, **options):
    begun = begin(["sh", "-c", 'sleep 1; exec "$@"', "-", *words], **options)
    print("begun", flush=True)
    return begun

folder = Path(sys.argv[1])
chosen = sandbox() if sys.argv[2] == "enclosed" else Sandbox((), filtered=True, why="a test")
process.sandbox = lambda: chosen
qemu_version()
begin, subprocess.Popen = subprocess.Popen, late
words = ["qemu-system-x86_64", "-nodefaults", "-display", "none", "-S", "-machine", "pc"]
with (folder / "qemu.stderr").open("wb") as stderr:
    made = process.QemuProcess([*words, "-serial", f"file:{folder / 'console.log'}"], View((), folder), stderr,
                               memory_mib=128, file_bytes=1 << 20)
time.sleep(600)
"""


@pytest.mark.deep
@fault("SIGKILL of the harness while QEMU starts", "QEMU ends, once it is up and finds no harness")
@pytest.mark.parametrize("boxed", ["enclosed", "alone"])
def test_a_qemu_whose_harness_was_killed_before_it_was_up_ends(boxed, tmp_path):
    for killed in (False, True):
        folder = tmp_path / f"{'x' * 120}-{killed}"
        folder.mkdir()
        command = [sys.executable, "-c", LATE, str(folder), boxed]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as harness:
            assert harness.stdout is not None
            assert harness.stdout.readline() == "begun\n"
            try:
                if not killed:
                    assert eventually(lambda folder=folder: machines(folder))
                    assert not eventually(lambda folder=folder: not machines(folder), 3), "it runs with its harness"
            finally:
                harness.kill()
        told = folder / "qemu.stderr"
        try:
            if killed:
                assert eventually(lambda told=told: "Failed to connect to 'alive'" in told.read_text()), "it was up"
            assert eventually(lambda folder=folder: not machines(folder) + sandboxes(folder))
        finally:
            for left in machines(folder) + sandboxes(folder):
                os.kill(left, signal.SIGKILL)


def test_a_qemu_that_was_left_ends_with_its_folder(tmp_path):
    folder, done_with = abandoned(tmp_path)
    command = [*tools().qemu(), "-nodefaults", "-display", "none", "-S", "-machine", "none"]
    with (folder / "qemu.stderr").open("wb") as stderr, subprocess.Popen(command, stderr=stderr) as left:
        try:
            assert not eventually(lambda: left.poll() is not None, 2), "it would stay"
            done_with()
            assert left.wait(PATIENCE_S) == -signal.SIGKILL
        finally:
            left.kill()
    assert not folder.exists()
