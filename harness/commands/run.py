# SPDX-License-Identifier: MIT
"""`run`: what a user chooses for one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from harness.choices import OracleMode, Profile
from harness.commands import cli
from harness.commands.declaration import Option, command
from harness.commands.shared import Accelerator, ResultsFolder, Verbose
from harness.paths import RESULTS


@dataclass(frozen=True)
class RunOptions:
    """What a user chose for one run."""

    experiment: Annotated[str, Option("a name from `experiments/`, or a folder's path", word=True, path=True)]
    profile: Annotated[
        Profile, Option("which number of repetitions, see [writing-an-experiment.md](writing-an-experiment.md)")
    ] = "quick"
    repetitions: Annotated[
        int | None, Option("trials of every arm that the profile has", least=1, none="the profile's")
    ] = None
    accel: Accelerator = "auto"
    arms: Annotated[
        tuple[str, ...] | None,
        Option(
            "only these, comma-separated; an arm that the profile leaves out then runs once",
            none="the profile's",
        ),
    ] = None
    seed: Annotated[
        int, Option("decides the order and every trial's seed; equal seeds give equal virtual-clock trials")
    ] = 1
    results: ResultsFolder = RESULTS
    check_digest: Annotated[
        str | None,
        Option(
            "after the run, exit with 3 unless the bits are those of: a digest (64 hex digits), a reference file, a "
            "result set, or `reference` for `results/reference/EXPERIMENT/digest.json`",
            path=True,
        ),
    ] = None
    verbose: Verbose = False
    oracle: Annotated[
        tuple[OracleMode, ...] | None,
        Option(
            "exact ground truth beside every arm: modes of [oracle.md](oracle.md), comma-separated",
            none="as the arms say",
        ),
    ] = None
    resume: Annotated[
        str | None,
        Option(
            "go on with this unfinished run (a unique start of its ID, or `latest`), or try the failed trials of this "
            "result set again",
            none="the newest unfinished run that was begun with the same words, if there is one",
        ),
    ] = None
    fresh: Annotated[bool, Option("begin anew, also where an unfinished run with the same words is there")] = False
    reuse: Annotated[
        bool,
        Option(
            "take virtual-clock trials with an equal description from earlier sets of this folder, after checking "
            "their files; the set says of each where it comes from"
        ),
    ] = False


@command(guests=True)
def run(options: RunOptions) -> int:
    """Run an experiment: build, boot, measure, judge; print tables, claims and the result set's path."""
    from harness.commands import pipeline

    return pipeline.run(options, cli.output()).exit_code
