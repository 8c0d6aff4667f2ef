# SPDX-License-Identifier: MIT
"""What the store holds: artefacts, unpacked kernel sources, caches; their size, age and use; and removing one."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.artefacts.store import SEAL, Store, walk
from harness.artefacts.uses import nobody_begins
from harness.errors import RunError
from harness.scratch import remove_tree

#: A folder in the store whose name is a hash is one thing; everything else is of krepro's own keeping.
KEY = re.compile(r"[0-9a-f]{16}(?:[0-9a-f]{16})?")
#: The files by whose time of change the last use is told: of artefacts, archived sources, local trees, the tools tree.
MARKS = (SEAL, ".krepro-complete", "copied.json", "tree.json")


@dataclass(frozen=True)
class Holding:
    """One thing in the store: bytes on the disk, when it was made and used last (seconds since 1970).

    What has no key is a folder of krepro's own, such as the compiler's cache: it is shown and never removed.
    """

    kind: str
    key: str
    name: str
    size: int
    made: float
    used: float


def holdings(store: Store) -> list[Holding]:
    """All that is in the store, by kind and key."""
    return list(_holdings(store.root))


def _holdings(root: Path) -> Iterator[Holding]:
    with suppress(FileNotFoundError):
        for kind in sorted(root.iterdir()):
            if not kind.is_dir() or kind.is_symlink():
                continue
            inside = sorted(path for path in kind.iterdir() if path.is_dir() and KEY.fullmatch(path.name))
            for home in inside:
                with suppress(FileNotFoundError):  # somebody removes it
                    yield _holding(kind.name, home)
            if not inside:
                changed = kind.stat().st_mtime
                yield Holding(kind.name, "", "", size_of(kind), changed, changed)


def _holding(kind: str, home: Path) -> Holding:
    made = home.stat().st_mtime
    marks = [home / name for name in MARKS if (home / name).is_file()]
    used = max([made, *(mark.stat().st_mtime for mark in marks)])
    return Holding(kind, home.name, _name(home), size_of(home), made, used)


def _name(home: Path) -> str:
    """What it is called for people; empty where it has not been written down."""
    try:
        seal = json.loads((home / SEAL).read_text())
        return str(seal.get("name") or seal["info"].get("release", ""))
    except (OSError, ValueError, KeyError, AttributeError):
        return ""


def size_of(root: Path) -> int:
    """Bytes that a folder takes on the disk, links of one file counted each."""
    total = 0
    for entry in walk(root):
        with suppress(FileNotFoundError):
            total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def remove_holding(store: Store, kind: str, key: str) -> bool:
    """Remove one thing; False, and nothing is done, where a running process uses or builds it.

    It loses its name first, so what an interruption leaves is no artefact, and is swept with the next scratch folder.
    RunError when it cannot be removed.
    """
    home = store.root / kind / key
    with store.free(kind, key) as held:
        if not held:
            return False
        try:
            with store.scratch("removing") as grave:
                with nobody_begins(store.root) as used:
                    if f"{kind}/{key}" in used:
                        return False
                    with suppress(FileNotFoundError):
                        home.rename(grave / key)
                remove_tree(grave)
        except OSError as error:
            raise RunError(f"cannot be removed: {error.strerror}", where=error.filename or str(home)) from error
    return True


@dataclass(frozen=True)
class Decision:
    """One thing of the store, whether it goes, and why or why not."""

    holding: Holding
    goes: bool
    why: str


def decide(
    held: Sequence[Holding],
    needed: Mapping[tuple[str, str], str],
    in_use: Collection[str],
    *,
    below: int | None = None,
) -> list[Decision]:
    """A decision for each thing that has a key, least recently used first.

    What goes is in no use (`in_use`: KIND/KEY) and needed by nobody (`needed`: by kind and key, the reason). With
    `below`, it goes until the whole store takes at most that many bytes: what nobody needs first, then the rest.
    """
    keyed = [one for one in held if one.key]
    order = sorted(keyed, key=lambda one: ((one.kind, one.key) in needed, one.used, one.kind, one.key))
    total = sum(one.size for one in held)
    decisions = []
    for one in order:
        reason = needed.get((one.kind, one.key))
        if f"{one.kind}/{one.key}" in in_use:
            decisions.append(Decision(one, goes=False, why="in use"))
        elif reason is not None and below is None:
            decisions.append(Decision(one, goes=False, why=reason))
        elif below is not None and total <= below:
            decisions.append(Decision(one, goes=False, why="the store is small enough"))
        else:
            total -= one.size
            decisions.append(Decision(one, goes=True, why=reason or "nothing needs it"))
    return decisions
