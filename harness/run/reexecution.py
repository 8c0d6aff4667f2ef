# SPDX-License-Identifier: MIT
"""Executing virtual-clock and recorded trials of a result set again, from the set alone, comparing bit by bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from harness.analysis.trust import execute
from harness.artefacts.store import Store, hash_file, hash_tree
from harness.choices import Trusted
from harness.errors import RunError, UsageError
from harness.experiment.model import experiment_names, load_experiment
from harness.machine.qemu import qemu_version
from harness.machine.spec import PREDICTIONS, RECORDING, RECORDING_KEYS, BootFiles
from harness.paths import EXPERIMENTS
from harness.run.executor import run_trials
from harness.run.prepared import Prepared, prepare_trials
from harness.run.reanalysis import measured_experiment
from harness.scratch import scratch_space
from harness.sets.digest import HOST_TIMED, first_difference
from harness.sets.manifest import Manifest, describe_image, describe_kernel
from harness.sets.reference import deterministic_inputs, first_input_difference
from harness.sets.resultset import ResultSet, find_result_set
from harness.trial.model import TrialRecord, TrialSpec
from harness.trial.plan import PlannedTrial


def replay(results: Path, text: str, trial: str | None, console: Console, *, trust: Trusted = None) -> int:
    """Replay one trial (`ARM/REPETITION`) of a set, those of an arm, or all that can be; 0 when all bits are equal.

    The experiment's sources travel in the set; kernel and image are built or found by its recipes. RunError
    naming the first file that differs, and the input that is another here if one is.
    """
    result = find_result_set(results, text)
    chosen = _choose(result, trial)
    # It compiles the guest's programs; QEMU believes the log of a recording; and the manifest says what guests execute.
    experiment = result.manifest.experiment
    foreign = any(experiment.arms[record.arm].record for record in chosen) or not _is_projects(result.manifest)
    count = execute(result, lambda: _replayed(result, chosen), trust=trust, made_here_only=foreign)
    console.print(f"{len(chosen)} trials replayed, {count} files: every bit is equal")
    return 0


def _replayed(result: ResultSet, chosen: Sequence[TrialRecord]) -> int:
    """How many files came out equal."""
    with scratch_space("replay") as scratch:
        plan = [PlannedTrial(record.arm, record.repetition, record.seed) for record in chosen]
        experiment, folder = result.manifest.experiment, measured_experiment(result)
        prepared = prepare_trials(Store.default(), experiment, folder, plan, scratch, "tcg")
        trials = [_from_recording(spec, result, prepared) if _recorded(spec) else spec for spec in prepared.trials]
        trials = [_as_predicted(spec, result) for spec in trials]
        records = run_trials(trials)
        failed = [record for record in records if record.status != "ok"]
        if failed:
            raise RunError(f"trial {failed[0].arm}/{failed[0].repetition} failed: {failed[0].reason}")
        folders = tuple(f"{record.path.as_posix()}/" for record in chosen)
        expected = comparable({k: v for k, v in result.manifest.files.items() if k.startswith(folders)})
        difference = first_difference(expected, comparable(hash_tree(scratch)))
        if difference is not None:
            changed = _changed_input(result.manifest, prepared)
            cause = f"input {changed}" if changed else "all inputs are equal"
            raise RunError(f"replay differs: {difference} ({cause})", where=str(result.path))
    return len(expected)


def _is_projects(manifest: Manifest) -> bool:
    """Whether the experiment that the manifest has is the project's, with the values that were chosen for the run."""
    experiment = manifest.experiment
    if experiment.name not in experiment_names():
        return False
    try:
        return load_experiment(EXPERIMENTS / experiment.name, manifest.chosen) == experiment
    except UsageError:
        return False


def _choose(result: ResultSet, trial: str | None) -> list[TrialRecord]:
    arms = result.manifest.experiment.arms
    virtual = [
        record
        for record in result.manifest.trials
        if (record.clock == "virtual" or arms[record.arm].record) and record.status == "ok"
    ]
    if trial is None:
        if not virtual:
            raise UsageError(
                "has no virtual-clock and no recorded trials; only those can be replayed", where=str(result.path)
            )
        return virtual
    if of_arm := [record for record in virtual if record.arm == trial]:
        return of_arm
    for record in result.manifest.trials:
        if trial == f"{record.arm}/{record.repetition}":
            if record in virtual:
                return [record]
            raise UsageError(
                f"trial {trial} ran on the {record.clock} clock, not recorded ({record.status}); it has no replay"
            )
    known = ", ".join(f"{record.arm}/{record.repetition}" for record in virtual[:6])
    raise UsageError(f"no arm and no trial {trial!r} in the set", where=str(result.path), hint=f"for example {known}")


def _as_predicted(spec: TrialSpec, result: ResultSet) -> TrialSpec:
    """With what was predicted of it then, where anything was."""
    path = result.path / "raw" / spec.arm / str(spec.repetition) / PREDICTIONS
    return spec.predicted(path.read_text(encoding="utf-8")) if path.is_file() else spec


def _recorded(spec: TrialSpec) -> bool:
    return spec.machine.record == "record"


def comparable(files: Mapping[str, str]) -> dict[str, str]:
    """Those files (path to hash) that a recorded trial and its replay have in common."""
    left_out = {*HOST_TIMED, RECORDING, RECORDING_KEYS}
    return {name: value for name, value in files.items() if name.rpartition("/")[2] not in left_out}


def _from_recording(spec: TrialSpec, result: ResultSet, prepared: Prepared) -> TrialSpec:
    """The trial that replays what `spec` recorded.

    RunError when log or keys differ from what was written, or when the machine would be another: QEMU checks neither,
    a replay that has left its log waits for ever.
    """
    changed = _changed_input(result.manifest, prepared)
    if changed:
        raise RunError(f"trial {spec.arm}/{spec.repetition} cannot be replayed here: input {changed}")
    inside = f"raw/{spec.arm}/{spec.repetition}"
    for name in (RECORDING, RECORDING_KEYS):
        path = result.path / inside / name
        if not path.is_file() or hash_file(path) != result.manifest.files.get(f"{inside}/{name}"):
            raise RunError("is not what was recorded", where=str(path))
    return replay_of(spec, result.path / inside)


def replay_of(spec: TrialSpec, recorded: Path) -> TrialSpec:
    """The trial that replays what `spec` recorded into the raw folder `recorded`."""
    return spec.model_copy(
        update={
            "machine": spec.machine.model_copy(update={"record": "replay"}),
            "files": BootFiles(kernel=spec.files.kernel, initrds=(*spec.files.initrds[:-1], recorded / RECORDING_KEYS)),
            "recording": recorded / RECORDING,
        }
    )


def _changed_input(manifest: Manifest, prepared: Prepared) -> str | None:
    names = list(prepared.builds)
    there = deterministic_inputs(
        manifest.qemu,
        {name: manifest.kernels[name] for name in names},
        {name: manifest.images[name] for name in names},
    )
    here = deterministic_inputs(
        qemu_version(),
        {name: describe_kernel(build) for name, build in prepared.builds.items()},
        {name: describe_image(build) for name, build in prepared.builds.items()},
    )
    return first_input_difference(there, here)
