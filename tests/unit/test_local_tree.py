# SPDX-License-Identifier: MIT
"""The store's copy of an edited kernel tree: what is the same keeps its time, for make."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.artefacts.uses import release
from harness.errors import RunError, UsageError
from harness.kernel import localtree
from harness.kernel.localtree import COPIED, LOCAL, MOST_BUILDS, MOST_TREES, local_build, local_tree
from harness.kernel.source import source_identity
from harness.kernel.spec import KernelRecipe, KernelSpec, Source
from tests.unit.test_patches import AMEND, CHANGE, CREATE, HEAD, MAKEFILE, PROFILE_C

LONG_AGO = 1_000_000_000.0


def make_tree(folder: Path) -> Path:
    for name, text in {
        "Makefile": MAKEFILE,
        "Kconfig": "",
        "kernel/profile.c": PROFILE_C,
        "kernel/fork.c": "1",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "include").mkdir()
    (folder / "include/a.h").write_text("a")
    (folder / "link").symlink_to("kernel/fork.c")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / ".git").mkdir()
    (folder / ".git/HEAD").write_text("1")
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "linux")


def recipe(tree: Path, *patches: Path, version: str = "6.1") -> KernelRecipe:
    spec = KernelSpec(name="mini", arch="i386", source=Source(tree=tree), fragments=["base"])
    return KernelRecipe(spec, version, (), patches)


def copied(store: Store, wanted: KernelRecipe) -> Path:
    with local_tree(store, wanted, source_identity(wanted.spec.source, None)) as tree:
        return tree


def patch(folder: Path, number: int, diff: str) -> Path:
    path = folder / f"{number:04}.patch"
    path.write_text(HEAD.format(subject="s") + diff + "-- \n2.40\n")
    return path


def aged(copy: Path) -> None:
    """Give everything in the copy an old time, by which what is written anew can be told."""
    for path in copy.rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)


def written(copy: Path) -> set[str]:
    files = (path for path in copy.rglob("*") if path.is_symlink() or path.is_file())
    return {path.relative_to(copy).as_posix() for path in files if path.lstat().st_mtime > LONG_AGO}


def test_a_copy_is_what_the_tree_is_but_for_its_history(tmp_store, tree):
    copy = copied(tmp_store, recipe(tree))
    assert (copy / "kernel/profile.c").read_text() == PROFILE_C
    assert (copy / "link").readlink() == Path("kernel/fork.c")
    assert os.access(copy / "run.sh", os.X_OK)
    assert not os.access(copy / "Makefile", os.X_OK)
    assert not (copy / ".git").exists()
    before = source_identity(Source(tree=tree), None)
    (tree / ".git/HEAD").write_text("2")
    assert source_identity(Source(tree=tree), None) == before


def test_only_what_was_edited_is_written_and_has_a_new_time_whatever_the_user_s_has(tmp_store, tree):
    aged(copied(tmp_store, recipe(tree)))
    (tree / "kernel/fork.c").write_text("2")
    os.utime(tree / "kernel/fork.c", (LONG_AGO - 1, LONG_AGO - 1))  # as of a tree of long ago, moved into place
    os.utime(tree / "Makefile")  # and one that was looked at in an editor, and written as it was
    copy = copied(tmp_store, recipe(tree))
    assert written(copy) == {"kernel/fork.c"}
    assert (copy / "kernel/fork.c").read_text() == "2"
    assert written(copied(tmp_store, recipe(tree))) == {"kernel/fork.c"}


def test_what_is_gone_goes_and_files_links_and_folders_take_each_other_s_place(tmp_store, tree):
    aged(copied(tmp_store, recipe(tree)))
    (tree / "kernel/fork.c").unlink()
    (tree / "kernel/fork.c").mkdir()
    (tree / "kernel/fork.c/x.c").write_text("x")
    (tree / "link").unlink()
    (tree / "link").write_text("no link")
    (tree / "run.sh").chmod(0o644)
    (tree / "kernel/profile.c").unlink()
    copy = copied(tmp_store, recipe(tree))
    assert written(copy) == {"kernel/fork.c/x.c", "link", "run.sh"}
    assert not (copy / "kernel/profile.c").exists()
    assert not os.access(copy / "run.sh", os.X_OK)
    assert not (copy / "link").is_symlink()


def test_a_patch_is_an_edit_and_an_edited_patch_another(tmp_store, tree, tmp_path):
    series = [patch(tmp_path, 1, CHANGE), patch(tmp_path, 2, CREATE)]
    copy = copied(tmp_store, recipe(tree, *series))
    assert "half" in (copy / "kernel/profile.c").read_text()
    assert (copy / "drivers/new.c").read_text() == "int new;\nint newer;\n"
    assert not (copy / ".git").exists()
    assert "half" not in (tree / "kernel/profile.c").read_text()
    aged(copy)
    assert written(copied(tmp_store, recipe(tree, *series))) == set()
    patch(tmp_path, 2, CREATE.replace("newer", "newest"))
    assert written(copied(tmp_store, recipe(tree, *series))) == {"drivers/new.c"}
    (tree / "kernel/profile.c").write_text(f"line 0\n{PROFILE_C}")
    aged(copy)
    assert written(copied(tmp_store, recipe(tree, *series))) == {"kernel/profile.c"}
    patch(tmp_path, 2, AMEND)
    with pytest.raises(UsageError, match=r"drivers/new\.c"):
        copied(tmp_store, recipe(tree, *series))


def test_builds_stay_but_where_a_header_came_or_went(tmp_store, tree, capfd):
    copy = copied(tmp_store, recipe(tree))
    build = local_build(copy, "build-1")
    (build / "vmlinux").touch()
    (tree / "kernel/new.c").touch()
    (tree / "include/a.h").write_text("b")
    copied(tmp_store, recipe(tree))
    assert (build / "vmlinux").exists(), "make sees these"
    (tree / "kernel/a.h").touch()
    copied(tmp_store, recipe(tree))
    assert not build.exists(), '#include "a.h" may be another one now'
    assert "headers were added or removed" in " ".join(capfd.readouterr().err.split())


def test_a_copy_that_was_broken_off_is_made_anew_with_what_was_built_in_it(tmp_store, tree, monkeypatch):
    copy = copied(tmp_store, recipe(tree))
    build = local_build(copy, "build-1")
    (tree / "kernel/fork.c").write_text("2")

    def interrupted(*_words: object, **_more: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(localtree.shutil, "copyfile", interrupted)
        with pytest.raises(KeyboardInterrupt):
            copied(tmp_store, recipe(tree))
    assert not (copy.parent / COPIED).exists()
    assert (copied(tmp_store, recipe(tree)) / "kernel/fork.c").read_text() == "2"
    assert not build.exists()


def test_a_tree_that_is_edited_while_a_run_begins_is_no_part_of_it(tmp_store, tree):
    identity = source_identity(Source(tree=tree), None)
    (tree / "kernel/fork.c").write_text("2")
    with pytest.raises(RunError, match="was edited since the run began"), local_tree(tmp_store, recipe(tree), identity):
        pass


def test_another_version_is_refused(tmp_store, tree):
    with pytest.raises(UsageError, match=r"the source is version 6\.1, not 6\.12"):
        copied(tmp_store, recipe(tree, version="6.12"))


def test_of_builds_and_trees_the_latest_stay(tmp_store, tmp_path):
    homes = []
    for number in range(MOST_TREES + 1):
        copy = copied(tmp_store, recipe(make_tree(tmp_path / f"linux-{number}")))
        os.utime(copy.parent / COPIED, (LONG_AGO + number, LONG_AGO + number))
        homes.append(copy.parent)
        release(tmp_store.root)
    assert sorted((tmp_store.root / LOCAL).iterdir()) == sorted(homes[1:])
    builds = [local_build(homes[-1] / "linux", f"build-{number}") for number in range(MOST_BUILDS)]
    for age, build in enumerate(builds):
        os.utime(build, (LONG_AGO - age, LONG_AGO - age))
    newest = local_build(homes[-1] / "linux", "build-new")
    assert sorted((homes[-1] / "linux").glob("build-*")) == sorted([*builds[: MOST_BUILDS - 1], newest])
    assert newest.stat().st_mtime > LONG_AGO
