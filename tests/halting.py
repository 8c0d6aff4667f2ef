# SPDX-License-Identifier: MIT
"""A host on which QEMU's CPU thread dawdles behind each halt, and what a guest's boot on it comes to."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from harness.machine import machine
from harness.machine.machine import Machine
from harness.machine.sandbox import View
from harness.machine.spec import BootFiles, MachineSpec, prepare_folder, view
from tests.compiling import run

SOURCE = Path(__file__).with_name("slow_halt.c")


@contextmanager
def slow_halts(folder: Path) -> Iterator[None]:
    """Every QEMU started meanwhile waits before it accounts for what ran before a halt."""
    library = folder / "slow.so"
    run("gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, SOURCE)

    def seen(*words: Any) -> View:
        usual = view(*words)
        return dataclasses.replace(usual, readable=(*usual.readable, library), preload=(*usual.preload, library))

    with mock.patch.object(machine, "view", seen):
        yield


def booted_memory(spec: MachineSpec, files: BootFiles, folder: Path) -> str:
    """Hash of the guest's memory where it stops itself after its boot; QMP keeps the main loop busy all the while."""
    prepare_folder(spec, folder, None)
    with Machine(spec, files, folder) as guest:
        while guest.qmp.command("query-status")["status"] == "running":
            pass
        guest.wait_stopped(60)
        dump = folder / "memory"
        guest.qmp.command("pmemsave", val=0, size=spec.hardware.memory_mib << 20, filename=str(dump))
    digest = hashlib.sha256(dump.read_bytes()).hexdigest()
    dump.unlink()
    return digest
