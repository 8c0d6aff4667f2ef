# SPDX-License-Identifier: MIT
"""The architectures that guests have, as a table: all that a build must know of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ArchName = Literal["i386", "x86_64", "arm64"]


@dataclass(frozen=True)
class Arch:
    """One architecture of guests.

    `debian` is Debian's name of it, `make` the kernel's (`ARCH=`). `target` is what make is asked for, `boot` what it
    makes of it, below the build's folder: a kernel's artefact has that file as `bzImage`. `flags` are the compiler's
    for guest programs, `machine` is what ELF files call it.

    Where the compiler is another than x86's, `prefix` is what the names of its tools begin with, and `cross` names the
    packages in tools.lock that a tree with them has. `overlay` is a folder below images/ whose guest programs and
    library stand in for those of images/guest, and `init` what is put in place of words of images/init.
    """

    debian: str
    triplet: str
    machine: str
    make: str
    target: str
    boot: str
    flags: tuple[str, ...] = ()
    prefix: str = ""
    cross: str = ""
    overlay: str | None = None
    init: tuple[tuple[str, str], ...] = ()


ARCHES: dict[ArchName, Arch] = {
    "i386": Arch(
        debian="i386",
        triplet="i386-linux-gnu",
        machine="EM_386",
        make="i386",
        target="bzImage",
        boot="arch/x86/boot/bzImage",
        flags=("-m32", "-march=i686"),
    ),
    "x86_64": Arch(
        debian="amd64",
        triplet="x86_64-linux-gnu",
        machine="EM_X86_64",
        make="x86_64",
        target="bzImage",
        boot="arch/x86/boot/bzImage",
        flags=("-m64",),
    ),
    "arm64": Arch(
        debian="arm64",
        triplet="aarch64-linux-gnu",
        machine="EM_AARCH64",
        make="arm64",
        target="Image",
        boot="arch/arm64/boot/Image",
        flags=("-march=armv8-a", "-include", "krepro-loop.h"),
        prefix="aarch64-linux-gnu-",
        cross="arm64",
        overlay="arm64",
        init=(("/dev/ttyS1", "/dev/ttyS0"), ("outb 0xf4 0", "krepro-end")),
    ),
}
