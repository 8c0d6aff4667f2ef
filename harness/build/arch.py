# SPDX-License-Identifier: MIT
"""The architectures that guests have, as a table: all that a build must know of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ArchName = Literal["i386", "x86_64"]


@dataclass(frozen=True)
class Arch:
    """One architecture of guests.

    `debian` is Debian's name of it, `make` the kernel's (`ARCH=`). `target` is what make is asked for, `boot` what it
    makes of it, below the build's folder: a kernel's artefact has that file as `bzImage`. `flags` are the compiler's
    for guest programs.
    """

    debian: str
    triplet: str
    make: str
    target: str
    boot: str
    flags: tuple[str, ...] = ()


ARCHES: dict[ArchName, Arch] = {
    "i386": Arch(
        debian="i386",
        triplet="i386-linux-gnu",
        make="i386",
        target="bzImage",
        boot="arch/x86/boot/bzImage",
        flags=("-m32", "-march=i686"),
    ),
    "x86_64": Arch(
        debian="amd64",
        triplet="x86_64-linux-gnu",
        make="x86_64",
        target="bzImage",
        boot="arch/x86/boot/bzImage",
        flags=("-m64",),
    ),
}
