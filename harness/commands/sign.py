# SPDX-License-Identifier: MIT
"""`sign`: who stands for a set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.commands.declaration import Option, command
from harness.commands.shared import ResultsFolder, SetName
from harness.harmless import harmless
from harness.paths import RESULTS


@command()
def sign(
    result: SetName,
    key: Annotated[Path, Option("an ssh key: the private one, or the public one of a key that an agent holds")],
    results: ResultsFolder = RESULTS,
) -> None:
    """Sign a result set with an ssh key, once all of it is verified."""
    from harness.store import signature
    from harness.store.resultset import find_result_set
    from harness.store.seal import verify_files

    path = find_result_set(results, result).path
    verify_files(path)
    print(harmless(str(signature.sign(path, key))))
