# SPDX-License-Identifier: MIT
"""The guest that `boot` starts: all devices of its kernel, on the host's clock, whoever uses it and however."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from harness.artefacts.store import Store
from harness.choices import AcceleratorChoice
from harness.guest.ssh import Keys
from harness.kernel.load import load_kernel
from harness.machine.accelerator import choose_accelerator
from harness.machine.machine import Machine
from harness.machine.spec import BootFiles, MachineSpec, machine_spec, prepare_folder
from harness.progress import note
from harness.scratch import scratch_space
from harness.trial.prepare import boot_files, build_for


@dataclass(frozen=True)
class BootRequest:
    """What `boot` was asked for; `folder`: the experiment whose programs the image has, if any."""

    kernel: str
    folder: Path | None
    accelerator: AcceleratorChoice
    append: tuple[str, ...]
    cpus: int


@dataclass(frozen=True)
class Guest:
    """A running guest: its machine, its folder, and the keys of one with ssh."""

    machine: Machine
    scratch: Path
    keys: Keys | None


@contextlib.contextmanager
def guest(store: Store, request: BootRequest, session: Literal["console", "ssh"]) -> Iterator[Guest]:
    """The running guest, with all that it boots from built; UsageError when there can be none like it."""
    spec, files, keys = _machine(store, request, session)
    with scratch_space("boot") as scratch:
        prepare_folder(spec, scratch, None)
        with Machine(spec, files, scratch) as machine:
            yield Guest(machine, scratch, keys)


def _machine(
    store: Store, request: BootRequest, session: Literal["console", "ssh"]
) -> tuple[MachineSpec, BootFiles, Keys | None]:
    recipe = load_kernel(request.kernel, beside=request.folder)
    recipe.check_cpus(f"boot {request.kernel}", request.cpus)
    kernel = recipe.spec
    machine = partial(
        machine_spec,
        f"boot {request.kernel}",
        hardware=kernel.hardware,
        clock="wall",
        session=session,
        cpus=request.cpus,
        cmdline=(*kernel.cmdline, *request.append),
        devices=("edu", "disk", "net"),
    )
    machine(accelerator="tcg")  # what none can be is told before it is built
    built = build_for(store, request.kernel, request.folder)
    spec = machine(accelerator=choose_accelerator(store, request.accelerator, built.kernel).used)
    return spec, *boot_files(store, built, spec)


def shell(store: Store, request: BootRequest) -> int:
    """Boot with a shell on this terminal until the guest ends; all of its devices are there."""
    with guest(store, request, "console") as shown:
        note(f"booting {request.kernel} ({shown.machine.spec.accelerator}); leave with exit, or Ctrl-A X")
        shown.machine.process.wait()
    return 0
