# SPDX-License-Identifier: MIT
"""`capsule`: one file with all that a set was made of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.cli.declaration import Option, command
from harness.cli.shared import ResultsFolder, SetName
from harness.harmless import harmless
from harness.paths import CAPSULE_SUFFIX, RESULTS


@command("Look at results")
def capsule(
    result: SetName,
    python: Annotated[
        tuple[str, ...] | None, Option("versions of Python that get wheels, as `3.11,3.13`", none="this one's")
    ] = None,
    out: Annotated[
        Path | None, Option("file to write", writes="file", none="`EXPERIMENT-ID.tar.zst`, in this folder")
    ] = None,
    results: ResultsFolder = RESULTS,
) -> None:
    """Write a set and all it was made of into one file, for offline."""
    from harness.artefacts.store import Store, usable
    from harness.capsule import contents, wheels
    from harness.errors import UsageError
    from harness.sets.resultset import find_result_set

    found = find_result_set(results, result)
    path = (out or Path(contents.folder_name(found.manifest) + CAPSULE_SUFFIX)).absolute()
    if path.exists():
        raise UsageError("is there already", where=str(path), hint="remove it, or choose another with --out")
    with usable(path.parent):
        contents.write_capsule(Store.default(), found, python or [wheels.own_version()], path)
    print(harmless(str(path)))
