# SPDX-License-Identifier: MIT
"""That nothing of a result set leads out of its folder: checked once, when a set is opened, for all that use it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from harness.errors import UsageError
from harness.store.listing import ID, MANIFEST
from harness.store.manifest import Manifest


def check_inside(root: Path, manifest: Manifest) -> None:
    """UsageError naming what could lead a reader or a writer out of the set at `root`.

    Names in the manifest are those of files in the set and of the set itself; and in its folder are plain files and
    folders only. A link would bring in a file of the reader's host, a pipe or a device would hold the reader for ever.
    """
    where = str(root / MANIFEST)
    for field, name in _named(manifest):
        if not _is_inside(name):
            raise UsageError(f"field {field}: {name!a} is no path in the set", where=where)
    earlier = [
        *(("analysed_from", step.id) for step in manifest.analysed_from),
        *(("merged_from", part.id) for part in manifest.merged_from),
    ]
    for field, name in [("id", manifest.id), *earlier]:
        if ID.fullmatch(name) is None:
            raise UsageError(f"field {field}: {name!a} is no ID of a set", where=where)
    for trial in manifest.trials:
        if trial.arm not in manifest.experiment.arms:
            raise UsageError(f"field trials: there is no arm {trial.arm!a}", where=where)
        if trial.host is not None and not 0 <= trial.host < len(manifest.hosts):
            raise UsageError(f"field trials: there is no host {trial.host}", where=where)
    for path in _no_files(root):
        raise UsageError("is neither a plain file nor a folder", where=str(path), hint="a set has nothing else")


def _named(manifest: Manifest) -> Iterator[tuple[str, str]]:
    for field in ("files", "deterministic", "experiment_files"):
        yield from ((field, name) for name in getattr(manifest, field))
    for trial in manifest.trials:
        yield "trials.path", str(trial.path)
        yield "trials.system_map", str(trial.system_map)


def _is_inside(name: str) -> bool:
    return "\0" not in name and not {"", ".", ".."}.intersection(name.split("/"))


def _no_files(root: Path) -> Iterator[Path]:
    """What below `root` is neither a plain file nor a folder."""
    left = [root]
    while left:  # not by recursion: a stranger's set may have any depth
        with os.scandir(left.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    left.append(Path(entry.path))
                elif not entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)
