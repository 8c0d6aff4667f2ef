# SPDX-License-Identifier: MIT
"""`verify`: every bit of a set, and what follows from its raw files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.cli.shared import ResultsFolder, SetName, Trust
from harness.errors import UsageError
from harness.paths import CAPSULE_SUFFIX, RESULTS


@command("Look at results")
def verify(
    result: SetName,
    signers: Annotated[
        Path | None,
        Option("who must have signed: a file as ssh-keygen has it", none="`~/.ssh/allowed_signers`, to tell"),
    ] = None,
    results: ResultsFolder = RESULTS,
    trust: Trust = None,
) -> int:
    """Check every bit of a set or capsule, and who signed it."""
    from harness.analysis import verification

    if result.endswith(CAPSULE_SUFFIX):
        if signers is not None:
            raise UsageError("a capsule is not signed", where=result, hint="unpack it, and verify the set in it")
        return verification.verify_capsule(Path(result), terminal.output())
    return verification.verify(results, result, terminal.output(), trust=trust, signers=signers)
