# SPDX-License-Identifier: MIT
"""`bench`: the harness's own times."""

from __future__ import annotations

from typing import Annotated

from harness.commands import cli
from harness.commands.declaration import Option, command


@command(guests=True)
def bench(repetitions: Annotated[int, Option("measurements of each kind", least=1)] = 5) -> int:
    """Measure the harness: restore to workload start, beside a cold boot and the ssh path."""
    from harness.build.store import Store
    from harness.commands import benchmark

    return benchmark.bench(Store.default(), repetitions, cli.output())
