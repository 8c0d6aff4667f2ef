# SPDX-License-Identifier: MIT
"""A user's repository, looked at in a clone of its own: `git bisect` there, and nothing of it in the user's tree."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.errors import RunError, UsageError

Mark = Literal["good", "bad", "skip"]
#: Lines of `git bisect log`, once there is nothing left to try.
_FOUND = re.compile(r"^# first bad commit: \[([0-9a-f]{40,64})\]", re.MULTILINE)
_POSSIBLE = re.compile(r"^# possible first bad commit: \[([0-9a-f]{40,64})\]", re.MULTILINE)
#: What would make git look elsewhere than it is told.
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")


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
        return Path(_git(folder, "rev-parse", "--show-toplevel"))
    except RunError:
        return None


class Revisions:
    """A clone that shares the repository's objects, in a new folder."""

    def __init__(self, top: Path, folder: Path) -> None:
        """UsageError when the repository cannot be cloned."""
        self.top, self.folder = top, folder
        try:
            _git(top, "clone", "--quiet", "--shared", "--no-checkout", str(top), str(folder))
        except RunError as error:
            raise UsageError(error.message, where=str(top)) from error

    def commit(self, word: str) -> Commit:
        """What a word of the user's repository means there; UsageError where it is no commit."""
        try:
            return self._told(_git(self.top, "rev-parse", "--verify", "--quiet", f"{word}^{{commit}}"))
        except RunError as error:
            raise UsageError(f"{word}: is no commit", where=str(self.top)) from error

    def between(self, good: Commit, bad: Commit) -> int:
        """How many commits `bad` has that `good` has not; UsageError when it does not come after it."""
        try:
            _git(self.folder, "merge-base", "--is-ancestor", good.name, bad.name)
        except RunError as error:
            hint = "give the older one first"
            raise UsageError(f"{bad.short} does not come after {good.short}", where=str(self.top), hint=hint) from error
        count = int(_git(self.folder, "rev-list", "--count", f"{good.name}..{bad.name}"))
        if not count:
            raise UsageError(f"{good.short} and {bad.short} are one commit", where=str(self.top))
        return count

    def check_out(self, commit: Commit) -> None:
        """Make the clone's files those of a commit; what was built beside them stays."""
        _git(self.folder, "checkout", "--quiet", "--force", "--detach", commit.name)

    def start(self, good: Commit, bad: Commit) -> None:
        _git(self.folder, "bisect", "start", bad.name, good.name)

    def mark(self, mark: Mark, commit: Commit) -> None:
        """Say what a commit is; the next to try is checked out."""
        _git(self.folder, "bisect", mark, commit.name, also=(2,))  # 2: only skipped commits are left

    def candidates(self) -> list[Commit]:
        """The first bad commit, or those among which it is when the rest could not be tried; none while more are to."""
        log = _git(self.folder, "bisect", "log")
        return [self._told(name) for name in _FOUND.findall(log) or _POSSIBLE.findall(log)]

    def here(self) -> Commit:
        return self._told("HEAD")

    def files(self, commit: Commit) -> str:
        """Which files a commit changed, as `git show --stat` has it."""
        return _git(self.folder, "show", "--stat", "--format=fuller", commit.name)

    def parent(self, commit: Commit) -> Commit:
        return self._told(f"{commit.name}^")

    def _told(self, name: str) -> Commit:
        text = _git(self.folder, "show", "--no-patch", "--format=%H%x00%s%x00%an%x00%as", name)
        return Commit(*text.split("\0"))


def _git(folder: Path, *words: str, also: tuple[int, ...] = ()) -> str:
    """What git says there; RunError with its last words when it fails, but for the exit codes `also`."""
    env = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE} | {"LC_ALL": "C"}
    argv = ["git", "-C", str(folder), "-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false", *words]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False, env=env)
    except OSError as error:
        raise UsageError(f"git does not run: {error.strerror}", hint="install git") from error
    if done.returncode not in (0, *also):
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
        raise RunError(f"git {words[0]}: {lines[0]}", where=str(folder))
    return done.stdout.strip()
