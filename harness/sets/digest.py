# SPDX-License-Identifier: MIT
"""The digest: one hash over all that must come out the same anywhere, and what differs when it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.artefacts.store import hash_file, hash_of
from harness.trial.model import TrialRecord

#: Files of a trial that tell host time or host paths.
HOST_TIMED = frozenset({"qmp-events.json", "qemu.stderr", "diagnosis.txt", "host-sched.json"})


def deterministic_files(root: Path, trials: Sequence[TrialRecord]) -> dict[str, str]:
    """sha256 by relative path of every raw file of the virtual-clock trials below `root`."""
    hashes = {}
    for trial in trials:
        if trial.clock != "virtual":
            continue
        folder = root / trial.path
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name not in HOST_TIMED:
                hashes[path.relative_to(root).as_posix()] = hash_file(path)
    return hashes


def digest(files: Mapping[str, str]) -> str | None:
    """The digest over `deterministic_files`; None when there are none."""
    return hash_of(dict(files)) if files else None


def first_difference(expected: Mapping[str, str], actual: Mapping[str, str]) -> str | None:
    """The first file (by path) that differs, with how; None when all are equal."""
    for name in sorted(expected.keys() | actual.keys()):
        if name not in actual:
            return f"{name} is missing here"
        if name not in expected:
            return f"{name} is not in the reference"
        if expected[name] != actual[name]:
            return f"{name} differs"
    return None
