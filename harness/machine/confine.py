# SPDX-License-Identifier: MIT
"""Shutting in the process that calls it, by what every user may ask the kernel for: Landlock, seccomp, limits.

    python confine.py WISHES PROGRAM [WORD...]

does it, and becomes the program. Standard library only: as a program it is run alone.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Mapping, Sequence

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_GET_SECCOMP, PR_SET_SECCOMP, FILTER = 1, 38, 21, 22, 2
#: _LINUX_CAPABILITY_VERSION_3
CAPABILITIES = 0x20080522
CREATE, ADD, RESTRICT = 444, 445, 446
VERSION, PATH_BENEATH = 1, 1
#: Before this one, a file that may not be written can be emptied.
LEAST_LANDLOCK = 3
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READS = EXECUTE | READ_FILE | READ_DIR
BIND_TCP, CONNECT_TCP = 1, 2
#: Abstract sockets and signals of others.
SCOPES = 3


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def landlock_version() -> int:
    """Of this kernel's Landlock; 0 where it has none."""
    return max(int(_libc().syscall(CREATE, None, 0, VERSION)), 0)


def restrict(read: Sequence[str], write: Sequence[str], *, listens: bool = False) -> None:
    """From now on this process reads and executes what is below `read`, and does all below `write`; nothing else.

    `listens`: it may listen on TCP ports; it connects to none. OSError without Landlock.
    """
    libc, version = _libc(), landlock_version()
    files = (1 << (16 if version >= 5 else 15)) - 1
    network = CONNECT_TCP if listens else CONNECT_TCP | BIND_TCP
    rules = struct.pack("<QQQ", files, network, SCOPES)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = _checked(libc.syscall(CREATE, rules, ctypes.c_size_t(len(rules)), 0), "landlock")
    for paths, allowed in ((read, READS), (write, files)):
        for path in paths:
            _allow(libc, ruleset, path, allowed & files)
    _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    _checked(libc.syscall(RESTRICT, ruleset, 0), "landlock")
    os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, allowed: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no rule
    try:
        folder = os.path.isdir(path)  # noqa: PTH112  (standard library, and no more of it than that)
        rule = struct.pack("<Qi", allowed if folder else allowed & OF_FILES, handle)
        _checked(libc.syscall(ADD, ruleset, PATH_BENEATH, rule, 0), path)
    finally:
        os.close(handle)


def refuse(program: bytes) -> None:
    """From now on the kernel asks this filter (`harness.machine.syscalls`) about every system call. OSError if not."""
    libc = _libc()
    _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    filters = _Program(len(program) // 8, program)
    _checked(libc.prctl(PR_SET_SECCOMP, FILTER, ctypes.byref(filters), 0, 0), "seccomp")


def drop_capabilities() -> None:
    """Root's are gone too, and none comes back. OSError if not."""
    libc = _libc()
    _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    _checked(libc.capset(struct.pack("<Ii", CAPABILITIES, 0), bytes(24)), "capabilities")


def die_with(parent: int) -> None:
    """This process ends when `parent`, which started it, does; at once if that has ended."""
    _libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def filters_calls() -> bool:
    """Whether this kernel has seccomp."""
    return int(_libc().prctl(PR_GET_SECCOMP, 0, 0, 0, 0)) >= 0


def limit(most: Mapping[str, int]) -> None:
    """Limits by the names of `resource`, without RLIMIT_; none is raised."""
    for name, value in most.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(kind)
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (least, least))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def main() -> None:
    """`WISHES`: JSON with `read`, `write` and `seccomp` (hex, or nothing)."""
    wishes = json.loads(sys.argv[1])
    restrict(wishes["read"], wishes["write"], listens=True)
    if wishes["seccomp"]:
        refuse(bytes.fromhex(wishes["seccomp"]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606


if __name__ == "__main__":
    main()
