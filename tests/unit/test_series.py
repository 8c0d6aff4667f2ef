# SPDX-License-Identifier: MIT
"""Patch series with new files beside them: read, put on a tree, and made the mails that git am takes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness.artefacts.store import hash_tree
from harness.commands.patches import patches as print_patches
from harness.errors import UsageError
from harness.kernel.load import find_feature
from harness.kernel.patching import apply_patches, touched_files
from harness.kernel.series import Series, mailbox, read_series, sources_of
from harness.paths import PATCHES
from tests.unit.test_patches import CHANGE, HEAD, MAKEFILE, PROFILE_C

NEW, HEADER = "drivers/new.c", "include/new.h"
SERIES = sorted(path.relative_to(PATCHES).as_posix() for path in PATCHES.glob("*/[0-9]*.*[0-9]"))


def mail(*diffs: str, remarks: str = "") -> str:
    return HEAD.format(subject="Change it") + remarks + "".join(diffs)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A series of two patches and two new files."""
    home = tmp_path / "feature"
    for name, text in {
        f"src/{NEW}": "int new;\n",
        f"src/{HEADER}": "/* A header */\n",
        "6.1/0001-first.patch": mail(CHANGE, remarks=f"Source: {HEADER}\nSource: {NEW}\n\n kernel/profile.c | 1 +\n"),
        "6.1/0002-second.patch": mail(CHANGE.replace("19", "2").replace("20", "3").replace("21", "4")),
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return home / "6.1"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "linux"
    (tree / "kernel").mkdir(parents=True)
    (tree / "Makefile").write_text(MAKEFILE)
    (tree / "kernel/profile.c").write_text(PROFILE_C)
    return tree


def put_on(tree: Path, series: Series) -> None:
    sources = [(name, series.home / name) for name in series.sources]
    apply_patches(tree, series.patches, tree.parent / "log", sources)


def git(tree: Path, *words: str, given: str = "") -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", tree, *identity, *words], input=given, text=True, capture_output=True, check=True
    )
    return done.stdout


def test_new_files_lie_in_the_tree_and_patches_are_put_on_it(folder, tree):
    series = read_series(folder, folder)
    assert series.sources == (NEW, HEADER)
    put_on(tree, series)
    assert (tree / NEW).read_text() == "int new;\n"
    assert "half" in (tree / "kernel/profile.c").read_text()
    assert not (tree / ".git").exists()


def test_a_patch_can_change_a_new_file_of_another_feature(folder, tree, tmp_path):
    series = read_series(folder, folder)
    other = tmp_path / "0001-other.patch"
    change = CHANGE.replace("kernel/profile.c", NEW).replace(
        "@@ -19,3 +19,4 @@\n line 19\n", "@@ -1,1 +1,2 @@\n int new;\n"
    )
    other.write_text(mail(re.sub(r" line 2\d\n", "", change)))
    apply_patches(tree, [*series.patches, other], tree.parent / "log", [(NEW, series.home / NEW)])
    assert (tree / NEW).read_text() == "int new;\nline 19 and a half\n"
    assert (series.home / NEW).read_text() == "int new;\n"


def test_the_mails_make_the_same_tree_a_commit_each(folder, tree, tmp_path):
    series = read_series(folder, folder)
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "source")
    git(tree, "am", "-q", given=mailbox(series))
    log = git(tree, "log", "--format=%s %B", "--stat", "-2")
    assert log.count("Change it") == 4
    assert "Source:" not in log
    assert f"{NEW}" in git(tree, "show", "--stat", "HEAD~1")
    assert NEW not in git(tree, "show", "--stat", "HEAD")
    git(tree, "checkout", "-q", "--detach", "HEAD")
    by_mail = {name: value for name, value in hash_tree(tree).items() if not name.startswith(".git/")}
    plain = tmp_path / "plain/linux"
    (plain / "kernel").mkdir(parents=True)
    (plain / "Makefile").write_text(MAKEFILE)
    (plain / "kernel/profile.c").write_text(PROFILE_C)
    put_on(plain, series)
    assert hash_tree(plain) == by_mail


def test_a_file_that_the_kernel_has_is_no_new_one(folder, tree):
    (tree / "drivers").mkdir()
    (tree / NEW).touch()
    with pytest.raises(UsageError, match=rf"src/{NEW}: the kernel has a file {NEW} of its own"):
        put_on(tree, read_series(folder, folder))


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        (
            "0001-first.patch",
            f"Source: {NEW}\n",
            "",
            rf"src/{NEW}: no patch in .*/6.1 names this source \(a line `Source",
        ),
        ("0001-first.patch", NEW, "absent.c", r"0001-first.patch: names a source that is not there: absent.c"),
        ("0001-first.patch", HEADER, NEW, rf"0001-first.patch: names a source a second time: {NEW}"),
    ],
)
def test_sources_are_named_once_each(folder, file, old, new, says):
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    with pytest.raises(UsageError, match=says):
        read_series(folder, folder)


def test_a_message_that_speaks_of_a_source_names_none():
    assert sources_of(mail(CHANGE).replace("Why it is done.", "Source: a book")) == []
    assert sources_of(mail(CHANGE, remarks="Source: a.c\n") + mail(CHANGE, remarks="Source: b.c\n")) == ["a.c", "b.c"]


# -- the project's own -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SERIES)
def test_no_patch_writes_what_is_a_source(name):
    """Of its own feature: a series on top of another one may change that one's."""
    series = read_series(PATCHES / name, PATCHES)
    for patch in series.patches:
        assert not {*touched_files(patch)} & {*series.sources}, patch
        assert "\nnew file mode" not in patch.read_text(), patch


@pytest.mark.parametrize("name", SERIES)
def test_a_series_is_printed_with_its_new_files(name, capfdbinary):
    feature, version = name.split("/")
    print_patches(feature, version)
    text = capfdbinary.readouterr().out.decode()
    series = find_feature(feature, version)
    assert text.count("\nSubject: [PATCH") == len(series.patches)
    assert re.findall(r"^ create mode 100644 (.+)$", text, re.MULTILINE) == sorted(
        series.sources, key=lambda name: text.index(f" create mode 100644 {name}\n")
    )
    for source in series.sources:
        assert text.count(f"diff --git a/{source} b/{source}\nnew file mode 100644\n") == 1
    assert "\nSource: " not in text


def test_what_is_no_series_is_told_with_those_that_there_are():
    with pytest.raises(UsageError, match=r"'locks' is no feature \(known: irq-hotspot, irq-time, lock-stacks"):
        find_feature("locks", "6.1")
    with pytest.raises(UsageError, match=r"ppid has no series for '2.4' \(for 6.1"):
        find_feature("ppid", "2.4")
    with pytest.raises(UsageError, match=r"'\.\./kernel-patches/ppid' is no feature"):
        find_feature("../kernel-patches/ppid", "6.1")
