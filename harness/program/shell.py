# SPDX-License-Identifier: MIT
"""A person's shell in a guest, on its serial console."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.artefacts.store import Store
from harness.machine.machine import Machine
from harness.machine.spec import prepare_folder
from harness.program.interactive import BootRequest, interactive_machine
from harness.progress import note
from harness.scratch import discard, scratch_folder


def shell(store: Store, request: BootRequest) -> int:
    """Boot with a shell on this terminal until the guest ends; all of its devices are there."""
    spec, files, _ = interactive_machine(store, request, "console")
    scratch = scratch_folder(Path(tempfile.gettempdir()), "boot")
    try:
        prepare_folder(spec, scratch, None)
        note(f"booting {request.kernel} ({spec.accelerator}); leave with exit, or Ctrl-A X")
        with Machine(spec, files, scratch) as machine:
            machine.process.wait()
    finally:
        discard(scratch)
    return 0
