# SPDX-License-Identifier: MIT
"""What a user asks of one run; as options of `run` they are declared here. Standard library only, until it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from harness.choices import OracleMode, Profile
from harness.cli.declaration import Option
from harness.cli.shared import Accelerator, ResultsFolder, Verbose
from harness.paths import RESULTS

if TYPE_CHECKING:
    from harness.trial.part import Part


@dataclass(frozen=True)
class RunRequest:
    """What a user chose for one run."""

    experiment: Annotated[str, Option("a name from `experiments/`, or a folder's path", word=True, path=True)]
    profile: Annotated[
        Profile, Option("number of repetitions per arm, see [writing-an-experiment.md](writing-an-experiment.md)")
    ] = "quick"
    repetitions: Annotated[
        str | int | None,
        Option(
            "trials of every arm in the profile; or a part of them: `5:9` runs repetitions 5 to 8 of the profile's, "
            "`5:9/30` of 30",
            none="the profile's",
        ),
    ] = None
    shard: Annotated[
        str | None, Option("run one shard of the plan only: `3/10` is the third of ten", none="the whole plan")
    ] = None
    accel: Accelerator = "auto"
    arms: Annotated[
        tuple[str, ...] | None,
        Option(
            "run only these arms, comma-separated; one that the profile omits then runs once",
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
            "after the run, exit with 3 unless the bits equal those of: a digest (64 hex digits), a reference file, a "
            "result set, or `reference` for that of this QEMU in `results/reference/EXPERIMENT/`",
            path=True,
        ),
    ] = None
    verbose: Verbose = False
    oracle: Annotated[
        tuple[OracleMode, ...] | None,
        Option(
            "exact ground truth for every arm: modes of [oracle.md](oracle.md), comma-separated",
            none="as the arms say",
        ),
    ] = None
    resume: Annotated[
        str | None,
        Option(
            "resume this unfinished run (a unique prefix of its ID, or `latest`), or rerun the failed trials of this "
            "result set",
            none="the newest unfinished run with the same arguments, if any",
        ),
    ] = None
    fresh: Annotated[bool, Option("start over, even if there is an unfinished run with the same arguments")] = False
    reuse: Annotated[
        bool,
        Option(
            "take virtual-clock trials with an equal description from earlier sets of this folder, after checking "
            "their files; the set records where each came from"
        ),
    ] = False
    kernel: Annotated[
        tuple[str, ...] | None,
        Option(
            "only arms of these kernels, comma-separated; a matrix over kernels takes others too. Or a version, "
            "like 6.12: the arms of all kernels that are built here, in this version",
            none="all",
        ),
    ] = None
    set_: Annotated[
        tuple[str, ...] | None,
        Option(
            "`DIMENSION=VALUE,…`: these values of a dimension of a matrix in place of its own, see "
            "[matrix.md](matrix.md); may be given several times",
            none="the experiment's",
            repeated=True,
        ),
    ] = None
    executor: Annotated[
        str | None,
        Option(
            "run the trials on the Dask cluster of this scheduler, `dask://HOST:PORT` or `tls://HOST:PORT`, or on jobs "
            "of `slurm`, see [scale.md](scale.md)",
            none="this machine",
        ),
    ] = None

    @cached_property
    def part(self) -> Part:
        """What of the plan is asked for; UsageError for words that are none."""
        from harness.trial.part import parse_part

        return parse_part(self.repetitions, self.shard)

    @cached_property
    def chosen(self) -> dict[str, list[str]]:
        """Values by dimension, as `--set` and `--kernel` give them; UsageError for words that are none."""
        from harness.experiment.matrix import parse_chosen

        return parse_chosen(self.set_, self.kernel)
