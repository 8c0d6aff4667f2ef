# SPDX-License-Identifier: MIT
"""A person's shell in a guest, on its serial console."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.build.store import Store
from harness.choices import AcceleratorChoice
from harness.experiment.prepare import build_for
from harness.machine.accelerator import choose_accelerator
from harness.machine.machine import Machine
from harness.machine.spec import BootFiles, Device, machine_spec, prepare_folder
from harness.progress import note
from harness.scratch import discard, scratch_folder


def shell(
    store: Store,
    kernel: str,
    folder: Path | None,
    accelerator: AcceleratorChoice,
    append: tuple[str, ...],
    cpus: int,
) -> int:
    """Boot `kernel` with a shell on this terminal until the guest ends; all of its devices are there."""
    built = build_for(store, kernel, folder)
    devices: tuple[Device, ...] = ("edu", "disk", "net")
    spec = machine_spec(
        f"boot {kernel}",
        hardware=built.recipe.spec.hardware,
        accelerator=choose_accelerator(store, accelerator, built.kernel).used,
        clock="wall",
        session="console",
        cpus=cpus,
        cmdline=(*built.recipe.spec.cmdline, *append),
        devices=devices,
    )
    scratch = scratch_folder(Path(tempfile.gettempdir()), "boot")
    try:
        prepare_folder(spec, scratch, None)
        files = BootFiles(kernel=built.kernel.file("bzImage"), initrds=(built.image.file("image.cpio"),))
        note(f"booting {kernel} ({spec.accelerator}); leave with exit, or Ctrl-A X")
        with Machine(spec, files, scratch) as machine:
            machine.process.wait()
    finally:
        discard(scratch)
    return 0
