# SPDX-License-Identifier: MIT
"""Patches onto a miniature kernel tree, with the real git."""

from __future__ import annotations

import base64
import os
import quopri
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from harness.artefacts.store import Store, hash_file, hash_tree
from harness.errors import RunError, UsageError
from harness.kernel import source as source_module
from harness.kernel.patching import apply_patches
from harness.kernel.source import COMPLETE, fetch_source, patched_tree, source_identity
from harness.kernel.spec import KernelRecipe, KernelSpec, Source

MAKEFILE = "VERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 0\n"
PROFILE_C = "".join(f"line {number}\n" for number in range(1, 31))
HEAD = """\
From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001
From: A. Uthor <author@example.org>
Date: Mon, 1 Jan 2024 00:00:00 +0000
Subject: [PATCH] {subject}

Why it is done.
---
"""
CHANGE = """\
diff --git a/kernel/profile.c b/kernel/profile.c
--- a/kernel/profile.c
+++ b/kernel/profile.c
@@ -19,3 +19,4 @@
 line 19
+line 19 and a half
 line 20
 line 21
"""
CREATE = """\
diff --git a/drivers/new.c b/drivers/new.c
new file mode 100644
--- /dev/null
+++ b/drivers/new.c
@@ -0,0 +1,2 @@
+int new;
+int newer;
"""
AMEND = """\
diff --git a/drivers/new.c b/drivers/new.c
--- a/drivers/new.c
+++ b/drivers/new.c
@@ -1,2 +1,2 @@
 int new;
-int newer;
+int newest;
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "linux"
    (tree / "kernel").mkdir(parents=True)
    (tree / "drivers").mkdir()
    (tree / "Makefile").write_text(MAKEFILE)
    (tree / "Kconfig").touch()
    (tree / "kernel/profile.c").write_text(PROFILE_C)
    return tree


@pytest.fixture
def patch(tmp_path: Path):
    made: list[Path] = []

    def make(*diffs: str, head: str = HEAD) -> Path:
        path = tmp_path / f"{len(made) + 1:04}-change.patch"
        path.write_text(head.format(subject="Change it") + "".join(diffs) + "-- \n2.39.2\n\n")
        made.append(path)
        return path

    return make


def apply(tree: Path, *patches: Path) -> None:
    apply_patches(tree, patches, tree.parent / "log")


def test_a_series_changes_and_creates_files_and_leaves_no_repository(tree, patch):
    (tree / ".gitignore").write_text("*.c\n")  # kernels ignore much; what a patch touches is never ignored
    apply(tree, patch(CHANGE), patch(CREATE), patch(AMEND))
    assert (tree / "kernel/profile.c").read_text() == PROFILE_C.replace("line 19\n", "line 19\nline 19 and a half\n")
    assert (tree / "drivers/new.c").read_text() == "int new;\nint newest;\n"
    assert (tree / "Makefile").read_text() == MAKEFILE
    assert not (tree / ".git").exists()


def test_no_patches_need_no_git(tree):
    before = hash_tree(tree)
    apply(tree)
    assert hash_tree(tree) == before
    assert not (tree.parent / "log").exists()


@pytest.mark.parametrize(
    ("diff", "says"),
    [
        (CHANGE.replace(" line 20", " line twenty"), "patch does not apply: hunk at kernel/profile.c:19 "),
        (CHANGE.replace("kernel/profile.c", "kernel/absent.c"), "patch does not apply: no file kernel/absent.c "),
        (AMEND, "patch does not apply: no file drivers/new.c "),
        (CREATE.replace("drivers/new.c", "Makefile"), "patch does not apply: error: Makefile: already exists in index"),
        (CHANGE.replace("-19,3 +19,4", "-19,3 +19,9"), "patch does not apply: "),
    ],
)
def test_what_does_not_apply_is_named_by_patch_and_hunk(tree, patch, diff, says):
    good, bad = patch(CREATE.replace("new.c", "other.c")), patch(diff)
    with pytest.raises(UsageError) as caught:
        apply(tree, good, bad)
    assert str(caught.value).startswith(f"{bad}: {says}")
    assert caught.value.exit_code == 2
    assert not (tree / ".git").exists()


def test_every_hunk_that_does_not_fit_is_told(tree, patch, capsys):
    far = "@@ -2,2 +2,3 @@\n line 2\n+line 2 and a half\n line 3\n"
    first = CHANGE.replace("@@ -19", f"{far}@@ -19").replace(" line 20", " line twenty")
    with pytest.raises(UsageError, match=r"0001-change.patch: patch does not apply: hunk at kernel/profile.c:19"):
        apply(tree, patch(first), patch(CREATE), patch(CHANGE.replace("profile", "absent")), patch(AMEND))
    assert capsys.readouterr().err.splitlines() == [
        "0001-change.patch: kernel/profile.c: hunk 2 does not fit",
        "0003-change.patch: no file kernel/absent.c",
    ]


@pytest.mark.parametrize("text", ["", "just words\n", "diff -u kernel/profile.c\n"])
def test_what_is_no_patch_is_named(tree, tmp_path, text):
    (tmp_path / "0001-x.patch").write_text(text)
    with pytest.raises(UsageError, match=r"0001-x.patch: not a patch in git format"):
        apply(tree, tmp_path / "0001-x.patch")


@pytest.mark.parametrize(
    ("diff", "head"),
    [
        (CHANGE, ""),
        (CHANGE, "Subject: [PATCH] {subject}\n\n---\n"),
        (CHANGE.replace("a/kernel", "linux-6.1/kernel").replace("b/kernel", "linux-6.1-mine/kernel"), ""),
    ],
)
def test_a_diff_without_a_mails_head_or_sender_is_named(tree, patch, diff, head):
    with pytest.raises(UsageError, match=r"0001-change.patch: is a plain diff, not a mail \(use git format-patch\)"):
        apply(tree, patch(diff, head=head))


def test_the_callers_git_environment_and_repository_are_left_alone(tree, patch, tmp_path, monkeypatch):
    """A hook runs with GIT_DIR set to the user's own repository."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    theirs = tmp_path / "theirs"
    subprocess.run(["git", "init", "-q", theirs], check=True)
    before = hash_tree(theirs)
    monkeypatch.setenv("GIT_DIR", str(theirs / ".git"))
    monkeypatch.setenv("GIT_AUTHOR_DATE", "nonsense")
    apply(tree, patch(CHANGE))
    assert hash_tree(theirs) == before
    assert "half" in (tree / "kernel/profile.c").read_text()


