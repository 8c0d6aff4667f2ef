# SPDX-License-Identifier: MIT
"""Whether the code in a result set is known here: of a set that this host sealed, or of an experiment of the project.

A set carries a keyed hash (HMAC) of its content. The key lies in the store, is made with the first set and leaves it
never: nobody else can make a set that passes for one of this host, and who has the set learns nothing from it.
"""

from __future__ import annotations

import hmac
import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.build.store import Store, hash_file, hash_tree
from harness.errors import KreproError, RunError
from harness.experiment.model import experiment_names
from harness.paths import EXPERIMENTS
from harness.store.seal import content_hash, verify_seal

#: Folders of a set with what is executed: the experiment as it is analysed, and as it was measured where that differs.
CODE = ("experiment", "measured")
KEY, KEY_BYTES = "maker.key", 32
FIELD = "maker"


def maker_of(values: Mapping[str, Any]) -> str:
    """What the field `maker` of these values of a manifest is on this host; empty where the store cannot be used."""
    try:
        return _keyed(_key(), values)
    except (OSError, KreproError):
        return ""


def _keyed(key: bytes, values: Mapping[str, Any]) -> str:
    return hmac.digest(key, content_hash({**values, FIELD: ""}).encode(), "sha256").hex()


def is_known(root: Path, experiment: str) -> bool:
    """Whether all code in the set at `root`, of the experiment of this name, is this host's own or the project's."""
    return made_here(root) or _as_in_project(root, experiment)


def made_here(root: Path) -> bool:
    """Whether this host sealed the set at `root`, and its code is what was sealed."""
    try:
        values = verify_seal(root)
        known = _keyed(_read(Store.default().root / KEY), values)  # who only looks makes no key
    except (OSError, KreproError):
        return False
    if not hmac.compare_digest(known.encode(), str(values.get(FIELD)).encode()):
        return False
    listed = {name: value for name, value in values["files"].items() if name.split("/")[0] in CODE}
    return dict(_code(root)) == listed


def _as_in_project(root: Path, experiment: str) -> bool:
    if experiment not in experiment_names():
        return False
    for name, value in _code(root):
        own = EXPERIMENTS / experiment / name.partition("/")[2]
        if not name.endswith(".md") and not (own.is_file() and hash_file(own) == value):
            return False
    return True


def _code(root: Path) -> Iterator[tuple[str, str]]:
    for folder in CODE:
        if (root / folder).is_dir():
            yield from ((f"{folder}/{name}", value) for name, value in hash_tree(root / folder).items())


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
