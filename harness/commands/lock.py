# SPDX-License-Identifier: MIT
"""`lock`: the Debian packages that bits are made of, by version and hash."""

from __future__ import annotations

from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.cli.shared import check_checkout
from harness.errors import EXIT_OK


@command("Your own work")
def lock(
    experiment: Annotated[
        str | None,
        Option(
            "an experiment of your own: the lock beside its `experiment.yaml`", word=True, path=True, none="the project"
        ),
    ] = None,
    update: Annotated[
        bool, Option("take the versions that the distribution has today; needs apt-get, and changes bits")
    ] = False,
) -> int:
    """Check or renew the lock of packages that everything is made with."""
    from harness.artefacts.store import Store
    from harness.experiment.model import find_experiment
    from harness.run import locking

    folder = find_experiment(experiment) if experiment else None
    console = terminal.output()
    if update and folder is None:
        check_checkout("lock --update")
    if update:
        terminal.print_lines(console, *locking.update(Store.default(), folder))
    else:
        terminal.print_lines(console, locking.check(folder))
    return EXIT_OK
