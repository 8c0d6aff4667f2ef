# SPDX-License-Identifier: MIT
"""Temporary folders: one's own are kept, those of processes that were killed go with the next use."""

from __future__ import annotations

import os
import subprocess

from harness.scratch import PREFIX, scratch_folder


def test_folders_of_ended_processes_are_removed_and_no_others(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = tmp_path / f"{PREFIX}{ended.pid}-trial-abc"
    (left / "deep").mkdir(parents=True)
    other = tmp_path / "somebody-elses"
    other.mkdir()
    mine = scratch_folder(tmp_path / "", "trial")
    again = scratch_folder(tmp_path, "trial")
    assert not left.exists()
    assert {path.name for path in tmp_path.iterdir()} == {mine.name, again.name, other.name}
    assert mine.name.startswith(f"{PREFIX}{os.getpid()}-trial-")


def test_the_parent_is_made(tmp_path):
    assert scratch_folder(tmp_path / "a/b", "x").parent == tmp_path / "a/b"
