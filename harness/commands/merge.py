# SPDX-License-Identifier: MIT
"""`merge`: sets of one plan into one."""

from __future__ import annotations

from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.cli.shared import SET, ResultsFolder, Trust, Verbose
from harness.paths import RESULTS


@command("Run a paper")
def merge(
    result: Annotated[tuple[str, ...], Option(f"two or more, each {SET}", words=True, path=True)],
    results: ResultsFolder = RESULTS,
    verbose: Verbose = False,
    trust: Trust = None,
) -> int:
    """Unite sets of one plan, run in parts, and judge the claims."""
    from harness.run import merging

    return merging.merge(results, result, terminal.output(), verbose=verbose, trust=trust)
