# SPDX-License-Identifier: MIT
"""Patches as git takes them: a series put on a tree, and what of it does not fit."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.packages.buildtool import HOST, build_environment, tool
from harness.progress import note

MISSING = re.compile(r"error: (\S+): (?:does not exist in index|No such file or directory)")


def apply_patches(tree: Path, patches: Sequence[Path], log: Path, sources: Sequence[tuple[str, Path]] = ()) -> None:
    """Copy the new files `sources` into `tree`, which is no git repository before and after, and `git am` the patches.

    UsageError for a new file that is there already, and for the first patch that does not apply; of it and those behind
    it every hunk is told that does not fit. Only the files that the patches touch are put under git: adding all 80,000
    would take longer than a build.
    """
    for name, path in sources:
        if (tree / name).exists():
            raise UsageError(f"the kernel has a file {name} of its own", where=str(path))
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, tree / name)
    if not patches:
        return
    touched = sorted({name for patch in patches for name in touched_files(patch) if (tree / name).is_file()})
    identity = ["-c", "user.name=krepro", "-c", "user.email=krepro@localhost", "-c", "commit.gpgsign=false"]
    env = {"GIT_CEILING_DIRECTORIES": str(tree.parent), "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    git = ["git", "-C", str(tree), *identity]
    tool(["git", "init", "-q", str(tree)], log=log, env=env, what="git init", among=HOST)
    try:
        if touched:
            tool([*git, "add", "-f", "--", *touched], log=log, env=env, what="git add", among=HOST)
        tool([*git, "commit", "-q", "--allow-empty", "-m", "source"], log=log, env=env, what="git commit", among=HOST)
        for number, patch in enumerate(patches):
            problem = _am(git, patch, env)
            if problem is not None:
                for text in _unfit(git, patches[number:], env):
                    note(text)
                hint = "refresh the series for this kernel version"
                raise UsageError(f"patch does not apply: {problem}", where=str(patch), hint=hint)
    finally:
        shutil.rmtree(tree / ".git", ignore_errors=True)  # else setlocalversion puts "+" into the release


def _am(git: Sequence[str], patch: Path, env: Mapping[str, str]) -> str | None:
    """Why a patch does not apply; None: it does."""
    done = _run([*git, "am", "-q", "--no-3way", str(patch)], env)
    if done.returncode == 0:
        return None
    text = done.stderr + done.stdout
    hunks = re.findall(r"error: patch failed: (\S+:\d+)", text)
    missing = MISSING.findall(text)
    return f"hunk at {hunks[0]}" if hunks else f"no file {missing[0]}" if missing else text.strip().splitlines()[0]


def _unfit(git: Sequence[str], patches: Sequence[Path], env: Mapping[str, str]) -> list[str]:
    """Hunks of the patches that do not fit, each patch put on what could be done of those before it."""
    found = []
    _run([*git, "am", "--abort"], env)
    for patch in patches:
        done = _run([*git, "apply", "--reject", str(patch)], env)
        found += [f"{patch.name}: no file {name}" for name in MISSING.findall(done.stderr)]
        file = ""
        for line in done.stderr.splitlines():
            if applying := re.match(r"Applying patch (.+) with \d+ rejects?\.\.\.$", line):
                file = applying[1]
            elif rejected := re.match(r"Rejected hunk #(\d+)\.", line):
                found.append(f"{patch.name}: {file}: hunk {rejected[1]} does not fit")
    return found


def _run(argv: Sequence[str], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=build_environment(env))


def touched_files(patch: Path) -> list[str]:
    """Names of the files that a patch changes, makes, renames or removes, as git reads its mails, in whatever coding.

    UsageError when it is no mail, or a mail without a patch in git's format.
    """
    names: dict[str, None] = {}
    with tempfile.TemporaryDirectory(prefix="krepro-mail-") as folder:
        mails = Path(folder)
        count = git_alone(mails, "mailsplit", "-b", f"-o{mails}", "--", str(patch.resolve()))
        for number in range(1, int(count.stdout.strip() or b"0") + 1):
            mail = (mails / f"{number:04d}").read_bytes()
            done = git_alone(mails, "mailinfo", "message", "diff", given=mail)
            if b"Author: " not in done.stdout:
                break
            # `git apply` alone reads the diff's head: names with blanks, renames, modes, binary files.
            for way in ([], ["-R"]):  # the name before a rename is told by the way back
                done = git_alone(mails, "apply", "--numstat", "-z", *way, "diff")
                if done.returncode != 0 and b"No valid patches" not in done.stderr:
                    reason = done.stderr.decode(errors="replace").splitlines()[:1]
                    where = f"mail {number}: {''.join(reason).removeprefix('error: ')}"
                    raise UsageError(f"patch does not apply: {where}", where=str(patch), hint="use git format-patch")
                told = done.stdout.decode(errors="surrogateescape")
                names |= dict.fromkeys(field.rpartition("\t")[2] for field in told.split("\0"))
    names.pop("", None)
    if not names:
        plain = re.search(rb"^(diff --git|---) ", patch.read_bytes(), re.MULTILINE) is not None
        what = "is a plain diff, not a mail" if plain else "not a patch in git format: it names no file"
        raise UsageError(what, where=str(patch), hint="use git format-patch")
    return list(names)


def git_alone(folder: Path, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """A command of git's that needs no repository, and finds none."""
    env = build_environment({"GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_CONFIG_GLOBAL": "/dev/null"})
    return subprocess.run(["git", *words], input=given, capture_output=True, check=False, cwd=folder, env=env)
