# SPDX-License-Identifier: MIT
"""What tells the ends of a bisect apart, and which commits git asks for; profiles made by hand, git real."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from harness.errors import UsageError
from harness.program.bisection import Bounds, Tried, measure_of
from harness.program.profile.calls import KERNEL
from harness.program.profile.code import Place
from harness.program.profile.profile import Cost, Profile
from harness.program.revisions import Commit, Revisions, top_of
from tests.repositories import git

COMMIT = Commit("0" * 40, "subject", "author", "2026-01-01")


class Known(Profile):
    """A profile whose kernel has a function `new` or has not."""

    def code(self, place):
        return b""

    def has(self, name, file):
        return name != "new" or name in {place.name for place in self.functions}


def side(*runs):
    return [
        Known(
            SimpleNamespace(threads=[SimpleNamespace(user=own, ours=True)]),
            SimpleNamespace(bits=64),
            None,
            {},
            {Place(name, KERNEL): Cost(count, 1) for name, count in functions.items()},
            {},
            {},
        )
        for own, functions in runs
    ]


def varied(*counts, own=50, **more):
    return side(*((own, {"old": count, **more}) for count in counts))


@pytest.mark.parametrize(
    ("good", "bad", "measure"),
    [
        (varied(100, 140, 120, 130), varied(130, 110, 125, 115), None),
        (varied(100, 140, 120, 130), varied(141, 150, 145, 148), None),  # no further apart than seeds are
        (varied(100, 140, 120, 130), varied(200, 230, 210, 220), "all"),
        (varied(100, 140, 120, 130), varied(130, 110, 125, 115, new=1), "code"),
        (varied(100, 140, 120, 130), varied(200, 230, 210, 220, new=1), "all"),  # the new code carries little of it
        (varied(100, 140, 120, 130), varied(200, 230, 210, 220, new=100), "code"),
        (varied(100, 140, 120, 130), varied(130, 110, 125, 115, own=52), "own"),
        (varied(100, 140), varied(200, 230, new=6), "code"),  # two seeds each lie apart by chance
    ],
)
def test_what_tells_the_ends_apart(good, bad, measure):
    assert measure_of(good, bad) == measure
    assert measure_of(bad, good) == measure


def test_a_commit_is_what_the_end_is_that_it_is_nearer_to():
    good, bad, near, far = (Tried(COMMIT, varied(count), 0) for count in (100, 200, 140, 160))
    bounds = Bounds(good, bad, "all")
    assert (bounds.cost(near), bounds.is_bad(near), bounds.is_bad(far)) == (40, False, True)
    cheaper = Bounds(bad, good, "all")
    assert (cheaper.is_bad(near), cheaper.is_bad(far)) == (True, False)


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "-q")
    for number in range(8):
        (folder / "number").write_text(f"{number}\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", f"number {number}")
    return folder


@pytest.mark.parametrize("first", range(1, 8))
def test_the_first_bad_commit_is_found_beside_those_that_cannot_be_tried(first, repository, tmp_path):
    revisions = Revisions(repository, tmp_path / "clone")
    good, bad = revisions.commit("HEAD~7"), revisions.commit("HEAD")
    assert revisions.between(good, bad) == 7
    revisions.start(good, bad)
    skipped = set()
    while not revisions.candidates():
        here = revisions.here()
        number = int((tmp_path / "clone/number").read_text())
        if number == 4:
            skipped.add(number)
        revisions.mark("skip" if number == 4 else "bad" if number >= first else "good", here)
    found = [commit.subject for commit in revisions.candidates()]
    assert f"number {first}" in found
    assert len(found) == 1 or (first in (4, 5) and skipped and set(found) == {"number 4", "number 5"})
    assert (repository / "number").read_text() == "7\n"


def test_a_repository_is_asked_in_one_line(repository, tmp_path):
    assert top_of(repository) == repository
    assert top_of(tmp_path) is None
    revisions = Revisions(repository, tmp_path / "clone")
    with pytest.raises(UsageError, match="v9: is no commit"):
        revisions.commit("v9")
    with pytest.raises(UsageError, match="does not come after"):
        revisions.between(revisions.commit("HEAD"), revisions.commit("HEAD~1"))
