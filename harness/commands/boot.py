# SPDX-License-Identifier: MIT
"""`boot`: a person's shell in a guest, or a script's command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from harness.choices import MOST_CPUS
from harness.cli.declaration import Option, command
from harness.cli.shared import Accelerator, KernelName
from harness.errors import UsageError

#: A shell that reads its commands from its standard input.
SHELL = "sh"


@command("Your own work", guests=True)
def boot(
    kernel: KernelName,
    experiment: Annotated[
        str | None, Option("put this experiment's programs into the image: a name, or a folder's path", path=True)
    ] = None,
    accel: Accelerator = "auto",
    append: Annotated[str | None, Option("further kernel parameters, in one argument")] = None,
    cpus: Annotated[int, Option("CPUs; `classic` has one", least=1, most=MOST_CPUS)] = 1,
    exec: Annotated[
        str | None,
        Option(
            "run this in the guest instead of a shell, in one argument; also the words after `--`",
            none="a shell; without a terminal, one that reads standard input",
            rest=True,
        ),
    ] = None,
    in_: Annotated[
        tuple[str, ...] | None,
        Option("files and folders of the host for the command, comma-separated: `F`, or `F:PATH`", path=True, least=1),
    ] = None,
    out: Annotated[
        tuple[str, ...] | None,
        Option("files and folders of the guest to fetch afterwards, comma-separated: `F`, or `F:PATH`", least=1),
    ] = None,
    timeout: Annotated[int, Option("seconds that the command may take", least=1)] = 600,
) -> int:
    """Boot a kernel and give a shell in the guest, or run a command."""
    from harness.artefacts.store import Store
    from harness.experiment.model import find_experiment
    from harness.kernel.load import kernel_word
    from harness.program.interactive import BootRequest

    folder = find_experiment(experiment) if experiment else None
    store, kernel = Store.default(), kernel_word(kernel, Path.cwd())
    request = BootRequest(kernel, folder, accel, tuple((append or "").split()), cpus)
    if exec is None and sys.stdin is not None and sys.stdin.isatty():
        if in_ or out:
            raise UsageError("--in and --out need a command", hint="--exec, or -- and the command")
        from harness.program.interactive import shell

        return shell(store, request)
    from harness.program.script import run_script, script_of

    return run_script(store, request, script_of(exec or SHELL, timeout, in_ or (), out or ()))
