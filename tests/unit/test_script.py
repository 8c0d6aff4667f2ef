# SPDX-License-Identifier: MIT
"""What the words of --in and --out mean, before anything boots."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.program.script import Copied, script_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/file").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("deep/file", "/root/file"),
        ("deep/file:other", "/root/other"),
        ("deep/file:/tmp/other", "/tmp/other"),
        ("deep/file:/tmp/", "/tmp/file"),
        ("deep", "/root/deep"),
        (".:here", "/root/here"),
    ],
)
def test_where_a_file_goes_in(folder, text, target):
    assert script_of("true", 1, [text], []).copy_in == (Copied(text.partition(":")[0], target),)


def test_a_folder_without_a_name_has_that_of_the_place(folder):
    assert script_of("true", 1, ["."], []).copy_in[0].target == f"/root/{folder.name}"


def test_where_a_file_comes_out(folder):
    assert script_of("true", 1, [], ["/etc/profile", "out:~/mine"]).copy_out == (
        Copied("/etc/profile", ""),
        Copied("out", f"{folder}/mine"),
    )


@pytest.mark.parametrize(("into", "out"), [([":/tmp/x"], []), ([], [":x"]), (["absent"], [])])
def test_what_names_no_file_is_refused(folder, into, out):
    with pytest.raises(UsageError, match="--in"):
        script_of("true", 1, into, out)
