# SPDX-License-Identifier: MIT
"""Where a result comes from: what is not committed is part of it, wherever it lies."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.sets.provenance import repository


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository with one committed file and one ignored name."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "kept").write_text("1\n")
    (folder / ".gitignore").write_text("*.log\n")
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", folder, *words], check=True)
    return folder


def test_a_clean_checkout(checkout):
    (checkout / "x.log").write_text("ignored")
    state = repository(checkout)
    assert (len(str(state.commit)), state.dirty, state.diff_sha256) == (40, False, None)
    assert state.absent == {"diff_sha256": "all is committed"}


@pytest.mark.parametrize("name", ["kept", "new", "folder/new", "folder/deeper/na\u00efve name", "folder/\udcff"])
def test_every_uncommitted_file_counts_by_its_content(checkout, name):
    path = checkout / name
    path.parent.mkdir(parents=True, exist_ok=True)
    hashes = {repository(checkout).diff_sha256}
    for content in (b"2\n", b"3\n", b"\0\xff", b"\0\xfe"):
        path.write_bytes(content)
        state = repository(checkout)
        assert state.dirty
        hashes.add(state.diff_sha256)
    assert len(hashes) == 5


def test_the_place_of_an_untracked_file_counts(checkout):
    (checkout / "folder").mkdir()
    (checkout / "folder/new").write_text("2")
    before = repository(checkout).diff_sha256
    (checkout / "folder/new").rename(checkout / "folder/moved")
    assert repository(checkout).diff_sha256 != before


def test_a_checkout_inside_is_told_by_its_name(checkout):
    subprocess.run(["git", "init", "-q", checkout / "inner"], check=True)
    (checkout / "inner/file").write_text("x")
    assert repository(checkout).dirty
    assert repository(checkout).commit is not None


def test_outside_of_a_checkout_there_is_a_reason(tmp_path):
    state = repository(tmp_path / "nowhere")
    assert (state.commit, state.dirty, state.diff_sha256) == (None, None, None)
    assert all(why.startswith("no git checkout: ") for why in state.absent.values())


def test_a_repository_around_an_installed_copy_is_not_its_own(checkout):
    state = repository(checkout, installed=True)
    assert (state.commit, state.dirty, state.diff_sha256) == (None, None, None)
    assert state.absent["commit"].endswith(" as it was installed")