def recipe(source: Source, *patches: Path, version: str = "6.1") -> KernelRecipe:
    spec = KernelSpec(name="mini", arch="i386", source=source, fragments=["base"])
    return KernelRecipe(spec, version, (), patches)


def unpacked(store: Store, wanted: KernelRecipe, *, check: bool = False) -> Path:
    archive = fetch_source(store, wanted.spec.source)
    assert archive is not None
    return patched_tree(store, wanted, archive, source_identity(wanted.spec.source, archive), check=check)


def test_a_patched_tree_is_unpacked_once(tmp_store, tree, patch, tmp_path):
    source = _archive(tree, tmp_path / "linux.tar.xz")
    wanted = recipe(source, patch(CHANGE))
    made = unpacked(tmp_store, wanted)
    assert "half" in (made / "kernel/profile.c").read_text()
    assert not (made / ".git").exists()
    (made / "kernel/touched").touch()
    assert unpacked(tmp_store, wanted) == made
    assert (made / "kernel/touched").exists(), "not unpacked again"
    (made.parent / COMPLETE).unlink()
    assert unpacked(tmp_store, wanted) == made
    assert not (made / "kernel/touched").exists(), "an unfinished one is"
    assert unpacked(tmp_store, recipe(source)) != made


def test_a_changed_tree_is_unpacked_again_before_a_kernel_is_built_of_it(tmp_store, tree, patch, tmp_path, capfd):
    wanted = recipe(_archive(tree, tmp_path / "linux.tar.xz"), patch(CHANGE))
    made = unpacked(tmp_store, wanted)
    (made / "build-0").mkdir()
    (made / "build-0/vmlinux").touch()
    assert unpacked(tmp_store, wanted, check=True) == made
    assert (made / "build-0/vmlinux").exists(), "what is built in it is no change of it"
    assert "was changed" not in capfd.readouterr().err
    with (made / "kernel/profile.c").open("a") as file:
        file.write("by hand\n")
    assert unpacked(tmp_store, wanted, check=True) == made
    assert "by hand" not in (made / "kernel/profile.c").read_text()
    assert "was changed; it is unpacked again" in " ".join(capfd.readouterr().err.split())


def test_a_build_that_begins_meanwhile_is_no_change_of_its_tree(tmp_store, tree, patch, tmp_path, capfd, monkeypatch):
    wanted = recipe(_archive(tree, tmp_path / "linux.tar.xz"), patch(CHANGE))
    made = unpacked(tmp_store, wanted)
    begun = made / "build-1/scripts"

    def hashed(*given: Any) -> dict[str, str]:
        begun.mkdir(parents=True, exist_ok=True)
        (begun / "conf").touch()
        return hash_tree(*given)

    monkeypatch.setattr(source_module, "hash_tree", hashed)
    assert unpacked(tmp_store, wanted, check=True) == made
    assert (begun / "conf").exists()
    assert "was changed" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (recipe, "hunk at kernel/profile.c:19"),
        (lambda source, bad: recipe(source, version="6.12"), "kernel mini: the source is version 6.1, not 6.12"),
    ],
)
def test_a_failed_tree_leaves_nothing(tmp_store, tree, patch, tmp_path, wanted, says):
    bad = patch(CHANGE.replace(" line 20", " line twenty"))
    with pytest.raises(UsageError, match=says):
        unpacked(tmp_store, wanted(_archive(tree, tmp_path / "linux.tar.xz"), bad))
    assert not list((tmp_store.root / "trees").iterdir())


