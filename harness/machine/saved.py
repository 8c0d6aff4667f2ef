# SPDX-License-Identifier: MIT
"""Booted states: boot once per kernel, image and machine, save the stopped machine, restore it per trial."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.artefacts.store import Artefact, Store, hash_file
from harness.errors import RunError
from harness.machine.kvmcpu import kvm_cpu
from harness.machine.machine import Machine
from harness.machine.qemu import qemu_version
from harness.machine.spec import EXIT_DONE, BootFiles, MachineSpec, argv, prepare_folder
from harness.progress import step

BOOT_TIMEOUT_S = 300.0
#: For a restored guest to show that it lives: its heart beats once a second.
LIFE_S = 60.0
#: More than what one beat writes.
ALIVE_BYTES = 4


def state_inputs(spec: MachineSpec, files: BootFiles) -> dict[str, Any]:
    """What decides a booted state: machine, the files that it starts from, QEMU itself; under KVM the host's CPU."""
    placeholder = BootFiles(kernel=Path("kernel"), initrds=(Path("initrd"),), halt=Path("halt.so"))
    host = {"host": kvm_cpu()} if spec.accelerator == "kvm" else {}
    return {
        **host,
        "argv": argv(spec, placeholder, Path("folder"), 0),
        "kernel": hash_file(files.kernel),
        "initrds": [hash_file(path) for path in files.initrds],
        "halt": hash_file(files.halt) if files.halt else None,
        "qemu": qemu_version(spec.board.qemu),
    }


def saved_state(store: Store, name: str, spec: MachineSpec, files: BootFiles) -> Artefact:
    """The artefact with `state`: this machine, booted and waiting for its session.

    A mailbox guest stops itself at one moment of its own time, so that any two such states lead to the same bits.
    An ssh guest is stopped when it is ready. Under KVM the state is tried once: `refused` in the artefact's info says
    what a guest restored from it did instead of living, and is empty where it lived.
    """

    def build(folder: Path) -> dict[str, Any]:
        with store.scratch("boot") as scratch:
            try:
                with step(f"booting {name} once and saving its state"):
                    _boot_and_save(spec, files, scratch, folder / "state")
                shutil.copyfile(scratch / "console.log", folder / "console.log")
                refused = why_not_restored(store, spec, files, folder / "state") if spec.accelerator == "kvm" else ""
            except RunError:
                keep_console(store, name, scratch)
                raise
        return {"bytes": (folder / "state").stat().st_size, "refused": refused}

    return store.obtain("state", name, state_inputs(spec, files), build)


def _boot_and_save(spec: MachineSpec, files: BootFiles, scratch: Path, target: Path) -> None:
    prepare_folder(spec, scratch, None)
    with Machine(spec, files, scratch) as machine:
        if spec.session == "mailbox":
            machine.wait_stopped(BOOT_TIMEOUT_S)
        else:
            machine.wait_ready(BOOT_TIMEOUT_S)
            machine.qmp.command("stop")
        machine.save(target)


def why_not_restored(store: Store, spec: MachineSpec, files: BootFiles, state: Path) -> str:
    """Why a guest from this state is of no use, by a try; empty when its heart beats or it ends its empty job."""
    try:
        with store.scratch("restore") as scratch:
            prepare_folder(spec, scratch, None)
            with Machine(spec, files, scratch, incoming=state) as machine:
                beat = scratch / "heartbeat"
                what = "live, restored"
                ended = machine.wait(lambda: beat.exists() and beat.stat().st_size >= ALIVE_BYTES, LIFE_S, what)
                lived = ended.reason == "condition" or (ended.reason == "exit" and ended.exit_status == EXIT_DONE)
                return "" if lived else f"the guest {machine.ending(ended)} once restored"
    except RunError as error:
        return error.message


def keep_console(store: Store, name: str, scratch: Path) -> None:
    """What a failed boot left is the only trace of its cause; where it finds no room, its error is still told."""
    target = store.root / "logs" / f"boot-{name}"
    shutil.rmtree(target, ignore_errors=True)
    with suppress(OSError):
        shutil.copytree(scratch, target)
