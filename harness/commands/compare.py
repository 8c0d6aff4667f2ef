# SPDX-License-Identifier: MIT
"""`compare`: one set against another."""

from __future__ import annotations

from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.cli.shared import ResultsFolder, SetName
from harness.paths import RESULTS


@command("Look at results")
def compare(
    result: SetName,
    with_: SetName,
    arms: Annotated[
        tuple[str, str] | None,
        Option("`FIRST,SECOND`: that arm of the first set against that arm of the second", none="those that both have"),
    ] = None,
    set_: Annotated[
        str | None,
        Option(
            "`DIMENSION=FIRST,SECOND`: the arms of the first set that have the first value of this dimension of a "
            "matrix against those of the second, which may be the same set, that have the second; just `DIMENSION` "
            "where there are two",
        ),
    ] = None,
    force: Annotated[bool, Option("compare in spite of another experiment, version, schema or fidelity")] = False,
    results: ResultsFolder = RESULTS,
) -> int:
    """Compare two sets, with effect sizes and their intervals."""
    from harness.report import compared

    return compared.compare(results, result, with_, arms, force, terminal.output(), over=set_)
