# SPDX-License-Identifier: MIT
"""`sign`: who stands for a set."""

from __future__ import annotations

from pathlib import Path

from harness import settings
from harness.cli.declaration import command, expanded
from harness.cli.shared import ResultsFolder, SetName
from harness.errors import UsageError
from harness.harmless import harmless
from harness.paths import RESULTS


@command("Look at results")
def sign(
    result: SetName,
    results: ResultsFolder = RESULTS,
) -> None:
    """Sign a result set with an ssh key, once all of it is verified."""
    from harness.sets import signature
    from harness.sets.resultset import find_result_set
    from harness.sets.seal import verify_files

    path = find_result_set(results, result).path
    key = settings.text(settings.SIGNING_KEY)
    if not key:
        raise UsageError(
            "no key to sign with", hint="KREPRO_SIGNING_KEY=~/.ssh/id_ed25519, or signing_key in krepro.toml"
        )
    verify_files(path)
    print(harmless(str(signature.sign(path, Path(expanded(key))))))
