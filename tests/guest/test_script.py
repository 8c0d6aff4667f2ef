# SPDX-License-Identifier: MIT
"""`boot --exec` for scripts: streams apart, input not lost, status passed on, files in and out, an end in time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.paths import ROOT
from tests.processes import PATIENCE_S

pytestmark = pytest.mark.timeout(1800)
BOOT = [sys.executable, "-m", "harness.commands.program", "boot", "classic"]


def boot(folder: Path, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """What a script gets that calls `./inv boot classic` in `folder`."""
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(Path.home())}
    command = [*BOOT, "--accel", "tcg", *words]
    return subprocess.run(
        command, input=stdin, capture_output=True, check=False, cwd=folder, env=env, timeout=PATIENCE_S
    )


def test_streams_status_and_files(classic, tmp_path):
    (tmp_path / "in.txt").write_text("from the host\n")
    (tmp_path / "tree/deep").mkdir(parents=True)
    (tmp_path / "tree/deep/file").write_text("deep")
    data = bytes(range(256)) * 4096  # more than a window of ssh, and no text
    done = boot(
        tmp_path,
        *("--exec", "cat; cat in.txt >&2; cat /tmp/t/deep/file >out.txt; exit 7"),
        *("--in", "in.txt,tree:/tmp/t", "--out", "out.txt:here.txt,/proc/interrupts,/tmp/t"),
        stdin=data,
    )
    assert done.stdout == data
    assert b"from the host\n" in done.stderr
    assert done.returncode == 7
    assert (tmp_path / "here.txt").read_text() == "deep"
    assert "timer" in (tmp_path / "interrupts").read_text()
    assert (tmp_path / "t/deep/file").read_text() == "deep"


@pytest.mark.deep
def test_commands_piped_at_once_are_not_lost(classic, tmp_path):
    done = boot(tmp_path, stdin=b"uname -m\necho $((6*7))\nexit 3\n")
    assert (done.stdout, done.returncode) == (b"i686\n42\n", 3)


@pytest.mark.deep
def test_words_after_dashes_are_the_command(classic, tmp_path):
    done = boot(tmp_path, "--", "echo", "a  b", "$HOME")
    assert (done.stdout, done.returncode) == (b"a  b $HOME\n", 0)


@pytest.mark.deep
def test_a_command_that_takes_too_long_ends(classic, tmp_path):
    done = boot(tmp_path, "--timeout", "2", "--exec", "echo begun; sleep 100000")
    assert (done.stdout, done.returncode) == (b"begun\n", 3)
    assert b"did not finish 'echo begun; sleep 100000' within 2 s" in done.stderr


@pytest.mark.deep
def test_a_command_that_is_killed_has_the_status_of_a_shell(classic, tmp_path):
    assert boot(tmp_path, "--exec", "kill -9 $$").returncode == 128 + 9


def test_a_guest_that_panics_is_an_error_that_says_so(classic, tmp_path):
    done = boot(tmp_path, "--exec", "echo c >/proc/sysrq-trigger")
    assert done.returncode == 3
    assert b"the guest panicked; console: " in done.stderr
    assert b"Kernel panic - not syncing: sysrq triggered crash" in done.stderr.splitlines()[-1]


@pytest.mark.deep
def test_a_file_that_is_not_there_to_come_out_is_an_error_and_the_others_come(classic, tmp_path):
    done = boot(tmp_path, "--exec", "true", "--out", "/nowhere,/etc/profile")
    assert done.returncode == 3
    assert b"--out: the guest has no /nowhere" in done.stderr
    assert (tmp_path / "profile").is_file()
    failed = boot(tmp_path, "--exec", "exit 5", "--out", "/nowhere")
    assert failed.returncode == 5
    assert b"warning: --out: the guest has no /nowhere" in failed.stderr


def test_a_file_that_is_not_there_to_go_in_boots_nothing(tmp_path):
    done = boot(tmp_path, "--exec", "true", "--in", "nowhere")
    assert done.returncode == 2
    assert b"nowhere: --in: is not there" in done.stderr
