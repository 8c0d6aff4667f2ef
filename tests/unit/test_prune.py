# SPDX-License-Identifier: MIT
"""Removing old sets: which, only after asking, and never half of one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from harness import scratch
from harness.errors import RunError
from harness.sets import prune
from harness.sets.listing import set_paths
from harness.sets.prune import choose, remove
from tests.result_sets import DAYS, write_days


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_days(tmp_path)


def chosen(home: Path, keep: int = 0) -> list[str]:
    return [candidate.path.name for candidate in choose(home.parent, keep).candidates]


@pytest.mark.parametrize(("keep", "removed"), [(0, 5), (1, 5), (2, 4), (6, 0), (10, 0)])
def test_sets_that_are_not_among_the_newest(home, keep, removed):
    assert chosen(home, keep) == DAYS[:removed]


def test_the_newest_of_each_experiment_are_kept(home):
    shutil.copytree(home, home.with_name("other"), symlinks=True)
    assert chosen(home, keep=5) == [DAYS[0], DAYS[0]]


def test_latest_is_kept_wherever_it_leads(home):
    (home / "latest").unlink()
    assert DAYS[-1] not in chosen(home), "a lost link: the newest"
    (home / "latest").symlink_to(DAYS[2])
    assert set(chosen(home)) == set(DAYS) - {DAYS[2]}


def test_references_links_unfinished_and_broken_sets_are_left(home):
    shutil.copytree(home, home.parent / "reference/waits", symlinks=True)
    shutil.copytree(home / DAYS[0], home / ".krepro-1-writing-x")
    (home / DAYS[0] / "claims.json").write_text("no")
    shutil.copytree(home / DAYS[1], home / "20269901T000000.00Z-00000001")
    (home / "20250101T000000.00Z-00000009").symlink_to(DAYS[1])
    choice = choose(home.parent, 0)
    assert [candidate.path.name for candidate in choice.candidates] == DAYS[1:5]
    assert {path.name for path in choice.broken} == {DAYS[0], "20269901T000000.00Z-00000001"}
    assert not choose(home.parent / "reference", 0).candidates, "even where it is given as the folder of sets"


def test_sizes_are_those_of_the_files(home):
    (candidate, *_) = choose(home.parent, 0).candidates
    assert candidate.size == sum(path.stat().st_size for path in candidate.path.rglob("*") if path.is_file())


def test_a_removed_set_leaves_nothing(home):
    remove(home / DAYS[0])
    assert sorted(path.name for path in home.iterdir()) == [*DAYS[1:], "latest"]


def test_an_interrupted_removal_leaves_no_half_set(home, monkeypatch):
    def interrupted(path: Path) -> None:
        next(Path(path).rglob("claims.json")).unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(prune, "remove_tree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        remove(home / DAYS[0])
    monkeypatch.undo()
    assert [path.name for path in set_paths(home.parent)] == DAYS[:0:-1]
    (left,) = [path for path in home.iterdir() if path.name.startswith(".krepro-")]
    os.close(scratch._held.pop(left))  # as if its process had ended
    remove(home / DAYS[1])
    assert not [path for path in home.iterdir() if path.name.startswith(".krepro-")]


def test_what_cannot_be_removed_is_named(home, monkeypatch):
    with pytest.raises(RunError, match=f"{DAYS[0]}x: cannot be removed: No such file"):
        remove(home / f"{DAYS[0]}x")
