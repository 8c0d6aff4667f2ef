# SPDX-License-Identifier: MIT
"""The machine that `boot` starts: all devices of its kernel, on the host's clock, whoever uses it and however."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from harness.artefacts.store import Store
from harness.choices import AcceleratorChoice
from harness.guest.ssh import Keys
from harness.kernel.spec import load_kernel
from harness.machine.accelerator import choose_accelerator
from harness.machine.spec import BootFiles, MachineSpec, machine_spec
from harness.trial.prepare import boot_files, build_for


@dataclass(frozen=True)
class BootRequest:
    """What `boot` was asked for; `folder`: the experiment whose programs the image has, if any."""

    kernel: str
    folder: Path | None
    accelerator: AcceleratorChoice
    append: tuple[str, ...]
    cpus: int


def interactive_machine(
    store: Store, request: BootRequest, session: Literal["console", "ssh"]
) -> tuple[MachineSpec, BootFiles, Keys | None]:
    """The machine, with all that it boots from built; UsageError when there can be none like it."""
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
