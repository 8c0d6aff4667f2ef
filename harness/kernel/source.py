# SPDX-License-Identifier: MIT
"""Kernel sources: fetched, checked, unpacked and patched into trees that builds share."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import stagetimes
from harness.artefacts.store import Artefact, Store, hash_file, hash_of, hash_tree, usable, walk
from harness.errors import RunError, UsageError
from harness.kernel.given import given_kernel
from harness.kernel.packaged import find_packaged, packaged_kernel
from harness.kernel.spec import KernelRecipe, Source
from harness.packages import debs
from harness.packages.buildtool import HOST, build_environment, tool
from harness.progress import step, warn
from harness.scratch import discard

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
        return debs.fetch(store, "amd64", [source.debian], dependencies=False, beside=beside)
    if source.url is not None:
        assert source.sha256 is not None
        url, sha256 = source.url, source.sha256
        return store.obtain("download", url.rsplit("/", 1)[-1], {"sha256": sha256}, lambda d: _get(url, sha256, d))
    if source.package is not None:
        return packaged_kernel(store, find_packaged(source.package))
    if source.given is not None:
        return given_kernel(store, source.given)
    return None


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
    return hash_of({"source": identity, "patches": [hash_file(path) for path in recipe.patches]})[:16]


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
            apply_patches(tree, recipe.patches, home / "git-am.log")
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


def apply_patches(tree: Path, patches: Sequence[Path], log: Path) -> None:
    """`git am` the patches onto `tree`, which is no git repository before and after.

    Only the files that the patches touch are put under git: adding all 80,000 would take longer than a build.
    """
    if not patches:
        return
    touched = sorted({name for patch in patches for name in touched_files(patch) if (tree / name).is_file()})
    identity = ["-c", "user.name=krepro", "-c", "user.email=krepro@localhost", "-c", "commit.gpgsign=false"]
    env = {"GIT_CEILING_DIRECTORIES": str(tree.parent), "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    git = ["git", "-C", str(tree), *identity]
    tool(["git", "init", "-q", str(tree)], log=log, env=env, what="git init", among=HOST)
    try:
        if touched:
            tool([*git, "add", "-f", "--", *touched], log=log, env=env, what="git add", among=HOST)
        tool([*git, "commit", "-q", "--allow-empty", "-m", "source"], log=log, env=env, what="git commit", among=HOST)
        for patch in patches:
            _am(git, patch, env)
    finally:
        shutil.rmtree(tree / ".git", ignore_errors=True)  # else setlocalversion puts "+" into the release


def _am(git: Sequence[str], patch: Path, env: Mapping[str, str]) -> None:
    done = subprocess.run(
        [*git, "am", "-q", "--no-3way", str(patch)],
        capture_output=True,
        text=True,
        check=False,
        env=build_environment(env),
    )
    if done.returncode == 0:
        return
    text = done.stderr + done.stdout
    hunks = re.findall(r"error: patch failed: (\S+:\d+)", text)
    missing = re.findall(r"error: (\S+): (?:does not exist in index|No such file or directory)", text)
    where = f"hunk at {hunks[0]}" if hunks else f"no file {missing[0]}" if missing else text.strip().splitlines()[0]
    raise UsageError(
        f"patch does not apply: {where}", where=str(patch), hint="refresh the series for this kernel version"
    )


def touched_files(patch: Path) -> list[str]:
    """Names of the files that a patch changes, makes, renames or removes, as git reads its mails, in whatever coding.

    UsageError when it is no mail, or a mail without a patch in git's format.
    """
    names: dict[str, None] = {}
    with tempfile.TemporaryDirectory(prefix="krepro-mail-") as folder:
        mails = Path(folder)
        count = _git(mails, "mailsplit", "-b", f"-o{mails}", "--", str(patch.resolve()))
        for number in range(1, int(count.stdout.strip() or b"0") + 1):
            mail = (mails / f"{number:04d}").read_bytes()
            done = _git(mails, "mailinfo", "message", "diff", given=mail)
            if b"Author: " not in done.stdout:
                break
            # `git apply` alone reads the diff's head: names with blanks, renames, modes, binary files.
            for way in ([], ["-R"]):  # the name before a rename is told by the way back
                done = _git(mails, "apply", "--numstat", "-z", *way, "diff")
                if done.returncode != 0 and b"No valid patches" not in done.stderr:
                    reason = done.stderr.decode(errors="replace").splitlines()[:1]
                    where = f"mail {number}: {''.join(reason).removeprefix('error: ')}"
                    raise UsageError(f"patch does not apply: {where}", where=str(patch), hint="use git format-patch")
                told = done.stdout.decode(errors="surrogateescape")
                names |= dict.fromkeys(field.rpartition("\t")[2] for field in told.split("\0"))
    names.pop("", None)
    if not names:
        plain = re.search(rb"^(diff --git|---) ", patch.read_bytes(), re.MULTILINE) is not None
        what = "is a plain diff, not a mail" if plain else "not a patch in git format: it names no file"
        raise UsageError(what, where=str(patch), hint="use git format-patch")
    return list(names)


def _git(folder: Path, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """A command of git's that needs no repository, and finds none."""
    env = build_environment({"GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_CONFIG_GLOBAL": "/dev/null"})
    return subprocess.run(["git", *words], input=given, capture_output=True, check=False, cwd=folder, env=env)


def _unpack(store: Store, source: Source, archive: Artefact, tree: Path) -> None:
    log = tree.parent / UNPACKING
    with step("unpacking the kernel source"):
        file = archive.path / next(iter(archive.files))
        if source.debian is None:
            _extract(file, tree, log)
            return
        scratch = store.scratch("deb")
        try:
            debs.unpack(archive, scratch)
            tarballs = sorted(scratch.rglob("linux-source-*.tar.*"))
            if len(tarballs) != 1:
                raise UsageError(f"field source.debian: {source.debian} holds {len(tarballs)} source archives, not 1")
            _extract(tarballs[0], tree, log)
        finally:
            discard(scratch)


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
