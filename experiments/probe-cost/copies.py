# SPDX-License-Identifier: MIT
"""What a newer kernel copies of the user's into the event of a system call, where a script does not say how much."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

from .model.cost import CostModel, Fields

#: How many strings the event of a call has, by check_faultable_syscall (kernel/trace/trace_syscalls.c of 7.3).
_ONE = """
    access acct chdir chmod chown chroot creat delete_module execve execveat faccessat faccessat2 fanotify_mark fchmodat
    fchmodat2 fchownat fgetxattr finit_module flistxattr fremovexattr fsconfig fsetxattr fsopen fspick futimesat
    init_module inotify_add_watch lchown memfd_create mkdir mkdirat mknod mknodat mount_setattr mq_open mq_unlink
    name_to_handle_at newfstatat open openat openat2 open_tree open_tree_attr quotactl readlink readlinkat rmdir shmdt
    statfs statx swapoff swapon syslog truncate umount unlink unlinkat utime utimensat utimes
"""
_TWO = """
    add_key getxattr getxattrat lgetxattr link linkat listxattr listxattrat llistxattr lremovexattr lsetxattr move_mount
    pivot_root removexattr removexattrat rename renameat renameat2 request_key setxattr setxattrat symlink symlinkat
"""
STRINGS = dict.fromkeys(_ONE.split(), 1) | dict.fromkeys(_TWO.split(), 2) | {"mount": 3}
#: Those whose events have as many bytes as another argument says.
BYTES = ("kexec_file_load", "mq_timedsend", "pwrite64", "setdomainname", "sethostname", "write")
#: Characters of a string, or bytes; the most is the default of what a kernel copies.
LEAST, LIKELY, MOST = 1.0, 16.0, 63.0
_ENTER = "syscalls:sys_enter_"


@dataclass(frozen=True)
class Copies:
    """Fields of an event, least, likely and most; and what is said of them."""

    ends: tuple[Fields, Fields, Fields]
    notes: tuple[str, ...]


NOTHING = Copies((Fields(), Fields(), Fields()), ())


def copies_at(model: CostModel, provider: str, rest: str) -> Copies:
    """What the event at this trace point copies on the model's kernel."""
    stages = model.providers[provider].stages
    if provider != "syscall" or "kept-string" not in stages or not rest.startswith(_ENTER):
        return NOTHING
    call = rest.removeprefix(_ENTER)
    names = fnmatch.filter((*STRINGS, *BYTES), call)
    if not names:
        return NOTHING
    strings, data = max(STRINGS.get(name, 0) for name in names), int(any(name in BYTES for name in names))
    least, likely, most = (
        Fields(strings=strings, characters=strings * length, data=data, bytes=data * length)
        for length in (LEAST, LIKELY, MOST)
    )
    if call not in names:  # a pattern
        return Copies((Fields(), Fields(), most), ("events of some of these calls copy of the user's; least is none",))
    what = "characters" if strings else "bytes"
    note = f"its event copies of the user's: taken are {LIKELY:.0f} {what} each, least {LEAST:.0f}, most {MOST:.0f}"
    return Copies((least, likely, most), (note,))
