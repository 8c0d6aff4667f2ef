# SPDX-License-Identifier: MIT
"""`predict`: from what an experiment has fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.cli.shared import SET, ResultsFolder, Trust
from harness.errors import UsageError
from harness.paths import RESULTS


@command("Look at results")
def predict(
    result: Annotated[
        tuple[str, ...],
        Option(
            f"what predicts: {SET}, for its document `model`, or such a document; without it the newest such set. "
            "And what to predict: a script of bpftrace's, as a file `F.bt` or its text, or a YAML file",
            words=True,
            path=True,
        ),
    ],
    live: Annotated[
        int | None,
        Option("count the script's probes on this host, as root, for so many seconds", least=1, most=60),
    ] = None,
    set_: Annotated[
        Path | None, Option("a YAML file that says how often probes fire, see [commands.md](commands.md)")
    ] = None,
    below: Annotated[
        str | None, Option("per cent of a CPU's time: the cheapest variants of the script that take no more")
    ] = None,
    results: ResultsFolder = RESULTS,
    trust: Trust = None,
) -> int:
    """Predict from what an experiment has fitted, before it runs."""
    from harness.program import prediction
    from harness.program.prescript import Wanted

    if len(result) > 2:
        raise UsageError(f"one script at a time, not {len(result) - 1}", hint="quote a script that is given as text")
    wanted = Wanted(live=live, rates=set_, below=below)
    by, script = result if len(result) == 2 else (None, result[0])
    return prediction.predict_script(results, by, script, terminal.output(), wanted=wanted, trust=trust)
