# SPDX-License-Identifier: MIT
"""The seal of a result set: what proves that no bit of it, its manifest's included, has changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.build.store import hash_file, hash_of
from harness.errors import RunError
from harness.store.listing import ID, MANIFEST, read_plain


def content_hash(manifest: Mapping[str, Any]) -> str:
    """sha256 (hex) of a set's content: of its manifest's values but `id`, among them every other file's hash.

    Its first 8 digits end the set's ID. Computed from the JSON's own values, so it needs no model of them.
    """
    return hash_of({"files": manifest["files"], "manifest": {**manifest, "id": "", "files": {}}})


def manifest_text(manifest: Mapping[str, Any]) -> str:
    """The one form in which a manifest is written: other bytes with the same values (1E3 for 1e3) are a change."""
    return json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"


def verify_seal(path: Path) -> dict[str, Any]:
    """The manifest's values, when its bytes are those that were written; else RunError naming it.

    The content's hash must be the one in `id`, and `id` the folder's name: a set is renamed by changing both, and
    then the hash no longer fits.
    """
    where = str(path / MANIFEST)
    if (path / MANIFEST).is_symlink():
        raise RunError("is a link, not a file", where=where)
    try:
        data = read_plain(path / MANIFEST)
        values: Any = json.loads(data)
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", where=where) from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"differs from what was written: {error}", where=where) from error
    if not isinstance(values, dict) or not isinstance(values.get("files"), dict):
        raise RunError("differs from what was written: there is no list of files in it", where=where)
    match = ID.fullmatch(str(values.get("id")))
    if match is None:
        raise RunError("differs from what was written: there is no ID in it", where=where)
    try:
        unchanged = manifest_text(values).encode() == data and content_hash(values).startswith(match[1])
    except UnicodeEncodeError:  # half a surrogate pair can be escaped in JSON, but is no text
        unchanged = False
    if not unchanged:
        raise RunError("differs from what was written: its content's hash is not the one in the ID", where=where)
    if values["id"] != path.name:
        raise RunError(
            f"is of the set {values['id']}, and this folder is {path.name}", where=where, hint="rename the folder back"
        )
    return values


def verify_files(path: Path) -> int:
    """Verify the seal and hash every file again; how many files.

    RunError naming the first that is missing, changed, or not of the set (empty ones and links too).
    """
    files = verify_seal(path)["files"]
    present = dict(_entries(path))
    present.pop(MANIFEST)
    for name in sorted(files.keys() | present.keys()):
        where = str(path / name)
        if name not in present:
            raise RunError("is missing", where=where)
        if name not in files:
            raise RunError("is not of this set: it came after it was written", where=where)
        if not present[name]:
            raise RunError("differs from what was written: no plain file", where=where)
        try:
            same = hash_file(path / name) == files[name]
        except OSError as error:
            raise RunError(f"cannot be read: {error.strerror}", where=where) from error
        if not same:
            raise RunError("differs from what was written", where=where)
    return len(present) + 1


def _entries(root: Path, below: str = "") -> Iterator[tuple[str, bool]]:
    """Everything below `root` that is no folder, by relative POSIX path, and whether it is a plain file."""
    with os.scandir(root / below) as entries:
        for entry in entries:
            name = f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(root, f"{name}/")
            else:
                yield name, entry.is_file(follow_symlinks=False)
