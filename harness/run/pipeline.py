# SPDX-License-Identifier: MIT
"""The whole way of a run: load, plan, prepare, run, decode, judge, write, print. Each stage is a function of files."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from harness import settings, stagetimes
from harness.analysis.analyse import Analysed, analyse
from harness.analysis.contained import Contained
from harness.artefacts.store import Store, hash_tree
from harness.choices import FILE_MIB
from harness.errors import KreproError, RunError
from harness.experiment.matrix import chosen_version
from harness.experiment.model import Experiment, find_experiment, load_experiment
from harness.kernel.spec import KernelRecipe
from harness.machine.plugin import plugin_api
from harness.machine.qemu import qemu_version
from harness.measure.claims import ClaimResult
from harness.packages.tree import tools
from harness.progress import Whole, note, whole
from harness.report.telling import stage_lines, tell
from harness.run.cluster.executor import DaskExecutor, connected
from harness.run.description import describe_trial
from harness.run.estimate import outlook
from harness.run.executor import LocalExecutor, run_each
from harness.run.outcome import ended, problem
from harness.run.prepared import Prepared, check_plan, prepare_trials, with_oracle
from harness.run.request import RunRequest
from harness.run.resuming import earlier_set, folder_for, take_earlier, working_on
from harness.run.stages import Together, due, in_turn, stages, told, verdicts_so_far
from harness.run.unfinished import Run
from harness.run.union import planned
from harness.sets.digest import deterministic_files, digest
from harness.sets.manifest import NO_DIGEST, Manifest, describe_image, describe_kernel
from harness.sets.provenance import host, load, made_now
from harness.sets.reference import check_digest, find_reference
from harness.sets.resultset import EXPERIMENT, ResultSet, Writer, copy_experiment
from harness.trial.model import TrialRecord, TrialSpec
from harness.trial.plan import PlannedTrial, make_plan
from harness.trial.prepare import KernelBuild


@dataclass(frozen=True)
class RunOutcome:
    """A finished run."""

    result: ResultSet
    exit_code: int


@dataclass(frozen=True)
class Measured:
    """A run whose set is written, whatever became of its trials and of their analysis."""

    result: ResultSet
    claims: list[ClaimResult]
    unanalysed: KreproError | None
    unshown: list[KreproError]
    seconds: Mapping[str, float]

    @property
    def problem(self) -> RunError | None:
        """Why this run has failed, if it has."""
        return problem(self.result, self.claims, self.unshown, self.unanalysed)


def run(request: RunRequest, console: Console) -> RunOutcome:
    """Run an experiment and write its result set; print tables, verdicts and the set's path.

    Raises UsageError before anything is built when the input is wrong, RunError when a trial or the analysis failed
    (the set is still written).
    """
    # Found before the run: `latest` is this run's own set afterwards, and a wrong word should not cost a run.
    wanted = request.check_digest
    reference = None
    if wanted is not None:
        name = load_experiment(find_experiment(request.experiment)).name
        reference = find_reference(wanted, name, request.results, chosen_version(request.chosen))
    done = measure(request)
    if done.unanalysed is None:
        tell(console, done.result, verbose=request.verbose, also=stage_lines(stagetimes.taken()))
    failed = any(trial.status == "failed" for trial in done.result.manifest.trials)
    if wanted is not None and not failed:  # the bits are there, whatever came of them
        try:
            check_digest(done.result, wanted, reference)
        except KreproError as error:
            if done.problem is not None:
                error.add_note(str(done.problem))
            raise
    if done.problem is not None:
        raise done.problem
    return RunOutcome(done.result, ended(done.result, done.claims, done.unshown))


def measure(request: RunRequest) -> Measured:
    """Run an experiment and write its result set.

    Raises UsageError before anything is built when the input is wrong. Trials and analyses that fail do not raise.
    """
    clock = _Clock()
    folder = find_experiment(request.experiment)
    experiment = load_experiment(folder, request.chosen)
    if request.oracle is not None:
        experiment = with_oracle(experiment, request.oracle)
    home = folder_for(request, experiment.name)  # the analysis sees what comes there
    with Contained(folder, home) as analysis:
        analysis.check(experiment)
        return _measured(request, clock, folder, experiment, analysis)


def _measured(
    request: RunRequest, clock: _Clock, folder: Path, experiment: Experiment, analysis: Contained
) -> Measured:
    part = request.part
    every = make_plan(
        experiment,
        profile=request.profile,
        repetitions=part.count,
        arms=request.arms,
        seed=request.seed,
        chosen=request.chosen,
    )
    plan, described = part.of(every), planned(experiment, every, part)
    store = Store.default()
    load_before = load()
    home = request.results / experiment.name
    earlier = earlier_set(request, home)
    with connected(request.executor) as client, working_on(request, home, len(plan), earlier) as run, whole() as line:
        writer = Writer(home, run.set)
        work = _Work(request, experiment, folder, plan, store, run, writer, line, analysis)
        prepared = work.guests(client, earlier, clock, None if part.text else analysis)
        records = [run.sealed[spec.arm, spec.repetition] for spec in prepared.trials]
        writer.found |= run.files()
        good = any(record.status == "ok" for record in records)
        unanalysed: KreproError | None = None
        analysed = Analysed()
        try:
            if good:
                analysed = analyse(
                    analysis,
                    experiment.claims,
                    [record.relocated(writer.path) for record in records],
                    writer,
                    part=described.part_of(len(plan)),
                )
        except KreproError as error:  # what was measured is kept, whatever an analysis makes of it
            unanalysed = error
            writer.remove_derived()
        if not analysed.claims:
            writer.write_claims([])
        clock.lap("harness")
        manifest = _manifest(request, experiment, prepared, records, load_before, clock.seconds, writer.path)
        manifest = manifest.model_copy(
            update={
                "resumed": run.resumed,
                "unanalysed": _why_not(unanalysed, good, folder),
                "plan": described,
                "hosts": run.hosts,
            }
        )
        result = writer.finish(manifest, latest=not manifest.unanalysed and not manifest.missing, own=run.own)
        run.finished()
    clock.lap("harness")
    return Measured(result, analysed.claims, unanalysed, analysed.failures, clock.seconds)


@dataclass(frozen=True)
class _Work:
    """A run that is going on, with what its guests are made of."""

    request: RunRequest
    experiment: Experiment
    folder: Path
    plan: Sequence[PlannedTrial]
    store: Store
    run: Run
    writer: Writer
    line: Whole
    analysis: Contained

    def guests(self, client: Any, earlier: ResultSet | None, clock: _Clock, analysis: Contained | None) -> Prepared:
        """Build what is needed and run all trials, stage by stage; with `analysis`, verdicts are told in between."""
        run, accel = self.run, self.request.accel
        recipes = check_plan(self.experiment, self.folder, self.plan, accel)
        self._expect([self.plan], recipes)
        plugin_api(qemu_version())  # a QEMU that is missing or too old is found before a kernel is built
        at_once = bool(run.resumed) or self.request.reuse or earlier is not None
        whole = [self.plan] if at_once else stages(self.store, self.experiment, self.plan, recipes)
        turns = [in_turn(self.experiment, part) for part in whole]
        parts = [half for turn in turns for half in turn]
        ends = [turn[-1] for turn in turns]
        self._expect(parts, recipes)
        made = Together(self.plan)
        for part in parts:
            new = prepare_trials(self.store, self.experiment, self.folder, part, run.running, accel, recipes)
            new = self._predicted(new.limited((settings.number(settings.OUTPUT_MIB) or FILE_MIB) << 20))
            made.parts.append(new)
            clock.lap("build")
            self._describe(new, earlier, clock, first=part is parts[0])
            clock.lap("harness")
            self.line.next_stage()
            run.guests_begin()
            executor = DaskExecutor(client, run.descriptions, run.place_of) if client is not None else LocalExecutor()
            run_each(due(made.whole.trials, run.sealed, last=part is parts[-1]), run.seal, executor)
            run.guests_end()
            self.line.next_stage()
            clock.lap("guests")
            _copy_symbols(new.builds, self.writer)
            if analysis is not None and part in ends[:-1]:
                self._tell(analysis, made)
        return made.whole

    def _predicted(self, new: Prepared) -> Prepared:
        """With what is predicted of them, by trials that have ended; of what ended badly nothing is."""

        def one(spec: TrialSpec) -> TrialSpec:
            by = self.experiment.arms[spec.arm].predicted_by
            if by is None:
                return spec
            record = self.run.sealed[by, spec.repetition]
            good = record.status == "ok"
            return spec.predicted(self.analysis.predictions([record.relocated(self.writer.path)]) if good else "null\n")

        return replace(new, trials=[one(spec) for spec in new.trials])

    def _expect(self, parts: Sequence[Sequence[PlannedTrial]], recipes: Mapping[str, KernelRecipe]) -> None:
        self.line.expect(outlook(self.store, self.experiment, parts, recipes, self.request.results))

    def _describe(self, new: Prepared, earlier: ResultSet | None, clock: _Clock, *, first: bool) -> None:
        descriptions = {(spec.arm, spec.repetition): describe_trial(spec) for spec in new.trials}
        if not first:
            self.run.keep_more(descriptions)
            return
        self.run.keep(descriptions)
        clock.add("guests", self.run.spent_s)
        copy_experiment(self.folder, self.writer.path)
        self.writer.seal(EXPERIMENT)
        take_earlier(self.run, new.trials, self.request, earlier)

    def _tell(self, analysis: Contained, made: Together) -> None:
        """Say the verdicts that no trial of the stages to come can turn."""
        sealed = self.run.sealed
        every = {trial.arm for trial in self.plan}
        arms = every - {trial.arm for trial in self.plan if (trial.arm, trial.repetition) not in sealed}
        records = [record.relocated(self.writer.path) for record in sealed.values() if record.arm in arms]
        for line in told(verdicts_so_far(analysis, self.experiment.claims, records, arms), len(arms), len(every)):
            note(line)


class _Clock:
    """Wall time by part of the run."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, part: str) -> None:
        """What has passed since the last lap is of this part."""
        now = time.monotonic()
        self.add(part, now - self._last)
        self._last = now

    def add(self, part: str, seconds: float) -> None:
        """Time of this part that an earlier process has spent."""
        self.seconds[part] = round(self.seconds.get(part, 0.0) + seconds, 3)


