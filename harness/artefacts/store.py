# SPDX-License-Identifier: MIT
"""A content-addressed store of artefacts: kernels, images, plugins, saved states.

An artefact is a folder named by the hash of all its inputs. It is built in a temporary folder and renamed
into place, so it is there whole or not at all; every file's hash is checked each time it is read.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from harness import settings, stagetimes
from harness.artefacts.uses import use
from harness.errors import RunError, UsageError
from harness.progress import note, warn
from harness.scratch import remove_tree, scratch_space

SEAL = "artefact.json"


def canonical(value: object) -> bytes:
    """JSON with sorted keys and no spaces: the one form that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def hash_of(value: object) -> str:
    """sha256 (hex) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical(value)).hexdigest()


def hash_file(path: Path) -> str:
    """sha256 (hex) of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def hash_tree(root: Path, skip: Collection[str] = ()) -> dict[str, str]:
    """sha256 of every regular file below `root`, by its POSIX path relative to `root`; those of `walk`.

    RunError naming a file whose name is not UTF-8: no JSON can hold it.
    """
    hashes = {}
    above = len(os.path.join(root, ""))  # noqa: PTH118  (what entries' paths begin with)
    for entry in walk(root, skip):
        if entry.is_file(follow_symlinks=False):
            name = entry.path[above:]
            if not name.isascii() and name != name.encode("utf-8", "replace").decode():
                raise RunError("the file's name is not UTF-8", where=ascii(entry.path))
            hashes[name] = hash_file(Path(entry.path))
    return hashes


