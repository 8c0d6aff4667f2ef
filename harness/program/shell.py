# SPDX-License-Identifier: MIT
"""A person's shell in a guest, on its serial console."""

from __future__ import annotations

from harness.artefacts.store import Store
from harness.program.interactive import BootRequest, guest
from harness.progress import note


def shell(store: Store, request: BootRequest) -> int:
    """Boot with a shell on this terminal until the guest ends; all of its devices are there."""
    with guest(store, request, "console") as shown:
        note(f"booting {request.kernel} ({shown.machine.spec.accelerator}); leave with exit, or Ctrl-A X")
        shown.machine.process.wait()
    return 0
