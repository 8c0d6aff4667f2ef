# SPDX-License-Identifier: MIT
"""Kernel trees that users edit: one copy of each in the store, in which only what was edited is compiled again.

make compares times. So a file of the copy keeps its time for as long as its bytes are the same, and has that of its
copying when they are others, whatever time the user's file has. Patches are applied beside the copy, file by file, and
count as edits.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.artefacts.holdings import remove_holding
from harness.artefacts.store import Store, hash_file, hash_of, walk
from harness.errors import RunError
from harness.kernel.patching import apply_patches, touched_files
from harness.kernel.source import VERSIONING, check_version, hash_sources
from harness.kernel.spec import KernelRecipe
from harness.progress import note, step
from harness.scratch import remove_tree

LOCAL = "local"
#: What the copy was made of: where the tree lies, and the hash of every file of it, patched ones as they are patched.
COPIED = "copied.json"
#: So many local trees are kept, and so many builds of each; each takes 1.5 GB and more.
MOST_TREES, MOST_BUILDS = 2, 2
#: Ends the state of a file that is to be executed.
EXECUTABLE = " x"
#: When a file with such a name comes or goes, `#include` may mean another one than before; make does not see that.
HEADERS = (".h", ".hh", ".inc")


@contextmanager
def local_tree(store: Store, recipe: KernelRecipe, identity: Mapping[str, Any]) -> Iterator[Path]:
    """The store's copy of the recipe's local tree, patched, as it is now; no other process has it meanwhile.

    RunError when that is not what `identity` was made of: it was edited since. UsageError naming patch and hunk when
    a patch does not apply.
    """
    source = recipe.spec.source.tree
    assert source is not None
    key = hash_of({"tree": str(source.resolve()), "patches": [path.name for path in recipe.patches]})[:16]
    home = store.root / LOCAL / key
    store.use(LOCAL, key, home / COPIED)
    if not home.is_dir():
        _make_room(store)
    with store.lock(LOCAL, key, str(source)):
        check_version(source, recipe)
        touched = {name for patch in recipe.patches for name in touched_files(patch)} | {*dict(recipe.sources)}
        with store.scratch("patched") as patched, step("copying what was edited of the kernel source"):
            _patch(store, source, recipe, touched, patched)
            unpatched = _copy(source, home, patched, touched)
        if hash_of(unpatched) != identity.get("tree"):
            raise RunError("was edited since the run began", where=str(source), hint="run it again")
        yield home / "linux"


def forget_tree(store: Store, folder: Path) -> None:
    """Remove the copies of trees that lay below a folder, which nobody will come back to."""
    for record in (store.root / LOCAL).glob(f"*/{COPIED}"):
        try:
            ours = Path(json.loads(record.read_text())["tree"]).is_relative_to(folder)
        except (OSError, ValueError, KeyError):
            continue
        if ours:
            with store.lock(LOCAL, record.parent.name, str(folder)):  # this process's own, so it is in use
                remove_tree(record.parent)


def local_build(tree: Path, name: str) -> Path:
    """The folder `name` of a local tree to build in; of others the latest stay."""
    out = tree / name
    others = [path for path in tree.glob("build-*") if path != out]
    for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[MOST_BUILDS - 1 :]:
        remove_tree(path)
    out.mkdir(parents=True, exist_ok=True)
    os.utime(out)
    return out


def _make_room(store: Store) -> None:
    """Remove the local trees that were used least recently, but for one less than may be kept, and those in use."""

    def used(home: Path) -> float:
        return (home / COPIED).stat().st_mtime if (home / COPIED).exists() else 0.0

    homes = [path for path in (store.root / LOCAL).glob("*") if path.is_dir()]
    for home in sorted(homes, key=used, reverse=True)[MOST_TREES - 1 :]:
        remove_holding(store, LOCAL, home.name)


def _patch(store: Store, source: Path, recipe: KernelRecipe, touched: Collection[str], target: Path) -> None:
    """Put the `touched` files into the empty folder `target`, and apply the patches to them there."""
    for name in touched:
        if (source / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)
    (store.root / "logs").mkdir(exist_ok=True)
    apply_patches(target, recipe.patches, store.root / "logs" / f"patches-{recipe.spec.name}.log", recipe.sources)


def _copy(source: Path, home: Path, patched: Path, touched: Collection[str]) -> dict[str, str]:
    """Make `home`/linux what `source` is, with the `touched` files as they are in `patched`; the hashes of `source`.

    Writes no file whose bytes are the same. Builds go where a header came or went.
    """
    tree, record = home / "linux", home / COPIED
    try:
        before: dict[str, str] = json.loads(record.read_text())["files"]
        record.unlink()  # an interruption leaves a copy of which nobody knows what it is
    except (OSError, ValueError, KeyError):
        remove_tree(home)
        before = {}
    tree.mkdir(parents=True, exist_ok=True)
    hashes, wanted = _wanted(source, patched, touched)
    after = {name: state for name, (state, _) in wanted.items()}
    for name in before.keys() - after.keys():
        _clear(tree / name)
    for name, (state, origin) in wanted.items():
        if before.get(name) != state:
            _clear(tree / name)
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(origin, tree / name, follow_symlinks=False)
            if not origin.is_symlink():
                (tree / name).chmod(0o755 if state.endswith(EXECUTABLE) else 0o644)
    builds = list(tree.glob("build-*"))
    if builds and any(name.endswith(HEADERS) for name in before.keys() ^ after.keys()):
        note("headers were added or removed: all of the kernel is compiled again")
        for build in builds:
            remove_tree(build)
    record.write_text(json.dumps({"tree": str(source), "files": after}))
    return hashes


def _wanted(
    source: Path, patched: Path, touched: Collection[str]
) -> tuple[dict[str, str], dict[str, tuple[str, Path]]]:
    """The hashes of the source's files; and of all files and links of the copy, what each is and where that lies."""
    hashes = hash_sources(source)
    wanted = {name: (_state(value, source / name), source / name) for name, value in hashes.items()}
    above = len(os.path.join(source, ""))  # noqa: PTH118  (what entries' paths begin with)
    for entry in walk(source, VERSIONING):
        if entry.is_symlink():
            path = Path(entry.path)
            wanted[entry.path[above:]] = (f"-> {path.readlink()}", path)
    for name in touched:
        wanted.pop(name, None)
        if (patched / name).is_file():  # no patch has removed it
            wanted[name] = (_state(hash_file(patched / name), patched / name), patched / name)
    return hashes, wanted


def _state(sha256: str, path: Path) -> str:
    return f"{sha256}{EXECUTABLE if path.stat().st_mode & 0o100 else ''}"


def _clear(path: Path) -> None:
    """Remove a file or a link; or a folder of the same name, of what was one before."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        remove_tree(path)
