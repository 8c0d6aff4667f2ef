# SPDX-License-Identifier: MIT
"""`boot`: a person's shell in a guest."""

from __future__ import annotations

from typing import Annotated

from harness.commands.declaration import Option, command
from harness.commands.shared import Accelerator, KernelName


@command(guests=True)
def boot(
    kernel: KernelName,
    experiment: Annotated[
        str | None, Option("put this experiment's programs into the image: a name, or a folder's path", path=True)
    ] = None,
    accel: Accelerator = "auto",
    append: Annotated[str | None, Option("further kernel parameters, in one argument")] = None,
    cpus: Annotated[int, Option("CPUs; `classic` has one")] = 1,
) -> int:
    """Boot a kernel and give you a shell in the guest, on its console."""
    from harness.build.store import Store
    from harness.commands.shell import shell
    from harness.experiment.model import find_experiment

    folder = find_experiment(experiment) if experiment else None
    return shell(Store.default(), kernel, folder, accel, tuple((append or "").split()), cpus)
