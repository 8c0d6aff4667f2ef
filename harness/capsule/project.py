# SPDX-License-Identifier: MIT
"""The project at a commit: its files, and a repository of that commit alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.errors import RunError, UsageError
from harness.paths import ROOT


def check_out(commit: str, folder: Path, root: Path = ROOT) -> int:
    """Make `folder` a checkout of `commit`, which knows no older one; the commit's time in seconds of 1970.

    Equal commits give equal files, those of git's own folder included. UsageError when `root` has no such commit.
    """
    try:
        _git(root, "cat-file", "-e", f"{commit}^{{commit}}")
    except RunError as error:
        raise UsageError(
            f"this checkout has no commit {commit[:12]}", where=str(root), hint="git fetch, or use the checkout it was"
        ) from error
    folder.mkdir()
    _git(folder, "init", "--quiet", "--template=", "--initial-branch=capsule")
    _git(folder, "config", "core.logAllRefUpdates", "false")  # its log would tell when
    # One thread: how several split the work is decided by the number of CPUs.
    upload = "git -c uploadpack.allowAnySHA1InWant=true -c pack.threads=1 upload-pack"
    _git(folder, "fetch", "--quiet", "--depth=1", f"--upload-pack={upload}", f"file://{root}", commit)
    (folder / ".git/FETCH_HEAD").unlink()
    _git(folder, "checkout", "--quiet", "--force", "-B", "capsule", commit)
    (folder / ".git/index").unlink()
    _git(folder, "read-tree", commit)  # without the times and inodes of these files
    return int(_git(folder, "show", "--no-patch", "--format=%ct", commit))


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise RunError(f"git {words[0]} failed: {''.join(last)}", where=str(folder))
    return done.stdout
