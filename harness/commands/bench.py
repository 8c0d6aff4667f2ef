# SPDX-License-Identifier: MIT
"""`bench`: the harness's own times, or what an experiment measures on the host."""

from __future__ import annotations

from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command


@command("Upkeep", guests=True)
def bench(
    experiment: Annotated[
        str | None,
        Option(
            "what this experiment's `bench.py` measures on the host: a name from `experiments/`, or a folder's path",
            word=True,
            path=True,
            none="the harness",
        ),
    ] = None,
    repetitions: Annotated[int, Option("measurements of each kind", least=1)] = 5,
) -> int:
    """Measure the harness: restore beside a cold boot and ssh."""
    from harness.artefacts.store import Store
    from harness.host import benchmark

    if experiment is not None:
        return benchmark.of_experiment(experiment, repetitions, terminal.output())
    return benchmark.bench(Store.default(), repetitions, terminal.output())
