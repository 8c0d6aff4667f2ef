# SPDX-License-Identifier: MIT
"""A user's repository, looked at in a clone of its own: `git bisect` there, and nothing of it in the user's tree."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.errors import RunError, UsageError
from harness.git import git_text

Mark = Literal["good", "bad", "skip"]
#: Lines of `git bisect log`, once there is nothing left to try.
_FOUND = re.compile(r"^# first bad commit: \[([0-9a-f]{40,64})\]", re.MULTILINE)
_POSSIBLE = re.compile(r"^# possible first bad commit: \[([0-9a-f]{40,64})\]", re.MULTILINE)


@dataclass(frozen=True)
class Commit:
    """One commit: its whole name, and what its author says of it."""

    name: str
    subject: str
    author: str
    date: str

    @property
    def short(self) -> str:
        return self.name[:12]


def top_of(folder: Path) -> Path | None:
    """The work tree that a folder lies in; None where it is in none."""
    try:
        return Path(git_text(folder, "rev-parse", "--show-toplevel"))
    except RunError:
        return None


class Revisions:
    """A clone that shares the repository's objects, in a new folder."""

    def __init__(self, top: Path, folder: Path) -> None:
        """UsageError when the repository cannot be cloned."""
        self.top, self.folder = top, folder
        try:
            git_text(top, "clone", "--quiet", "--shared", "--no-checkout", str(top), str(folder))
        except RunError as error:
            raise UsageError(error.message, where=str(top)) from error

    def commit(self, word: str) -> Commit:
        """What a word of the user's repository means there; UsageError where it is no commit."""
        try:
            return self._told(git_text(self.top, "rev-parse", "--verify", "--quiet", f"{word}^{{commit}}"))
        except RunError as error:
            raise UsageError(f"{word}: is no commit", where=str(self.top)) from error

    def between(self, good: Commit, bad: Commit) -> int:
        """How many commits `bad` has that `good` has not; UsageError when it does not come after it."""
        try:
            git_text(self.folder, "merge-base", "--is-ancestor", good.name, bad.name)
        except RunError as error:
            hint = "give the older one first"
            raise UsageError(f"{bad.short} does not come after {good.short}", where=str(self.top), hint=hint) from error
        count = int(git_text(self.folder, "rev-list", "--count", f"{good.name}..{bad.name}"))
        if not count:
            raise UsageError(f"{good.short} and {bad.short} are one commit", where=str(self.top))
        return count

    def check_out(self, commit: Commit) -> None:
        """Make the clone's files those of a commit; what was built beside them stays."""
        git_text(self.folder, "checkout", "--quiet", "--force", "--detach", commit.name)

    def start(self, good: Commit, bad: Commit) -> None:
        git_text(self.folder, "bisect", "start", bad.name, good.name)

    def mark(self, mark: Mark, commit: Commit) -> None:
        """Say what a commit is; the next to try is checked out."""
        git_text(self.folder, "bisect", mark, commit.name, also=(2,))  # 2: only skipped commits are left

    def candidates(self) -> list[Commit]:
        """The first bad commit, or those among which it is when the rest could not be tried; none while more are to."""
        log = git_text(self.folder, "bisect", "log")
        return [self._told(name) for name in _FOUND.findall(log) or _POSSIBLE.findall(log)]

    def here(self) -> Commit:
        return self._told("HEAD")

    def files(self, commit: Commit) -> str:
        """Which files a commit changed, as `git show --stat` has it."""
        return git_text(self.folder, "show", "--stat", "--format=fuller", commit.name)

    def parent(self, commit: Commit) -> Commit:
        return self._told(f"{commit.name}^")

    def _told(self, name: str) -> Commit:
        text = git_text(self.folder, "show", "--no-patch", "--format=%H%x00%s%x00%an%x00%as", name)
        return Commit(*text.split("\0"))
