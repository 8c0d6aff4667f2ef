# SPDX-License-Identifier: MIT
"""Kernel sources: fetched, checked, unpacked and patched into trees that builds share."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import stagetimes
from harness.artefacts.store import Artefact, Store, hash_file, hash_of, hash_tree, usable, walk
from harness.errors import RunError, UsageError
from harness.kernel.given import given_kernel
from harness.kernel.packaged import KERNELS_LOCK, find_packaged, packaged_kernel
from harness.kernel.patching import apply_patches
from harness.kernel.spec import KernelRecipe, Source
from harness.packages import debs
from harness.packages.buildtool import tool
from harness.packages.lock import Entry, load, lock_for
from harness.progress import step, warn

FETCH_TIMEOUT_S = 60
TREES = "trees"
COMPLETE, UNPACKING = ".krepro-complete", "unpack.log"
#: What of a local tree is no source: the build must not depend on the state of somebody's working copy.
VERSIONING = frozenset({".git"})
_hashed: dict[tuple[str, int, int, int, int], str] = {}


def fetch_source(store: Store, source: Source, beside: Path | None = None) -> Artefact | None:
    """The artefact that holds the source's archive, or a packaged kernel's files; None for a local tree, which is used
    where it lies.

    `beside`: an experiment's folder, which may have a lock of its own.
    """
    if source.debian is not None:
        return debs.artefact_of(store, f"{source.debian}-amd64", [source_entry(source.debian, beside)])
    if source.url is not None:
        assert source.sha256 is not None
        url, sha256 = source.url, source.sha256
        return store.obtain("download", url.rsplit("/", 1)[-1], {"sha256": sha256}, lambda d: _get(url, sha256, d))
    if source.package is not None:
        return packaged_kernel(store, find_packaged(source.package))
    if source.given is not None:
        return given_kernel(store, source.given)
    return None


def source_entry(package: str, beside: Path | None = None) -> Entry:
    """Which .deb has a kernel's source: by tools.lock, else by kernels.lock, which has those of other releases.

    UsageError when neither has it. `beside`: an experiment's folder, which may have a lock of its own.
    """
    others = [entry for entry in load(KERNELS_LOCK).packages if entry.package == package]
    own = lock_for(beside)
    return others[0] if others and not own.has(package) else own.entry("amd64", package)


def source_identity(source: Source, archive: Artefact | None) -> Mapping[str, Any]:
    """What the source adds to a kernel's key: hashes alone, never where it was found."""
    if archive is not None:
        return {"archive": dict(archive.files)}
    assert source.tree is not None
    if not (source.tree / "Kconfig").is_file():
        raise UsageError("field source.tree: not a kernel source tree", where=str(source.tree))
    return {"tree": hash_of(hash_sources(source.tree))}


def hash_sources(tree: Path) -> dict[str, str]:
    """sha256 of every file of a local tree by its name, but those of `VERSIONING`.

    A file that looks as it did when this process hashed it last is not read again.
    """
    hashes = {}
    above = len(os.path.join(tree, ""))  # noqa: PTH118  (what entries' paths begin with)
    for entry in walk(tree, VERSIONING):
        if entry.is_file(follow_symlinks=False):
            there = entry.stat()
            look = (entry.path, there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns)
            if look not in _hashed:
                _hashed[look] = hash_file(Path(entry.path))
            hashes[entry.path[above:]] = _hashed[look]
    return hashes


def tree_key(recipe: KernelRecipe, identity: Mapping[str, Any]) -> str:
    """Name of the recipe's patched tree in the store."""
    added = [[name, hash_file(path)] for name, path in recipe.added()]
    return hash_of({"source": identity, "patches": added})[:16]


