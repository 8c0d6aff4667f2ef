# SPDX-License-Identifier: MIT
"""The kinds of machines that QEMU emulates for us, as a table: what of a command line differs from one to another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.kernel.arch import ARCHES, ArchName
from harness.packages.tree import QEMU


@dataclass(frozen=True)
class Board:
    """One kind of machine.

    `watchdog` is the device by which a guest stops itself (krepro-stop.c), `ending` the words that give it a way to end
    QEMU with EXIT_DONE, `heartbeat` those for its second serial port, as `heartbeat(file)`. `define`: what plugins for
    its instruction set are compiled with. `tells_time`: whether QEMU tells what its own clock shows; `emulated_pmu`:
    whether it emulates hardware counters.
    """

    arch: ArchName
    qemu: str
    watchdog: str
    ending: tuple[str, ...]
    heartbeat: Callable[[Path], tuple[str, ...]]
    define: tuple[str, ...] = ()
    tells_time: bool = False
    emulated_pmu: bool = False

    @property
    def cross(self) -> str:
        """The packages in tools.lock that have its QEMU; empty: the tools tree of all."""
        return ARCHES[self.arch].cross


PC = Board(
    arch="x86_64",
    qemu=QEMU,
    watchdog="ib700",
    ending=("-device", "isa-debug-exit,iobase=0xf4,iosize=1"),
    heartbeat=lambda file: ("-serial", f"file:{file}"),
    tells_time=True,
)
VIRT = Board(
    arch="arm64",
    qemu="qemu-system-aarch64",
    watchdog="i6300esb",
    ending=("-semihosting-config", "enable=on,target=native,userspace=on"),
    # The board has one port of its own; a card is the second.
    heartbeat=lambda file: ("-chardev", f"file,id=heartbeat,path={file}", "-device", "pci-serial,chardev=heartbeat"),
    define=("-DGUEST_ARM64",),
    emulated_pmu=True,
)
#: By the name of QEMU's machine; all others are PCs.
BOARDS = {"virt": VIRT}


def board_of(machine: str) -> Board:
    """The row for a `-machine` text."""
    return BOARDS.get(machine.partition(",")[0], PC)


def board_by_qemu(qemu: str) -> Board:
    """The row whose QEMU has this name."""
    return next((board for board in (PC, *BOARDS.values()) if board.qemu == qemu), PC)
