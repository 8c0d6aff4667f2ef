# SPDX-License-Identifier: MIT
"""Whose a result set is, and whether the code in it may be executed unasked: facts about bytes, not about folders.

A set carries a keyed hash (HMAC) of its content. The key lies in the store, is made with the first set and leaves it
never: nobody else can make a set that passes for one of this host, and who has the set learns nothing from it. A set
has it only where every trial in it was measured here.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harness.artefacts.store import Store, hash_tree, walk
from harness.errors import KreproError, RunError
from harness.experiment.model import experiment_names
from harness.paths import EXPERIMENTS
from harness.sets.seal import content_hash, verify_seal
from harness.sets.signature import vouched

#: Folders of a set with what is executed: the experiment as it is analysed, and as it was measured where that differs.
CODE = ("experiment", "measured")
#: Of an experiment's folder: what is not copied into sets, and what is nowhere executed.
NO_SOURCES, NO_CODE = ("__pycache__", "*.pyc", ".*"), ("*.md",)
KEY, KEY_BYTES = "maker.key", 32
FIELD = "maker"


def maker_of(values: Mapping[str, Any]) -> str:
    """What the field `maker` of these values is on this host; empty where the store cannot be used.

    `values`: of a manifest, or of another document with a field `files`.
    """
    try:
        return _keyed(_key(), values)
    except (OSError, KreproError):
        return ""


def _keyed(key: bytes, values: Mapping[str, Any]) -> str:
    return hmac.digest(key, content_hash({**values, FIELD: ""}).encode(), "sha256").hex()


def is_known(root: Path, experiment: str, signers: Path | None = None) -> bool:
    """Whether all code in the set at `root`, of the experiment of this name, is vouched for or is the project's."""
    return is_vouched_for(root, signers) or (_is_ours_to_change(root) and _as_in_project(root, experiment))


def is_vouched_for(root: Path, signers: Path | None = None) -> bool:
    """Whether the set at `root` was made here, or is signed by a key whose owner's code is executed (`vouched`).

    Its code must be what was sealed or signed. `signers`: the file with the keys.
    """
    return made_here(root) or (vouched(root, signers) and _is_ours_to_change(root) and _code_is_listed(root))


def made_here(root: Path) -> bool:
    """Whether this host measured all of the set at `root` and sealed it, and its code is what was sealed."""
    try:
        return is_own(verify_seal(root)) and _is_ours_to_change(root) and _code_is_listed(root)
    except KreproError:
        return False


def is_own(values: Mapping[str, Any]) -> bool:
    """Whether the field `maker` of these values is of this host."""
    try:
        known = _keyed(_read(Store.default().root / KEY), values)  # who only looks makes no key
    except (OSError, KreproError):
        return False
    return hmac.compare_digest(known.encode(), str(values.get(FIELD)).encode())


def _code_is_listed(root: Path) -> bool:
    try:
        files = verify_seal(root)["files"]
    except KreproError:
        return False
    return _code(root) == {name: value for name, value in files.items() if name.split("/")[0] in CODE}


def _as_in_project(root: Path, experiment: str) -> bool:
    """Whether each folder with code is that of the project, file by file, but for prose; none may be missing."""
    if experiment not in experiment_names():
        return False
    own = _sources(EXPERIMENTS / experiment)
    folders = [root / folder for folder in CODE if (root / folder).is_dir()]
    return bool(folders) and all(_sources(folder, NO_CODE) == own for folder in folders)


def _sources(folder: Path, left_out: Sequence[str] = (*NO_CODE, *NO_SOURCES)) -> dict[str, str]:
    return {
        name: value
        for name, value in hash_tree(folder).items()
        if not any(fnmatchcase(part, pattern) for part in name.split("/") for pattern in left_out)
    }


def _code(root: Path) -> dict[str, str]:
    return {
        f"{folder}/{name}": value
        for folder in CODE
        if (root / folder).is_dir()
        for name, value in hash_tree(root / folder).items()
    }


def _is_ours_to_change(root: Path) -> bool:
    """Whether the code is this user's (or root's) and not everybody's to change, after it was looked at."""
    try:
        code = (Path(entry.path) for folder in CODE for entry in walk(root / folder))
        tops = (root, *(root / folder for folder in CODE if (root / folder).exists()))
        found = (path.lstat() for path in (*tops, *code))
        return all(one.st_uid in (0, os.geteuid()) and not one.st_mode & stat.S_IWOTH for one in found)
    except OSError:
        return False


def _key() -> bytes:
    path = Store.default().root / KEY
    with suppress(FileNotFoundError):
        return _read(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, fresh = tempfile.mkstemp(dir=path.parent, prefix=f".{KEY}-")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        with suppress(FileExistsError):  # another run was quicker: its key is the one
            path.hardlink_to(fresh)
    finally:
        Path(fresh).unlink()
    return _read(path)


def _read(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise RunError("is no key", where=str(path), hint="remove it: sets made so far are then those of a stranger")
    return key
