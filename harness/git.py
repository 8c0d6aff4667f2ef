# SPDX-License-Identifier: MIT
"""Git in the repository that it is told, whatever the caller's environment says of another."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from harness.errors import RunError, UsageError

#: What would make git look elsewhere than it is told.
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")


def git(folder: Path, *words: str, also: tuple[int, ...] = ()) -> bytes:
    """What git prints there; RunError with its first words when it fails, but for the exit codes `also`."""
    env = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE} | {"LC_ALL": "C"}
    argv = ["git", "-C", str(folder), "-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false", *words]
    try:
        done = subprocess.run(argv, capture_output=True, check=False, env=env)
    except OSError as error:
        raise UsageError(f"git does not run: {error.strerror}", hint="install git") from error
    if done.returncode not in (0, *also):
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        why = said[0] if said else f"exit status {done.returncode}"
        raise RunError(f"git {words[0]}: {why}", where=str(folder))
    return done.stdout


def git_text(folder: Path, *words: str, also: tuple[int, ...] = ()) -> str:
    """`git` of what is text."""
    return git(folder, *words, also=also).decode(errors="replace").strip()
