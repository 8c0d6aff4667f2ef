# SPDX-License-Identifier: MIT
"""The seal of a result set: what proves that no bit of it, its manifest's included, has changed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.artefacts.store import hash_file
from harness.errors import RunError
from harness.sets.listing import ID, MANIFEST, read_plain

#: Depth of what is encoded whole: an entry of a manifest's `trials`, `files` or `deterministic`.
ENTRY = 2
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_WRITTEN = json.JSONEncoder(indent=1, ensure_ascii=False)


class Each:
    """A list of JSON that is made anew each time it is iterated over: of many trials, one at a time is in memory."""

    def __init__(self, made: Callable[[], Iterator[object]]) -> None:
        self._made = made

    def __iter__(self) -> Iterator[object]:
        return self._made()


def content_hash(manifest: Mapping[str, Any]) -> str:
    """sha256 (hex) of a set's content: of its manifest's values but `id`, among them every other file's hash.

    Its first 8 digits end the set's ID. Computed from the JSON's own values, so it needs no model of them. It is that
    of the canonical JSON (`hash_of`), of which only a piece at a time is in memory.
    """
    hashed = hashlib.sha256()
    content = {"files": manifest["files"], "manifest": {**manifest, "id": "", "files": {}}}
    for piece in _pieces(content, _CANONICAL, ENTRY + 1):
        hashed.update(piece.encode())
    return hashed.hexdigest()


def manifest_pieces(manifest: Mapping[str, Any]) -> Iterator[str]:
    """The one form in which a manifest is written: other bytes with the same values (1E3 for 1e3) are a change."""
    yield from _pieces(manifest, _WRITTEN, ENTRY)
    yield "\n"


def _pieces(value: object, encoder: json.JSONEncoder, levels: int, depth: int = 0) -> Iterator[str]:
    """What `encoder` makes of `value`, in pieces: mappings and lists of the first `levels` by their entries."""
    line = "" if encoder.indent is None else "\n" + " " * depth
    if levels == 0 or not isinstance(value, Mapping | list | Each):
        yield encoder.encode(value).replace("\n", line)
        return
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    before, between = f"{line} " if line else "", encoder.item_separator
    entries: Iterator[tuple[str, object]]
    if isinstance(value, Mapping):
        names = sorted(value) if encoder.sort_keys else value
        entries = ((f"{encoder.encode(name)}{encoder.key_separator}", value[name]) for name in names)
    else:
        entries = (("", one) for one in value)
    yield opening
    empty = True
    for name, one in entries:
        yield f"{before if empty else between + before}{name}"
        yield from _pieces(one, encoder, levels - 1, depth + 1)
        empty = False
    yield closing if empty else f"{line}{closing}"


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
        unchanged = _is_text(values, data) and content_hash(values).startswith(match[1])
    except UnicodeEncodeError:  # half a surrogate pair can be escaped in JSON, but is no text
        unchanged = False
    if not unchanged:
        raise RunError("differs from what was written: its content's hash is not the one in the ID", where=where)
    if values["id"] != path.name:
        raise RunError(
            f"is of the set {values['id']}, and this folder is {path.name}", where=where, hint="rename the folder back"
        )
    return values


def _is_text(manifest: Mapping[str, Any], data: bytes) -> bool:
    """Whether these are the bytes that the manifest is written in."""
    end = 0
    for piece in manifest_pieces(manifest):
        begin, end = end, end + len(encoded := piece.encode())
        if data[begin:end] != encoded:
            return False
    return end == len(data)


def verify_files(path: Path) -> int:
    """Verify the seal and hash every file again; how many files.

    RunError naming the first that is missing, changed, or not of the set (empty ones and links too).
    """
    files = verify_seal(path)["files"]
    present = dict(entries(path))
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


def check_found(root: Path, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """RunError naming the first file below `root` (sha256 by path) that an analysis has changed, removed or added."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            what = "added" if name not in before else "removed" if name not in after else "changed"
            shared = what == "changed" and (root / name).lstat().st_nlink > 1
            hint = "and so in the set that it is linked from: ./inv verify tells" if shared else None
            raise RunError(f"the analysis has {what} this file, which it may only read", where=name, hint=hint)


@contextmanager
def unchanged(root: Path) -> Iterator[None]:
    """RunError naming a file of the finished set at `root` that the block changes, removes or adds.

    Files are hashed only where size, inode or one of the times that a change leaves says that there was one.
    """
    before = _stamp(root)
    try:
        yield
    finally:
        if _stamp(root) != before:
            verify_files(root)


def _stamp(root: Path) -> str:
    """A hash of what the file system says of every file below `root`; nobody but root sets the time of a change."""
    stamp = hashlib.sha256()
    for name, _ in sorted(entries(root)):
        found = (root / name).lstat()
        told = (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        stamp.update(f"{name}\0{told}".encode("utf-8", "surrogateescape"))
    return stamp.hexdigest()


def entries(root: Path) -> Iterator[tuple[str, bool]]:
    """Everything below `root` that is no folder, by relative POSIX path, and whether it is a plain file."""
    left = [""]
    while left:  # not by recursion: a stranger's set may have any depth
        below = left.pop()
        with os.scandir(root / below) as found:
            for entry in found:
                name = f"{below}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    left.append(f"{name}/")
                else:
                    yield name, entry.is_file(follow_symlinks=False)