def test_what_is_no_kernel_tree_is_refused(tree):
    (tree / "Kconfig").unlink()
    with pytest.raises(UsageError, match="not a kernel source tree"):
        source_identity(Source(tree=tree), None)


def _archive(tree: Path, target: Path) -> Source:
    with tarfile.open(target, "w:xz") as archive:
        archive.add(tree, arcname="linux-6.1")
    return Source(url=target.as_uri(), sha256=hash_file(target))


def test_a_source_can_come_from_a_url_with_its_hash(tmp_store, tree, patch, tmp_path):
    source = _archive(tree, tmp_path / "linux.tar.xz")
    spec = KernelSpec(name="mini", arch="i386", source=source, fragments=["base"])
    fetched = fetch_source(tmp_store, source)
    assert fetched is not None
    wanted = KernelRecipe(spec, "6.1", (), (patch(CHANGE),))
    made = patched_tree(tmp_store, wanted, fetched, source_identity(source, fetched))
    assert "half" in (made / "kernel/profile.c").read_text()
    (tmp_path / "linux.tar.xz").unlink()
    again = fetch_source(tmp_store, source)
    assert again is not None
    assert again.path == fetched.path, "kept: no second fetch"


def test_a_source_with_another_hash_or_none_at_all_is_refused(tmp_store, tree, tmp_path):
    source = _archive(tree, tmp_path / "linux.tar.xz")
    with pytest.raises(RunError, match="sha256 is"):
        fetch_source(tmp_store, Source(url=source.url, sha256="0" * 64))
    (tmp_path / "linux.tar.xz").unlink()
    with pytest.raises(RunError, match=r"linux.tar.xz: cannot be fetched"):
        fetch_source(tmp_store, source)
    assert tmp_store.all("download") == []


# -- what git am takes is taken ------------------------------------------------------------------------------


def edit(tree: Path, kind: str) -> None:
    """A change of this kind to the miniature tree."""
    source = tree / "kernel/profile.c"
    if kind in ("text", "base64", "quoted-printable", "mailbox"):
        source.write_text(source.read_text() + "line 31: Grüße = 1\n")
    elif kind == "binary":
        (tree / "kernel/blob.bin").write_bytes(bytes(range(256)))
    elif kind == "rename":
        source.rename(tree / "kernel/tally.c")
    elif kind == "mode":
        source.chmod(0o755)
    elif kind == "empty":
        (tree / "kernel/empty.c").touch()
    elif kind == "blank":
        (tree / "kernel/a b.c").write_text("int b;\n")
    elif kind == "removed":
        source.unlink()


KINDS = ("text", "base64", "quoted-printable", "mailbox", "binary", "rename", "mode", "empty", "blank", "removed")


@pytest.mark.parametrize("kind", KINDS)
def test_what_git_am_takes_is_taken(tree, tmp_path, kind):
    theirs = tmp_path / "theirs"
    shutil.copytree(tree, theirs)
    git = ["git", "-C", str(theirs), "-c", "user.name=A", "-c", "user.email=a@b", "-c", "core.autocrlf=false"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "base"]):
        subprocess.run([*git, *words], check=True)
    edit(theirs, kind)
    for words in (["add", "-A"], ["commit", "-qm", "change: Grüße"]):
        subprocess.run([*git, *words], check=True)
    count = "-1"
    if kind == "mailbox":
        (theirs / "drivers/second.c").write_text("int second;\n")
        for words in (["add", "-A"], ["commit", "-qm", "second"]):
            subprocess.run([*git, *words], check=True)
        count = "-2"
    mail = subprocess.run([*git, "format-patch", "--stdout", "-M", "--binary", count], capture_output=True, check=True)
    path = tmp_path / ("series.mbox" if kind == "mailbox" else "0001-change.patch")
    path.write_bytes(encoded(mail.stdout, kind))
    apply(tree, path)
    shutil.rmtree(theirs / ".git")
    assert hash_tree(tree) == hash_tree(theirs)
    assert [path.stat().st_mode for path in sorted(tree.rglob("*.c"))] == [
        path.stat().st_mode for path in sorted(theirs.rglob("*.c"))
    ]


def encoded(mail: bytes, kind: str) -> bytes:
    """A mail as a mailer may have sent it."""
    coders = {"base64": base64.encodebytes, "quoted-printable": quopri.encodestring}
    if kind not in coders:
        return mail
    head, _, body = mail.partition(b"\n\n")
    kept = b"\n".join(line for line in head.split(b"\n") if not line.startswith((b"MIME", b"Content-")))
    kept += b"\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: "
    return kept + kind.encode() + b"\n\n" + coders[kind](body)
