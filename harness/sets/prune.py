# SPDX-License-Identifier: MIT
"""Removing old result sets: never the latest, never a reference, and never half of one under its own name."""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass
from pathlib import Path

from harness.errors import RunError
from harness.scratch import discard, remove_tree, scratch_folder, sync, try_lock
from harness.sets.listing import REFERENCE, UNFINISHED, describe, latest_of, set_paths, unfinished_runs
from harness.sets.signature import signature_file


@dataclass(frozen=True)
class Candidate:
    """A set that may be removed, and the bytes of its files."""

    path: Path
    size: int


@dataclass(frozen=True)
class Choice:
    """What a prune would remove, oldest first, and the broken sets that it leaves to a person."""

    candidates: list[Candidate]
    broken: list[Path]


def choose(results: Path, keep: int) -> Choice:
    """Sets that are not among the `keep` newest of their experiment.

    Left alone: what `latest` leads to, everything in a folder named `reference`, and sets that cannot be read.
    """
    candidates, broken = [], []
    kept: dict[Path, int] = {}
    for path in set_paths(results):
        home = path.parent
        if REFERENCE in path.resolve().parts[-3:-1]:
            continue
        if not _dated(path.name) or describe(path).broken is not None:
            broken.append(path)
            continue
        kept[home] = kept.get(home, 0) + 1
        if kept[home] > keep and path.resolve() != latest_of(home):
            candidates.append(Candidate(path, _size(path)))
    return Choice(candidates[::-1], broken)


def broken_off(results: Path) -> Choice:
    """Unfinished runs that nobody works on."""
    runs = [run.path for run in unfinished_runs(results) if not run.running and _dated(run.path.name)]
    return Choice([Candidate(path, _size(path)) for path in runs[::-1]], [])


def remove(path: Path) -> None:
    """Remove one set. It loses its name first, so whatever interrupts this, no half of it looks like a set.

    What an interruption leaves is swept when the next set of this experiment is written or removed. RunError when
    it cannot be renamed or removed.
    """
    home = path.parent
    lock = try_lock(path) if home.name == UNFINISHED else None
    if home.name == UNFINISHED and lock is None:
        raise RunError("another process works on it", where=str(path))
    try:
        grave = scratch_folder(home, "removing")
        path.rename(grave / path.name)
        for folder in (grave, home):  # the new name must be on disk before the first file is gone
            sync(folder)
        remove_tree(grave)
        discard(grave)
        signature_file(path).unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"cannot be removed: {error.strerror}", where=error.filename or str(path)) from error
    finally:
        if lock is not None:
            os.close(lock)


def _dated(name: str) -> bool:
    """Whether the digits of an ID are a date."""
    try:
        datetime.datetime.strptime(name.partition("-")[0], "%Y%m%dT%H%M%S.%fZ")
    except ValueError:
        return False
    return True


def _size(root: Path) -> int:
    return sum(path.lstat().st_size for path in root.rglob("*") if path.is_file())
