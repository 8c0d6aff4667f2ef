# SPDX-License-Identifier: MIT
"""That nothing of a result set leads out of its folder: checked once, when a set is opened, for all that use it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.errors import UsageError
from harness.sets.listing import ID, MANIFEST, METADATA
from harness.sets.manifest import Manifest
from harness.sets.seal import entries


def check_inside(root: Path, manifest: Manifest) -> None:
    """UsageError naming what could lead a reader or a writer out of the set at `root`.

    Names in the manifest are those of files in the set and of the set itself; and in its folder are folders and the
    plain files that the manifest names. A link would bring in a file of the reader's host, a pipe or a device would
    hold the reader for ever, and a file that came later would be read with those that were sealed.
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
    for name, is_plain in entries(root):
        if not is_plain:
            what, hint = "is neither a plain file nor a folder", "a set has nothing else"
            raise UsageError(what, where=str(root / name), hint=hint)
        if name not in manifest.files and name not in (MANIFEST, METADATA):
            what, hint = "is not of this set: it came after it was written", "move it away"
            raise UsageError(what, where=str(root / name), hint=hint)


def _named(manifest: Manifest) -> Iterator[tuple[str, str]]:
    for field in ("files", "deterministic", "experiment_files"):
        yield from ((field, name) for name in getattr(manifest, field))


def _is_inside(name: str) -> bool:
    return "\0" not in name and not {"", ".", ".."}.intersection(name.split("/"))
