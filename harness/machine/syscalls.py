# SPDX-License-Identifier: MIT
"""System calls that what is in the sandbox is refused, as a program of seccomp's (BPF). Standard library only.

The kernel's own filter of a process: it sees numbers and flags, no memory. Written by hand, as it is a table and five
instructions; a library would be one more thing that a host must have.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Iterator, Sequence

#: Of a system call by its name: its number on x86_64 and on aarch64, None where there is none. Kept from everybody:
#: keys of the user, memory and descriptors of other processes, a terminal's owner, mounts, modules, the clock, and
#: parts of the kernel that a guest or an analysis has no use for and that others were broken out by.
REFUSED: dict[str, tuple[int | None, int | None]] = {
    **{"add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219)},
    **{"ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272)},
    **{"pidfd_getfd": (438, 438), "userfaultfd": (323, 282), "bpf": (321, 280), "perf_event_open": (298, 241)},
    **{"io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427)},
    **{"unshare": (272, 97), "setns": (308, 268), "pivot_root": (155, 41), "chroot": (161, 51)},
    **{"mount": (165, 40), "umount2": (166, 39), "open_tree": (428, 428), "move_mount": (429, 429)},
    **{"fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433)},
    **{"mount_setattr": (442, 442), "open_by_handle_at": (304, 265), "quotactl": (179, 60), "acct": (163, 89)},
    **{"swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "syslog": (103, 116), "vhangup": (153, 58)},
    **{"kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273)},
    **{"delete_module": (176, 106), "settimeofday": (164, 170), "clock_settime": (227, 112)},
    **{"clock_adjtime": (305, 266), "adjtimex": (159, 171), "fanotify_init": (300, 262)},
    **{"iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None)},
}
#: Kept from an analysis besides: it starts no process, sends no signal, reaches no network, keeps no file in memory.
NOT_FOR_ANALYSES: dict[str, tuple[int | None, int | None]] = {
    **{"fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281), "socket": (41, 198)},
    **{"kill": (62, 129), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240)},
    **{"pidfd_send_signal": (424, 424), "memfd_create": (319, 279), "memfd_secret": (447, None)},
}
#: What Landlock lets a process do to files of its user that it may not write, and a view of its own does not.
NOT_WITHOUT_VIEW: dict[str, tuple[int | None, int | None]] = {
    **{"chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452)},
    **{"chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54)},
    **{"utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88)},
    **{"setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14)},
    **{"lremovexattr": (198, 15), "fremovexattr": (199, 16), "setxattrat": (463, 463), "removexattrat": (466, 466)},
}
CLONE, CLONE3, IOCTL, PRCTL, TGKILL = (56, 220), (435, 435), (16, 29), (157, 167), (234, 131)
CLONE_THREAD = 0x00010000
#: CLONE_NEW*: mounts, cgroups, names, IPC, users, processes, network.
NAMESPACES = 0x7E020000
#: Pushing key strokes into a terminal.
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
#: It must end with who started it.
PR_SET_PDEATHSIG = 1
#: Who has stopped never ends.
STOPS = (19, 20, 21, 22)

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
#: Numbers from here on are those of x32, which is another way to the same calls.
X32 = 0x40000000
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
#: BPF: load a word, compare, test bits, mask, end.
LOAD, EQUAL, ABOVE, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
#: Offsets in what a filter sees of a call (struct seccomp_data); of each argument the lower half.
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
Instruction = tuple[int, int, int, int]


def program(*, analysis: bool, view: bool = True) -> bytes | None:
    """The filter for QEMU or for an `analysis`, as an array of struct sock_filter; None for a CPU that it is not for.

    `view`: the process has a view of its own of the host's files. An analysis' program is for the process that makes
    it: no other gets a signal of its.
    """
    if os.uname().machine not in ARCHITECTURES or sys.byteorder != "little":
        return None
    place, architecture = ARCHITECTURES[os.uname().machine]
    refused = REFUSED | (NOT_FOR_ANALYSES if analysis else {}) | ({} if view or not analysis else NOT_WITHOUT_VIEW)
    words: list[Instruction] = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, architecture), _refuse(errno.ENOSYS)]
    words += [(LOAD, 0, 0, NUMBER), (ABOVE, 0, 1, X32), _refuse(errno.ENOSYS)]
    for number in sorted(numbers[place] or 0 for numbers in refused.values() if numbers[place] is not None):
        words += [(EQUAL, 0, 1, number), _refuse(errno.EPERM)]
    words += [(EQUAL, 0, 1, CLONE3[place]), _refuse(errno.ENOSYS)]  # its flags are in memory; libraries then use clone
    words += _where(CLONE[place], 0, [(ANY_BIT, 0, 1, NAMESPACES)])
    words += _where(IOCTL[place], 1, [(EQUAL, 0, 1, TIOCSTI)])
    words += _where(IOCTL[place], 1, [(EQUAL, 0, 1, TIOCLINUX)])
    if analysis:
        words += _where(CLONE[place], 0, [(AND, 0, 0, CLONE_THREAD), (EQUAL, 0, 1, 0)])
        words += _where(PRCTL[place], 0, [(EQUAL, 0, 1, PR_SET_PDEATHSIG)])
        words += _where(TGKILL[place], 0, [(EQUAL, 1, 0, os.getpid())])
        for number in STOPS:
            words += _where(TGKILL[place], 2, [(EQUAL, 0, 1, number)])
    words.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("<HBBI", *word) for word in words)


def _refuse(error: int) -> Instruction:
    return (RETURN, 0, 0, ERRNO | error)


def _where(number: int, argument: int, test: Sequence[Instruction]) -> Iterator[Instruction]:
    """Refuse the call `number` where `test` of one of its arguments, which is loaded, goes on with the next word."""
    yield (EQUAL, 0, len(test) + 3, number)
    yield (LOAD, 0, 0, ARGUMENTS + 8 * argument)
    yield from test
    yield _refuse(errno.EPERM)
    yield (LOAD, 0, 0, NUMBER)
