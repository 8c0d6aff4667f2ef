"""Booted states: boot once per kernel, image and machine, save the stopped machine, restore it per trial."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from harness.build.store import Artefact, Store
from harness.errors import RunError, UsageError
from harness.machine.machine import Machine
from harness.machine.spec import BootFiles, MachineSpec, argv, prepare_folder
from harness.progress import step

BOOT_TIMEOUT_S = 120.0
#: About half of all stops let the virtual clock jump to the next timer (docs/virtual-clock.md); those are not kept.
BOOT_TRIES = 24
JUMP_NS = 200_000
STOPPED = re.compile(r"^krepro: stopped for (\d+) ns\s*$", re.MULTILINE)


@cache
def qemu_version() -> str:
    """First line of `qemu-system-x86_64 --version`; UsageError when it does not run."""
    try:
        done = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(f"qemu-system-x86_64 does not run: {error}", hint="apt-get install qemu-system-x86") from error
    return done.stdout.splitlines()[0]


def state_inputs(spec: MachineSpec, kernel: Artefact, image: Artefact) -> dict[str, Any]:
    """What decides a booted state: the machine, the files it starts from, QEMU itself."""
    placeholder = BootFiles(kernel=Path("bzImage"), initrds=(Path("image.cpio"),))
    return {
        "argv": argv(spec, placeholder, Path("folder"), 0),
        "kernel": kernel.files["bzImage"],
        "image": image.files["image.cpio"],
        "qemu": qemu_version(),
    }


def _stopped_ns(machine: Machine) -> int:
    """Virtual time that the stop took, as the guest tells it once it runs again."""
    machine.resume()
    found: list[str] = []

    def told() -> bool:
        found[:] = STOPPED.findall(machine.console())
        return bool(found)

    if machine.wait(told, BOOT_TIMEOUT_S, "tell of its stop").reason != "condition":
        raise machine.lost("ended after its stop")
    return int(found[0])


def saved_state(store: Store, name: str, spec: MachineSpec, kernel: Artefact, image: Artefact) -> Artefact:
    """The artefact with `state`: this machine, stopped by its guest at its mailbox.

    The guest itself stops the machine, at one instruction; a stop whose clock jumped is not kept, so the state does
    not depend on the host's timing.
    """
    if spec.session != "mailbox":
        raise UsageError(f"only mailbox machines have a saved state, not session {spec.session}")
    files = BootFiles(kernel=kernel.file("bzImage"), initrds=(image.file("image.cpio"),))

    def build(folder: Path) -> dict[str, Any]:
        scratch = store.scratch("boot")
        try:
            with step(f"booting {name} once and saving its state"):
                for attempt in range(BOOT_TRIES):
                    prepare_folder(spec, scratch, None)
                    with Machine(spec, files, scratch) as machine:
                        machine.wait_stopped(BOOT_TIMEOUT_S)
                        machine.save(folder / "state")
                        shutil.copyfile(scratch / "console.log", folder / "console.log")
                        stopped = _stopped_ns(machine)
                    if stopped < JUMP_NS:
                        return {
                            "bytes": (folder / "state").stat().st_size,
                            "stopped_ns": stopped,
                            "boots": attempt + 1,
                        }
            raise RunError(f"QEMU's clock jumped at every one of {BOOT_TRIES} stops", where=str(scratch))
        except RunError:
            _keep(scratch, store.root / "logs" / f"boot-{name}")
            raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    return store.obtain("state", name, state_inputs(spec, kernel, image), build)


def _keep(scratch: Path, target: Path) -> None:
    """What a failed boot left is the only trace of its cause."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(scratch, target)
