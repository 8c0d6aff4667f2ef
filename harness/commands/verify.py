# SPDX-License-Identifier: MIT
"""`verify`: every bit of a set, and what follows from its raw files."""

from __future__ import annotations

from harness.commands import cli
from harness.commands.declaration import command
from harness.commands.shared import ResultsFolder, SetName, Trust
from harness.paths import RESULTS


@command()
def verify(result: SetName, results: ResultsFolder = RESULTS, trust: Trust = False) -> int:
    """Check every bit of a set, and that tables, metrics, claims and figures follow from its raw files."""
    from harness.commands import verification

    return verification.verify(results, result, cli.output(), trust=trust)
