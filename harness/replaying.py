"""Executing virtual-clock trials of a result set again, from the set alone, and comparing bit by bit."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from rich.console import Console

from harness.build.store import Store
from harness.errors import RunError, UsageError
from harness.experiment.plan import PlannedTrial
from harness.experiment.prepare import Prepared, prepare
from harness.experiment.runner import run_trials
from harness.experiment.trial import TrialRecord
from harness.machine.saved import qemu_version
from harness.store.digest import deterministic_files, first_difference
from harness.store.manifest import Manifest, describe_image, describe_kernel
from harness.store.reference import deterministic_inputs, first_input_difference
from harness.store.resultset import EXPERIMENT, ResultSet, find_result_set


def replay(results: Path, text: str, trial: str | None, console: Console) -> int:
    """Replay one trial (`ARM/REPETITION`) of a set, or all virtual ones; 0 when all bits are equal.

    The experiment's sources travel in the set; kernel and image are built or found by its recipes. RunError
    naming the first file that differs, and the input that is another here if one is.
    """
    result = find_result_set(results, text)
    chosen = _choose(result, trial)
    scratch = Path(tempfile.mkdtemp(prefix="krepro-replay-"))
    try:
        plan = [PlannedTrial(record.arm, record.repetition, record.seed) for record in chosen]
        prepared = prepare(Store.default(), result.manifest.experiment, result.path / EXPERIMENT, plan, scratch, "tcg")
        records = run_trials(prepared.trials)
        failed = [record for record in records if record.status != "ok"]
        if failed:
            raise RunError(f"trial {failed[0].arm}/{failed[0].repetition} failed: {failed[0].reason}")
        folders = {f"{record.path.as_posix()}/" for record in chosen}
        expected = {
            name: value
            for name, value in result.manifest.deterministic.items()
            if any(name.startswith(folder) for folder in folders)
        }
        difference = first_difference(expected, deterministic_files(scratch, records))
        if difference is not None:
            changed = _changed_input(result.manifest, prepared)
            cause = f"input {changed}" if changed else "all inputs are equal"
            raise RunError(f"replay differs: {difference} ({cause})", where=str(result.path))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    console.print(f"{len(chosen)} trials replayed, {len(expected)} files: every bit is equal")
    return 0


def _choose(result: ResultSet, trial: str | None) -> list[TrialRecord]:
    virtual = [record for record in result.manifest.trials if record.fidelity == "virtual" and record.status == "ok"]
    if trial is None:
        if not virtual:
            raise UsageError("has no virtual-clock trials; only those can be replayed", where=str(result.path))
        return virtual
    for record in result.manifest.trials:
        if trial == f"{record.arm}/{record.repetition}":
            if record in virtual:
                return [record]
            raise UsageError(f"trial {trial} ran on the {record.clock} clock ({record.status}); it cannot be replayed")
    known = ", ".join(f"{record.arm}/{record.repetition}" for record in virtual[:6])
    raise UsageError(f"no trial {trial!r} in the set", where=str(result.path), hint=f"for example {known}")


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
