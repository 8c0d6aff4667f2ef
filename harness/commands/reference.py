# SPDX-License-Identifier: MIT
"""`reference`: what CI compares runs with from now on."""

from __future__ import annotations

from harness.cli.declaration import command
from harness.cli.shared import ResultsFolder, SetName, check_checkout
from harness.paths import RESULTS


@command("Run a paper")
def reference(result: SetName, results: ResultsFolder = RESULTS) -> None:
    """Make a set's digest the committed reference of its experiment."""
    from harness.sets.reference import write_reference
    from harness.sets.resultset import find_result_set

    check_checkout("reference")
    for path in write_reference(find_result_set(results, result)):
        print(path)
