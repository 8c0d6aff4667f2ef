# SPDX-License-Identifier: MIT
"""Initramfs archives, read back by cpio."""

from __future__ import annotations

import os
import subprocess

import pytest

from harness.errors import UsageError
from harness.image.cpio import MTIME, write_cpio
from harness.packages.tree import tools


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "root"
    (made / "bin").mkdir(parents=True)
    (made / "bin/run").write_bytes(b"#!/bin/sh\n")
    (made / "bin/run").chmod(0o700)
    (made / "data").write_bytes(bytes(range(256)) * 5)
    (made / "empty").touch()
    (made / "bin/again").symlink_to("run")
    (made / "nowhere").symlink_to("/absent")
    return made


def test_an_archive_holds_the_folder_as_cpio_reads_it(root, tmp_path):
    write_cpio(root, tmp_path / "made.cpio")
    out = tmp_path / "out"
    out.mkdir()
    with (tmp_path / "made.cpio").open("rb") as archive:
        words = ["cpio", "-idm", "--quiet", "--no-preserve-owner", "bin*", "data", "empty", "nowhere"]
        subprocess.run(tools().run_words(words, out), stdin=archive, cwd=out, check=True)
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*")) == [
        "bin", "bin/again", "bin/run", "data", "empty", "nowhere",
    ]  # fmt: skip
    assert (out / "data").read_bytes() == (root / "data").read_bytes()
    assert (out / "bin/again").readlink().name == "run"
    assert ((out / "bin/run").stat().st_mode & 0o777, (out / "data").stat().st_mode & 0o777) == (0o755, 0o644)
    assert int((out / "data").stat().st_mtime) == MTIME


def test_every_archive_has_a_console_and_ends_in_a_whole_block(root, tmp_path):
    write_cpio(root, tmp_path / "made.cpio")
    with (tmp_path / "made.cpio").open("rb") as archive:
        words = tools().run_words(["cpio", "-itv", "--quiet"])
        listed = subprocess.run(words, stdin=archive, check=True, capture_output=True, text=True).stdout
    assert [line.split()[-1] for line in listed.splitlines() if line.startswith("c")] == ["dev/console", "dev/null"]
    assert (tmp_path / "made.cpio").stat().st_size % 512 == 0


def test_neither_times_nor_owners_nor_order_of_the_folder_change_it(root, tmp_path):
    write_cpio(root, tmp_path / "one.cpio")
    os.utime(root / "data", (1, 1))
    (root / "data").rename(root / "other")
    (root / "other").rename(root / "data")
    write_cpio(root, tmp_path / "two.cpio")
    assert (tmp_path / "one.cpio").read_bytes() == (tmp_path / "two.cpio").read_bytes()


def test_a_name_that_a_shell_would_split_is_refused(root, tmp_path):
    (root / "a b").touch()
    with pytest.raises(UsageError, match="'a b' cannot go into an initramfs"):
        write_cpio(root, tmp_path / "made.cpio")
