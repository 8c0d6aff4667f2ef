# SPDX-License-Identifier: MIT
"""Patch series: hooks in the kernel's own files, by version, and new files that all versions share.

A feature is a folder. `VERSION/*.patch` are mails with the hooks, `src/` has the new files where they lie in the tree.
Behind a mail's `---`, where git reads nothing, lines `Source: NAME` say which of them come with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.kernel.patching import git_alone

#: Files of a series, and what else may lie among them; where the new files lie beside the versions.
SUFFIXES, NO_PATCHES, SOURCES = (".patch", ".mbox"), frozenset({"README", "README.md"}), "src"
#: The remarks of a mail, between its message and its diff.
REMARKS = re.compile(r"^---\n(.*?)(?=^diff --git )", re.MULTILINE | re.DOTALL)
SOURCE = re.compile(r"^Source: (.+)\n", re.MULTILINE)
MAIL = re.compile(r"^(?=From [0-9a-f]{40} Mon Sep 17 00:00:00 2001$)", re.MULTILINE)


@dataclass(frozen=True)
class Series:
    """A feature for one kernel version: patches in their order, and names of new files, which lie below `home`."""

    patches: tuple[Path, ...]
    sources: tuple[str, ...]
    home: Path


def read_series(folder: Path, named_in: Path) -> Series:
    """The series in FEATURE/VERSION: mails and mailboxes by name, and what they name of FEATURE/src.

    UsageError for another file among the patches, for none, for a source that is named and absent, or named twice, or
    there and not named. `named_in`: where the feature is asked for.
    """
    files = sorted(one for one in folder.iterdir() if not one.name.startswith(".") and one.name not in NO_PATCHES)
    other = next((one for one in files if one.suffix not in SUFFIXES or not one.is_file()), None)
    if other is not None:
        hint = f"a series has files {' and '.join(f'*{end}' for end in SUFFIXES)}, as git format-patch makes them"
        raise UsageError("is no patch of the series", where=str(other), hint=hint)
    if not files:
        raise UsageError(f"field patches: the series {folder} is empty", where=str(named_in))
    home = folder.parent / SOURCES
    there = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
    named: set[str] = set()
    for patch in files:
        for name in sources_of(_text(patch)):
            if name not in there or name in named:
                what = "a second time" if name in named else "that is not there"
                raise UsageError(f"names a source {what}: {name}", where=str(patch), hint=f"they are in {home}")
            named.add(name)
    for name in sorted(there - named):
        hint = f"a line `Source: {name}` behind the --- of the patch that needs it first"
        raise UsageError(f"no patch in {folder} names this source", where=str(home / name), hint=hint)
    return Series(tuple(files), tuple(sorted(named)), home)


def sources_of(mail: str) -> list[str]:
    """The new files that come with a mail, or with those of a mailbox, by their names in the tree."""
    return [name for remarks in REMARKS.findall(mail) for name in SOURCE.findall(remarks)]


def mailbox(series: Series) -> str:
    """The series as mails for `git am` on the kernel's own source: each patch with the new files that it names."""
    mails = [mail for patch in series.patches for mail in MAIL.split(_text(patch)) if mail]
    return "".join(_whole(mail, series.home) for mail in mails)


def _whole(mail: str, home: Path) -> str:
    """A mail with its new files, as git format-patch would have made it."""
    names = sources_of(mail)
    told = REMARKS.search(mail)
    if not names or told is None:
        return mail
    hooks, sign, signature = mail[told.end() :].partition("\n-- \n")
    diffs = [f"{diff.rstrip(chr(10))}\n" for diff in re.split(r"^(?=diff --git )", hooks, flags=re.MULTILINE) if diff]
    # Of a file and nothing, git says the file's name on both sides, and ends with 1: they differ.
    diffs += [_git(home, ["diff", "--no-index", "--no-color", "--", "/dev/null", name], ends=1) for name in names]
    diff = "".join(sorted(diffs, key=lambda one: one.partition("\n")[0]))
    statistics = _git(home, ["apply", "--stat", "--summary", "-"], given=diff)
    return f"{mail[: told.start()]}---\n{statistics}\n{diff}{sign.removeprefix(chr(10))}{signature}"


def _git(folder: Path, words: Sequence[str], *, given: str = "", ends: int = 0) -> str:
    """What such a command prints; UsageError when it ends otherwise."""
    done = git_alone(folder, *words, given=given.encode(errors="surrogateescape"))
    if done.returncode != ends:
        raise UsageError(f"git {words[0]}: {done.stderr.decode(errors='replace').strip()}", where=str(folder))
    return done.stdout.decode(errors="surrogateescape")


def _text(patch: Path) -> str:
    """A patch's own lines; bytes of no known coding stay what they are."""
    return patch.read_text(errors="surrogateescape")