def _why_not(error: KreproError | None, good: bool, folder: Path) -> str:
    """Why a set has no verdicts, without folders of the host; empty when it has."""
    if error is None:
        return "" if good else "no trial succeeded"
    place = Path(error.where).name if error.where else "analysis.py"
    return f"{place}: {error.message}".replace(f"{folder}/", "")


def _copy_symbols(builds: Mapping[str, KernelBuild], writer: Writer) -> None:
    for name, build in builds.items():
        folder = writer.path / "kernels" / name
        folder.mkdir(parents=True, exist_ok=True)
        for file in ("System.map", "config"):
            shutil.copyfile(build.kernel.file(file), folder / file)
            writer.found[f"kernels/{name}/{file}"] = build.kernel.files[file]


def _manifest(
    request: RunRequest,
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
        **made_now(),
        id="",
        experiment=experiment,
        experiment_files=hash_tree(root / EXPERIMENT),
        profile=request.profile,
        seed=request.seed,
        chosen=request.chosen,
        kernels={name: describe_kernel(build) for name, build in prepared.builds.items()},
        images={name: describe_image(build) for name, build in prepared.builds.items()},
        qemu=qemu_version(),
        tools=tools().told,
        accelerator={trial.arm: trial.machine.accelerator for trial in prepared.trials},
        accelerator_asked=request.accel,
        accelerator_why=dict(prepared.why_tcg),
        fidelity={record.arm: record.fidelity for record in records},
        host=host(load_before),
        seconds=dict(seconds),
        trials=list(records),
        digest=covered,
        deterministic=deterministic,
        files={},
        absent={"digest": NO_DIGEST} if covered is None else {},
    )