def walk(root: Path | str, skip: Collection[str] = ()) -> Iterator[os.DirEntry[str]]:
    """Everything below `root`, a folder before what is in it, each folder's names sorted; links are not followed.

    What has a name in `skip` is left out, at every depth, with all that is in it.
    Holds the names of the folders that it is in, and of no others: a result set has millions of files.
    """
    try:
        with os.scandir(root) as scanned:
            entries = sorted((entry for entry in scanned if entry.name not in skip), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from walk(entry.path, skip)


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Artefact:
    """What one build produced: a sealed folder, its inputs, and what the build said of itself."""

    kind: str
    key: str
    path: Path
    inputs: Mapping[str, Any]
    files: Mapping[str, str]
    info: Mapping[str, Any]

    def file(self, name: str) -> Path:
        """Path of the file `name`; RunError when this artefact has no such file."""
        if name not in self.files:
            raise RunError(f"{self.kind} artefact has no {name}", where=str(self.path))
        return self.path / name


class Store:
    """Artefacts below one folder, shared by every run of this user."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def default(cls) -> Store:
        """The setting `store`, else `$XDG_CACHE_HOME/krepro`, else `~/.cache/krepro`."""
        chosen = settings.text(settings.STORE)
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        root = Path(chosen).expanduser().resolve() if chosen else cache / "krepro"
        if re.search(r"[\s:,']", str(root)):
            raise UsageError(
                "make and QEMU take no blank, colon, comma or quote in a path", where=str(root), hint="set KREPRO_STORE"
            )
        return cls(root)

    @contextmanager
    def scratch(self, label: str) -> Iterator[Path]:
        """A temporary folder on the store's file system until the block ends; what was renamed out of it stays."""
        with ExitStack() as stack:
            with usable(self.root):
                folder = stack.enter_context(scratch_space(label, self.root / "tmp"))
            yield folder

    @contextmanager
    def lock(self, kind: str, key: str, name: str) -> Iterator[None]:
        """Hold the lock of one key, whatever it is called; says that `name` is waited for if it is not free at once."""
        guard = self._guard(kind, key)
        try:
            guard.acquire(timeout=1)
        except Timeout:
            note(f"waiting for another process that builds {kind} {name}")
            begun = time.monotonic()
            guard.acquire()
            stagetimes.ended("waiting", begun, f"{kind} {name}")
        try:
            yield
        finally:
            guard.release()

    @contextmanager
    def free(self, kind: str, key: str) -> Iterator[bool]:
        """Hold the lock of one key if nobody has it now, and say whether it is held."""
        guard = self._guard(kind, key)
        try:
            guard.acquire(timeout=0)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            guard.release()

    def _guard(self, kind: str, key: str) -> FileLock:
        with usable(self.root):
            (self.root / "locks").mkdir(parents=True, exist_ok=True)
        return FileLock(self.root / "locks" / f"{kind}-{key[:12]}.lock")

    def use(self, kind: str, key: str, mark: Path | None = None) -> None:
        """Keep what this is, or will be, from being removed for as long as this process runs.

        `mark`: the file whose time of change is that of the last use.
        """
        use(self.root, f"{kind}/{key}")
        if mark is not None:
            with suppress(OSError):  # a store of others, or removed this moment
                os.utime(mark)

    def all(self, kind: str) -> list[Artefact]:
        """Every whole artefact of a kind."""
        keys = sorted(path.name for path in (self.root / kind).glob("*") if path.is_dir())
        return [artefact for key in keys if (artefact := self._read(kind, key)) is not None]

    def named(self, kind: str) -> dict[str, Mapping[str, Any]]:
        """What builds of a kind said of themselves, by name, their files unseen."""
        found: dict[str, Mapping[str, Any]] = {}
        for seal in sorted((self.root / kind).glob(f"*/{SEAL}"), key=os.path.getmtime):
            with suppress(OSError, ValueError, KeyError):
                said = json.loads(seal.read_text())
                found[said["name"]] = said["info"]
        return found

    def has(self, kind: str, inputs: Mapping[str, Any]) -> bool:
        """Whether the artefact with these inputs is here and whole."""
        return self._read(kind, hash_of(inputs)[:32]) is not None

    def obtain(
        self,
        kind: str,
        name: str,
        inputs: Mapping[str, Any],
        build: Callable[[Path], Mapping[str, Any] | None],
    ) -> Artefact:
        """The artefact with these inputs, built by `build(folder)` if it is not there.

        `build` fills an empty folder and may return facts about itself (JSON) that are kept beside the files
        without being part of the key. Nor is `name` part of it: two of one key are built once. Raises what `build`
        raises; nothing is left behind then.
        """
        key = hash_of(inputs)[:32]
        home = self.root / kind / key
        self.use(kind, key, home / SEAL)
        found = self._read(kind, key)
        if found is not None:
            log.debug("%s %s: found as %s", kind, name, key)
            return found
        with self.lock(kind, key, name):
            found = self._read(kind, key)
            if found is not None:
                return found
            if home.is_dir():
                warn(f"{kind} {key[:12]} in the store is damaged ({_damage(home)}); it is deleted and built again")
            log.debug("%s %s: building %s", kind, name, key)
            self._build(kind, key, name, inputs, build)
        found = self._read(kind, key)
        if found is None:
            raise RunError(f"{kind} {name} was damaged while it was being written", where=str(self.root))
        return found

    def _build(
        self,
        kind: str,
        key: str,
        name: str,
        inputs: Mapping[str, Any],
        build: Callable[[Path], Mapping[str, Any] | None],
    ) -> None:
        with self.scratch(kind) as folder, usable(self.root):
            started = time.monotonic()
            info = dict(build(folder) or {})
            info.setdefault("seconds", round(time.monotonic() - started, 3))
            seal = {"kind": kind, "name": name, "inputs": inputs, "files": hash_tree(folder), "info": info}
            (folder / SEAL).write_text(json.dumps(seal, indent=1, sort_keys=True))
            home = self.root / kind / key
            home.parent.mkdir(parents=True, exist_ok=True)
            if home.exists():
                remove_tree(home)
            folder.rename(home)

    def _read(self, kind: str, key: str) -> Artefact | None:
        home = self.root / kind / key
        return read_artefact(kind, home) if home.is_dir() and _damage(home) is None else None


def read_artefact(kind: str, home: Path) -> Artefact:
    """The artefact in `home` as its seal describes it, its files unseen. OSError, ValueError, KeyError without one."""
    seal = json.loads((home / SEAL).read_text())
    return Artefact(kind, home.name, home, seal["inputs"], seal["files"], seal["info"])


def _damage(home: Path) -> str | None:
    try:
        seal = json.loads((home / SEAL).read_text())
        expected = dict(seal["files"])
        if hash_of(seal["inputs"])[:32] != home.name or not isinstance(seal["info"], dict):
            return f"{SEAL} differs from what was written"
    except (OSError, ValueError, KeyError, TypeError):
        return f"{SEAL} cannot be read"
    actual = hash_tree(home)
    actual.pop(SEAL, None)
    for name in sorted(expected.keys() | actual.keys()):
        if expected.get(name) != actual.get(name):
            return f"{name} {'is missing' if name not in actual else 'differs from what was written'}"
    return None


@contextmanager
def usable(root: Path) -> Iterator[None]:
    """Turn "no space" and "not writable" below `root` into errors that say what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RunError(
                "no space left on the file system",
                where=str(root),
                hint="free some space, or point KREPRO_STORE and --results at another disk",
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR):
            raise UsageError(
                f"cannot write: {error.strerror}",
                where=str(error.filename or root),
                hint="point KREPRO_STORE or --results at another folder",
            ) from error
        raise
