"""The whole way of a run: load, plan, prepare, run, decode, judge, write, print. Each stage is a function of files."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console

from harness.analysing import analyse
from harness.build.store import Store, hash_tree
from harness.errors import EXIT_CONTRADICTED, EXIT_OK, KreproError, RunError
from harness.experiment.model import Experiment, OracleMode, Profile, find_experiment, load_experiment
from harness.experiment.plan import make_plan
from harness.experiment.prepare import AcceleratorChoice, KernelBuild, Prepared, prepare
from harness.experiment.runner import run_trials
from harness.experiment.trial import TrialRecord
from harness.machine.saved import qemu_version
from harness.measure.analysis import Analysis
from harness.measure.claims import ClaimResult, judge
from harness.oracle.attach import attach, with_oracle
from harness.paths import RESULTS
from harness.report.summary import closing_lines
from harness.report.terminal import print_summary
from harness.store.digest import deterministic_files, digest
from harness.store.manifest import NO_DIGEST, Manifest, describe_image, describe_kernel
from harness.store.provenance import host, load, package_versions, repository
from harness.store.reference import check_digest, find_reference
from harness.store.resultset import EXPERIMENT, ResultSet, Writer, copy_experiment, write_result_set


@dataclass(frozen=True)
class RunOptions:
    """What a user chose for one run."""

    experiment: str
    profile: Profile = "quick"
    repetitions: int | None = None
    arms: tuple[str, ...] | None = None
    seed: int = 1
    accelerator: AcceleratorChoice = "auto"
    results: Path = RESULTS
    check_digest: str | None = None
    oracle: tuple[OracleMode, ...] | None = None


@dataclass(frozen=True)
class RunOutcome:
    """A finished run."""

    result: ResultSet
    exit_code: int


def run(options: RunOptions, console: Console) -> RunOutcome:
    """Run an experiment and write its result set; print tables, verdicts and the set's path.

    Raises UsageError before anything is built when the input is wrong, RunError when no trial could be measured
    (the set is still written).
    """
    clock = _Clock()
    folder = find_experiment(options.experiment)
    experiment = load_experiment(folder)
    if options.oracle is not None:
        experiment = with_oracle(experiment, options.oracle)
    analysis = Analysis(folder)
    plan = make_plan(
        experiment,
        profile=options.profile,
        repetitions=options.repetitions,
        arms=options.arms,
        seed=options.seed,
    )
    # Found before the run: `latest` is this run's own set afterwards, and a wrong word should not cost a run.
    wanted = options.check_digest
    reference = find_reference(wanted, experiment.name, options.results) if wanted is not None else None
    store = Store.default()
    load_before = load()
    with write_result_set(options.results, experiment.name) as writer:
        copy_experiment(folder, writer.path)
        clock.lap("harness")
        prepared = prepare(store, experiment, folder, plan, writer.path, options.accelerator)
        clock.lap("build")
        records = run_trials(attach(store, experiment, prepared))
        clock.lap("guests")
        _copy_symbols(prepared.builds, writer.path)
        good = [record.relocated(writer.path) for record in records if record.status == "ok"]
        unanalysed: KreproError | None = None
        claims: list[ClaimResult] = []
        summary: Mapping[str, pd.DataFrame] = {}
        try:
            claims, summary = _analyse(analysis, experiment, good, writer)
        except KreproError as error:  # what was measured is kept, whatever an analysis makes of it
            unanalysed = error
        writer.write_claims(claims)
        clock.lap("harness")
        manifest = _manifest(options, experiment, prepared, records, load_before, clock.seconds, writer.path)
        result = writer.finish(manifest)
    failed = [record for record in records if record.status == "failed"]
    clock.lap("harness")
    if unanalysed is not None:
        raise RunError(f"trials are kept, but their analysis failed: {unanalysed}", where=str(result.path))
    print_summary(console, summary, claims, closing_lines(result, claims, result.metrics, clock.seconds))
    if failed:
        raise RunError(
            f"{len(failed)} of {len(records)} trials failed; the first: {failed[0].arm} {failed[0].repetition}: "
            f"{failed[0].reason}",
            where=str(result.path),
        )
    if wanted is not None:
        check_digest(result, wanted, reference)
    contradicted = any(claim.verdict == "contradicted" for claim in claims)
    return RunOutcome(result, EXIT_CONTRADICTED if contradicted else EXIT_OK)


class _Clock:
    """Wall time by part of the run."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, part: str) -> None:
        now = time.monotonic()
        self.seconds[part] = round(self.seconds.get(part, 0.0) + now - self._last, 3)
        self._last = now


def _analyse(
    analysis: Analysis, experiment: Experiment, trials: Sequence[TrialRecord], writer: Writer
) -> tuple[list[ClaimResult], Mapping[str, pd.DataFrame]]:
    """Tables, metrics, claims and figures of the good trials into the set; nothing when there are none."""
    if not trials:
        return [], {}
    tables, metrics = analyse(analysis, trials, writer)
    return judge(experiment.claims, metrics), analysis.summary(tables)


def _copy_symbols(builds: Mapping[str, KernelBuild], target: Path) -> None:
    for name, build in builds.items():
        folder = target / "kernels" / name
        folder.mkdir(parents=True, exist_ok=True)
        for file in ("System.map", "config"):
            shutil.copyfile(build.kernel.file(file), folder / file)


def _manifest(
    options: RunOptions,
    experiment: Experiment,
    prepared: Prepared,
    records: Sequence[TrialRecord],
    load_before: float,
    seconds: Mapping[str, float],
    root: Path,
) -> Manifest:
    deterministic = deterministic_files(root, [record for record in records if record.status == "ok"])
    covered = digest(deterministic)
    return Manifest(
        id="",
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        experiment=experiment,
        experiment_files=hash_tree(root / EXPERIMENT),
        command_line=[Path(sys.argv[0]).name, *sys.argv[1:]],
        profile=options.profile,
        seed=options.seed,
        repository=repository(),
        kernels={name: describe_kernel(build) for name, build in prepared.builds.items()},
        images={name: describe_image(build) for name, build in prepared.builds.items()},
        qemu=qemu_version(),
        accelerator={trial.arm: trial.machine.accelerator for trial in prepared.trials},
        fidelity={record.arm: record.fidelity for record in records},
        host=host(load_before),
        packages=package_versions(),
        seconds=dict(seconds),
        trials=list(records),
        digest=covered,
        deterministic=deterministic,
        files={},
        absent={"digest": NO_DIGEST} if covered is None else {},
    )
