# SPDX-License-Identifier: MIT
"""`nightly`: every experiment within a budget, against the references."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.choices import Profile
from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.cli.shared import ResultsFolder
from harness.paths import RESULTS


@command("Run a paper", guests=True)
def nightly(
    minutes: Annotated[
        int,
        Option("an experiment that would exceed so many is skipped, one still running is interrupted"),
    ] = 480,
    profile: Annotated[Profile, Option("number of repetitions per arm")] = "full",
    results: ResultsFolder = RESULTS,
    out: Annotated[Path, Option("folder for state, JUnit XML and summary", writes="folder")] = RESULTS / "nightly",
    experiment: Annotated[
        tuple[str, ...] | None,
        Option("names from `experiments/` or folders, comma-separated", path=True, least=1, none="all"),
    ] = None,
    fresh: Annotated[bool, Option("begin a new night even if the last one was stopped")] = False,
) -> int:
    """Run every experiment in a time budget; compare with references."""
    from harness.experiment.model import experiment_names
    from harness.run import night

    request = night.NightRequest(
        experiments=experiment or tuple(experiment_names()),
        budget_s=60.0 * minutes,
        profile=profile,
        results=results,
        out=out,
        fresh=fresh,
    )
    return night.nightly(request, terminal.output())
