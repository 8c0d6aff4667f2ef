# SPDX-License-Identifier: MIT
"""Which artefacts a running krepro uses, so that nobody removes them under it.

Every process keeps one file below the store's `uses/` with the names of what it asked for, and a lock on it (flock)
until it ends, however it ends. Names are added under a shared lock of the gate, and an artefact is removed under an
exclusive one: who has named it in time finds it, who comes later finds nothing and builds it.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.scratch import try_lock

USES, GATE = "uses", "uses.gate"


@dataclass
class _Lease:
    handle: int
    names: set[str] = field(default_factory=set)


_leases: dict[Path, _Lease] = {}
_guard = threading.Lock()


def use(root: Path, name: str) -> None:
    """From now until this process ends, nobody removes `name` (KIND/KEY) from the store at `root`.

    In a store that this user cannot write nothing is noted: who could remove something there is somebody else.
    """
    with _guard, suppress(OSError):
        lease = _leases.get(root)
        if lease is not None and name in lease.names:
            return
        with _gate(root, fcntl.LOCK_SH):
            if lease is None:
                lease = _leases[root] = _Lease(_new_file(root))
            os.write(lease.handle, f"{name}\n".encode())
        lease.names.add(name)


def release(root: Path) -> None:
    """Give up all that this process uses of one store."""
    with _guard:
        lease = _leases.pop(root, None)
    if lease is not None:
        os.close(lease.handle)


@contextmanager
def nobody_begins(root: Path) -> Iterator[frozenset[str]]:
    """What is in use (KIND/KEY); for as long as this is held, no process begins to use anything more."""
    with _gate(root, fcntl.LOCK_EX):
        yield in_use(root)


def in_use(root: Path) -> frozenset[str]:
    """What running processes, this one too, use of the store at this moment (KIND/KEY)."""
    names: set[str] = set()
    for path in (root / USES).glob("*"):
        handle = try_lock(path)
        if handle is None:  # its process lives; where there are no locks, all that is named there stays
            with suppress(OSError):
                names.update(path.read_text().split())
            continue
        path.unlink(missing_ok=True)
        os.close(handle)
    return frozenset(names)


def _new_file(root: Path) -> int:
    (root / USES).mkdir(parents=True, exist_ok=True)
    handle, _ = tempfile.mkstemp(prefix="use-", dir=root / USES)
    with suppress(OSError):  # no locks on this file system: see in_use
        fcntl.flock(handle, fcntl.LOCK_EX)
    # Appended to by forked children too, each line in one piece.
    fcntl.fcntl(handle, fcntl.F_SETFL, fcntl.fcntl(handle, fcntl.F_GETFL) | os.O_APPEND)
    return handle


@contextmanager
def _gate(root: Path, how: int) -> Iterator[None]:
    (root / "locks").mkdir(parents=True, exist_ok=True)
    gate = os.open(root / "locks" / GATE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        with suppress(OSError):
            fcntl.flock(gate, how)
        yield
    finally:
        os.close(gate)