def patched_tree(
    store: Store, recipe: KernelRecipe, archive: Artefact, identity: Mapping[str, Any], *, check: bool = False
) -> Path:
    """The archive's source tree with the recipe's patches applied; made once and shared by all builds.

    `check`: compare every file with what was unpacked, and unpack it all again, with a warning, where one differs.
    UsageError naming patch and hunk when a patch does not apply.
    """
    key = tree_key(recipe, identity)
    home = store.root / TREES / key
    tree, complete = home / "linux", home / COMPLETE
    store.use(TREES, key, complete)
    with store.lock(TREES, key, recipe.spec.name), usable(store.root):
        if complete.exists():
            wanted = complete.read_text()
            if not (check and wanted) or _is_new(home):  # one of older versions has no hash
                return tree
            if wanted == _hash_of_sources(tree):
                return tree
            warn(f"the kernel source in {tree} was changed; it is unpacked again")
        shutil.rmtree(home, ignore_errors=True)
        tree.mkdir(parents=True)
        try:
            _unpack(store, recipe.spec.source, archive, tree)
            check_version(tree, recipe)
            apply_patches(tree, recipe.patches, home / "git-am.log", recipe.sources)
            complete.write_text(_hash_of_sources(tree))
        except BaseException:
            shutil.rmtree(home, ignore_errors=True)
            raise
    return tree


def _is_new(home: Path) -> bool:
    """Whether this very command has unpacked a tree, and hashed it, while its environment was made."""
    since = stagetimes.made_environment_since()
    try:
        return since is not None and (home / UNPACKING).stat().st_mtime >= since
    except OSError:
        return False


def _hash_of_sources(tree: Path) -> str:
    """One hash of all files of a tree but those in its build folders, which others may make meanwhile."""
    hashes: dict[str, str] = {}
    with step("checking the kernel source"):
        for entry in sorted(os.scandir(tree), key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("build-"):
                hashes |= {f"{entry.name}/{name}": value for name, value in hash_tree(Path(entry.path)).items()}
            elif entry.is_file(follow_symlinks=False):
                hashes[entry.name] = hash_file(Path(entry.path))
    return hash_of(hashes)


def _unpack(store: Store, source: Source, archive: Artefact, tree: Path) -> None:
    log = tree.parent / UNPACKING
    with step("unpacking the kernel source"):
        file = archive.path / next(iter(archive.files))
        if source.debian is None:
            _extract(file, tree, log)
            return
        with store.scratch("deb") as scratch:
            debs.unpack(archive, scratch)
            tarballs = sorted(scratch.rglob("linux-source-*.tar.*"))
            if len(tarballs) != 1:
                raise UsageError(f"field source.debian: {source.debian} holds {len(tarballs)} source archives, not 1")
            _extract(tarballs[0], tree, log)


def _extract(file: Path, tree: Path, log: Path) -> None:
    tool(
        ["tar", "--extract", "--strip-components=1", "--no-same-owner", "-C", tree, "-f", file],
        log=log,
        env={"XZ_OPT": "--threads=0"},  # Debian's archive has blocks that xz unpacks side by side
        what=f"unpacking {file.name}",
    )


def check_version(tree: Path, recipe: KernelRecipe) -> None:
    """UsageError when the kernel in `tree` is of another version than the recipe's."""
    try:
        head = (tree / "Makefile").read_text()[:200]
    except OSError as error:
        raise UsageError(f"kernel {recipe.spec.name}: the source has no Makefile; is it a kernel?") from error
    found = re.search(r"^VERSION = (\d+)\nPATCHLEVEL = (\d+)$", head, re.MULTILINE)
    actual = f"{found[1]}.{found[2]}" if found else "unknown"
    if actual != recipe.version:
        raise UsageError(f"kernel {recipe.spec.name}: the source is version {actual}, not {recipe.version}")


def _get(url: str, sha256: str, folder: Path) -> None:
    if not url.startswith(("https://", "http://", "file://")):
        raise UsageError(f"field source.url: {url!r} is neither http(s) nor file")
    target = folder / url.rsplit("/", 1)[-1]
    with step(f"fetching {target.name}") as bar:
        try:
            with urllib.request.urlopen(url, timeout=FETCH_TIMEOUT_S) as stream, target.open("wb") as sink:  # noqa: S310
                while block := stream.read(1 << 20):
                    sink.write(block)
                    bar.advance(1, "MiB")
        except (urllib.error.URLError, TimeoutError) as error:
            raise RunError(
                f"cannot be fetched: {error}", where=url, hint="put the file there, or use source.tree"
            ) from error
    actual = hash_file(target)
    if actual != sha256:
        raise RunError(f"sha256 is {actual}, not {sha256}", where=url)
    if not tarfile.is_tarfile(target):
        raise UsageError("is not a tar archive", where=url)
