# SPDX-License-Identifier: MIT
"""Temporary folders that a killed process cannot leave behind for ever.

Who makes one holds a lock on it (flock) until it is discarded or its process ends, however that ends. A folder of
this name whose lock is free belongs to nobody. No process id is looked at for that: it would mean another process in
another PID namespace. With the folder end the sandboxes that were killed in the midst of being set up.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.signals import unsignalled

PREFIX = ".krepro-"
#: Open locks of this process, by the folder that they were taken on.
_held: dict[Path, int] = {}


def scratch_folder(parent: Path, label: str) -> Path:
    """A new folder in `parent`, locked by this process; those that nobody holds are removed first.

    `label` begins with a letter. The caller gives the folder to `discard`, whether it still lies there or was renamed;
    only a process that is killed does not come to that.
    """
    parent.mkdir(parents=True, exist_ok=True)
    sweep(parent)
    while True:
        with unsignalled():  # no folder that `discard_held` does not know
            path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{label}-", dir=parent))
            handle = try_lock(path)
            if handle is not None:
                _held[path] = handle
        if handle is not None:
            return path
        # Another process swept it before it was locked, or this file system has no locks: then nobody sweeps here.
        if path.is_dir() and not locks_work(parent):
            return path


def discard(path: Path) -> None:
    """Remove a scratch folder, as far as it is still there, and give up its lock; errors are left to the next sweep."""
    with suppress(OSError):
        _end_sandboxes(path)
        remove_tree(path)
    handle = _held.pop(path, None)
    if handle is not None:
        os.close(handle)


@contextmanager
def scratch_space(label: str, parent: Path | None = None) -> Iterator[Path]:
    """A scratch folder until the block ends, in `parent` or where temporary files lie; what is renamed away stays."""
    path = scratch_folder(parent or Path(tempfile.gettempdir()), label)
    try:
        yield path
    finally:
        discard(path)


def discard_held() -> None:
    """Discard all that this process holds: it is interrupted, which may have come before a folder had its `finally`."""
    for path in list(_held):
        discard(path)


def sweep(parent: Path) -> None:
    """Remove the scratch folders of this user in `parent` that no process holds; what cannot be removed stays."""
    for path in parent.glob(f"{PREFIX}[a-z]*"):
        if path in _held:
            continue
        with suppress(OSError):
            if path.lstat().st_uid != os.geteuid():
                continue
            handle = try_lock(path)
            if handle is None:
                continue
            try:
                _end_sandboxes(path)
                remove_tree(path)
            finally:
                os.close(handle)


def _end_sandboxes(folder: Path) -> None:
    """Kill bubblewrap's and QEMU's processes that have a file below `folder` open: whoever made it needs none any more.

    A bubblewrap that is killed between its clone and its child's identity maps leaves a child that waits for them, for
    ever: what should end it with its parent (`--die-with-parent`) comes after that. A QEMU that is up without its
    harness ends by itself (machine/process.py), but where its file system takes no sockets.
    """
    for process in Path("/proc").glob("[0-9]*") if folder.is_dir() else ():
        with suppress(OSError):  # it has ended, or is somebody else's
            handle = os.pidfd_open(int(process.name))
            try:
                if _is_ours(process) and _has_open(process, folder):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)


def _is_ours(process: Path) -> bool:
    """Whether bubblewrap or QEMU is in front of its words, or behind those of the loader that starts it."""
    words = (process / "cmdline").read_bytes().split(b"\0")[:6]
    names = [word.rpartition(b"/")[2] for word in words]
    return any(name == b"bwrap" or name.startswith(b"qemu-system-") for name in names)


def _has_open(process: Path, folder: Path) -> bool:
    return any(file.readlink().is_relative_to(folder.resolve()) for file in (process / "fd").iterdir())


def try_lock(path: Path) -> int | None:
    """An open file that holds the lock of this file or folder, for `os.close`; None while somebody else holds it.

    None too when another thing lies there than was locked, or where the file system has no locks.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        here, there = os.fstat(handle), path.lstat()
        if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
            return handle
    except OSError:
        pass
    os.close(handle)
    return None


def remove_tree(root: Path) -> None:
    """Remove `root` and all below it, however deep; nothing to do where it is not there. OSError when it cannot be.

    `shutil.rmtree` calls itself for every level: a guest can make more of them than Python takes. Here each folder
    empties its folders into the root, which ends, whatever the depth, with two folders open.
    """
    try:
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fchmod(top, 0o700)
        number = 0
        while names := os.listdir(top):  # noqa: PTH208
            for name in names:
                if _unlinked(name, top):
                    continue
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
                try:
                    os.fchmod(inner, 0o700)
                    for below in os.listdir(inner):  # noqa: PTH208
                        if not _unlinked(below, inner):
                            number = _moved_up(below, inner, top, number)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    root.rmdir()


def _moved_up(name: str, inner: int, top: int, number: int) -> int:
    """Rename the folder `name` in `inner` to a number above `number` in `top`; that number."""
    os.chmod(name, 0o700, dir_fd=inner)
    while True:
        number += 1
        try:
            os.rename(name, f"{number}.up", src_dir_fd=inner, dst_dir_fd=top)
        except OSError as error:
            if error.errno not in {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}:
                raise
        else:
            return number


def _unlinked(name: str, folder: int) -> bool:
    """Whether it was no folder, and is gone."""
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):
        return False
    return True


def locks_work(parent: Path) -> bool:
    """Whether the file system of this folder has locks (flock)."""
    with tempfile.TemporaryFile(dir=parent) as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
