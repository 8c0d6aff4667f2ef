# SPDX-License-Identifier: MIT
"""`predict`: from what an experiment has fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.cli.shared import SET, ResultsFolder, Trust
from harness.paths import RESULTS


@command("Look at results")
def predict(
    result: Annotated[
        str,
        Option(
            f"a document that its experiment predicts from, or {SET}, for its document `model`", word=True, path=True
        ),
    ],
    with_: Annotated[Path, Option("what to predict: a YAML file, as the experiment's README says", word=True)],
    results: ResultsFolder = RESULTS,
    trust: Trust = None,
) -> int:
    """Predict from what an experiment has fitted, before it runs."""
    from harness.program import prediction

    return prediction.predict_script(results, result, with_, terminal.output(), trust=trust)
