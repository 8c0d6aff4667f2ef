# SPDX-License-Identifier: MIT
"""Temporary folders: held ones are kept, those of processes that were killed go with the next use, however deep."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import scratch
from harness.paths import ROOT
from harness.scratch import PREFIX, discard, remove_tree, scratch_folder, sweep

HOLDER = """
import sys
from pathlib import Path
from harness.scratch import scratch_folder

print(scratch_folder(Path(sys.argv[1]), "trial"), flush=True)
sys.stdin.read()
"""


def holder(parent: Path, *before: str) -> tuple[subprocess.Popen[str], Path]:
    """Another process that holds a scratch folder until its standard input is closed or it is killed."""
    process = subprocess.Popen(
        [*before, sys.executable, "-c", HOLDER, str(parent)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def deep(root: Path, levels: int) -> Path:
    """A folder with that many levels of folders, each with a file; paths to them are longer than a path may be."""
    root.mkdir(parents=True)
    here = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
        os.mkdir("folder", dir_fd=here)
        inner = os.open("folder", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    return root


def test_folders_of_ended_processes_are_removed_and_no_others(tmp_path):
    process, left = holder(tmp_path)
    other = tmp_path / "somebody-elses"
    other.mkdir()
    mine = scratch_folder(tmp_path / "", "trial")
    assert left.is_dir(), "its process still runs"
    process.kill()
    process.wait()
    again = scratch_folder(tmp_path, "trial")
    assert {path.name for path in tmp_path.iterdir()} == {mine.name, again.name, other.name}
    assert mine.name.startswith(f"{PREFIX}trial-")
    discard(mine)
    discard(again)
    assert [path.name for path in tmp_path.iterdir()] == [other.name]
    assert not scratch._held.keys() & {mine, again}, "a folder that is gone holds no open file"


@pytest.mark.skipif(os.geteuid() != 0, reason="a PID namespace of one's own takes root")
def test_a_process_of_another_pid_namespace_keeps_its_folder(tmp_path):
    process, left = holder(tmp_path, "unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    try:
        assert left.is_dir()
        sweep(tmp_path)
        assert left.is_dir()
    finally:
        process.communicate("")
    sweep(tmp_path)
    assert not left.exists()


def test_leftovers_of_any_depth_go(tmp_path):
    left = deep(tmp_path / f"{PREFIX}trial-x", 3 * sys.getrecursionlimit())
    (left / "link").symlink_to(tmp_path)
    discard(scratch_folder(tmp_path, "trial"))
    assert not list(tmp_path.iterdir())


def test_a_tree_is_removed_whatever_its_names_and_modes(tmp_path):
    root = tmp_path / "root"
    for name in ("a/1.up/b", "2.up/c/d", "a/2.up", "3.up/e", b"\xff/g".decode(errors="surrogateescape")):
        (root / name).mkdir(parents=True)
    (root / "4.up").touch()
    (root / "a/b").mkdir()
    (root / "a/b").chmod(0)
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "a/out").symlink_to(outside)
    remove_tree(root)
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    remove_tree(root)


def test_what_belongs_to_another_user_is_left_alone(tmp_path, monkeypatch):
    left = tmp_path / f"{PREFIX}trial-x"
    left.mkdir()
    monkeypatch.setattr(scratch.os, "geteuid", lambda: left.stat().st_uid + 1)
    sweep(tmp_path)
    assert left.is_dir()
    monkeypatch.undo()
    sweep(tmp_path)
    assert not left.exists()


def test_where_there_are_no_locks_nothing_is_swept(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    one, two = scratch_folder(tmp_path, "trial"), scratch_folder(tmp_path, "trial")
    assert one.is_dir()
    discard(one)
    discard(two)
    assert not list(tmp_path.iterdir())
