# SPDX-License-Identifier: MIT
"""`build`: kernels and images into the store, and which kernels there are."""

from __future__ import annotations

from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command


@command("Your own work", guests=True)
def build(
    kernel: Annotated[
        str | None,
        Option(
            "a kernel of `images/kernels/`, or `all` (with bare `invoke` not as a word)", word=True, none="list them"
        ),
    ] = None,
    experiment: Annotated[
        str | None,
        Option("kernels and images of this experiment's arms: a name, or a folder's path", path=True),
    ] = None,
) -> None:
    """Build kernels and images, and print their paths; or list kernels."""
    from pathlib import Path

    from harness.artefacts.store import Store
    from harness.experiment.model import find_experiment, load_experiment
    from harness.kernel.load import kernel_names, kernel_word
    from harness.report.kernels import kernels_table
    from harness.trial.prepare import build_for

    console = terminal.output()
    folder: Path | None = find_experiment(experiment) if experiment else None
    if kernel is None and folder is None:
        console.print(kernels_table())
        return
    loaded = load_experiment(folder) if folder else None
    packages = loaded.packages if loaded else ()
    if kernel == "all":
        names = kernel_names(folder)
    elif kernel is not None:
        names = [kernel_word(kernel, Path.cwd())]
    else:
        names = list(dict.fromkeys(arm.kernel for arm in loaded.arms.values())) if loaded else []
    store = Store.default()
    for name in names:
        made = build_for(store, name, folder, packages)
        terminal.print_lines(console, f"{name}: {made.kernel.path}")
        if folder is not None:
            terminal.print_lines(console, f"{name}, image: {made.image.path}")
