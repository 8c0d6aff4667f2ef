# SPDX-License-Identifier: MIT
"""A trial of one kind of arm, and what came of it: a row of the self-test's table."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from harness.artefacts.store import Store, hash_tree
from harness.errors import KreproError, RunError
from harness.experiment.model import Experiment
from harness.host.kinds import Found
from harness.host.kindwork import WORK, Absent, check_work, work_of
from harness.kernel.load import load_kernel
from harness.run.prepared import Prepared, prepare_trials
from harness.run.reexecution import comparable, replay_of
from harness.scratch import scratch_space
from harness.sets.digest import deterministic_files, digest, first_difference
from harness.status import Status
from harness.trial.execution import run_trial
from harness.trial.model import TrialRecord, TrialSpec
from harness.trial.plan import PlannedTrial, trial_seed
from harness.trial.prepare import needs_tcg_here
from harness.yamlfile import Strict

CONSOLE_LINES = 60
SEED = trial_seed(1, 0)
#: What a kernel says when it is lost, the most telling first.
LOST = (r"Kernel panic - not syncing: .*", r"BUG: .*", r"Oops: .*")


class Row(Strict):
    """One thing that was tried: `absent` is what this host cannot have, `failed` what should have worked."""

    group: str
    name: str
    status: Status
    seconds: float
    detail: str
    arms: tuple[str, ...] = ()
    pmu: str | None = None
    console: tuple[str, ...] = ()


class Failed(RunError):
    """A trial that failed, with the last lines of its console."""

    def __init__(self, message: str, console: str) -> None:
        super().__init__(message)
        self.console = console


def attempt(group: str, name: str, action: Callable[[], tuple[str, str | None]], arms: tuple[str, ...] = ()) -> Row:
    """The row of `action`, which gives its detail and what it learned of the PMU; whatever it raises costs no other."""
    started = time.monotonic()

    def row(status: Status, detail: str, pmu: str | None = None, console: str = "") -> Row:
        seconds = round(time.monotonic() - started, 1)
        lines = tuple(line.rstrip() for line in console.splitlines()[-CONSOLE_LINES:])
        return Row(
            group=group,
            name=name,
            status=status,
            seconds=seconds,
            detail=" ".join(detail.split()),
            arms=arms,
            pmu=pmu,
            console=lines if status == "failed" else (),
        )

    try:
        return row("ok", *action())
    except Absent as error:
        return row("absent", error.message)
    except Failed as error:
        return row("failed", error.message, console=error.console)
    except KreproError as error:
        return row("failed", error.message)
    except Exception as error:  # a bug of krepro on this host is what the kit is there to tell
        return row("failed", f"unexpected {type(error).__name__}: {error} (a bug of krepro)")


def try_kind(store: Store, found: Found) -> tuple[str, str | None]:
    """Run the kit's work on an arm of this kind: its detail, and what the guest's known-work check said of a PMU.

    Under the virtual clock it runs twice, and every bit must be equal; a recorded one is replayed. Raises Absent and
    Failed, and what building raises.
    """
    with scratch_space("selftest") as folder:
        spec, prepared = _prepared(store, found, folder)
        record = run_one(spec, folder)
        build = prepared.builds[found.arm.kernel]
        features = build.recipe.spec.hardware.cpu.split(",")[1:]
        try:
            remarks = check_work(found.kind, features, record.path, build.kernel.file("System.map"))
        except Absent:
            raise
        except KreproError as error:
            raise Failed(error.message, _console(record.path)) from error
        told = ["restored" if spec.state else "booted", f"ready in {record.seconds['ready']:.1f} s"]
        if found.kind.clock == "virtual":
            told.append(_same_again(spec, folder, record))
        if found.kind.record:
            told.append(_replayed(spec, folder, record))
        return ", ".join([*told, *remarks]), record.pmu if found.kind.accelerator == "kvm" else None


def kind_experiment(found: Found) -> tuple[str, Experiment]:
    """The arm's name, and its experiment with this arm alone and the kit's work in place of its own."""
    name = found.arms[0].rpartition("/")[2] if found.arms else "recorded"
    arm = found.arm.model_copy(update={"workloads": [WORK], "params": {}})
    changes = {"arms": {name: arm}, "workloads": {WORK: work_of(found.kind)}, "collect": [], "claims": []}
    return name, found.experiment.model_copy(update=changes)


def _prepared(store: Store, found: Found, folder: Path) -> tuple[TrialSpec, Prepared]:
    name, experiment = kind_experiment(found)
    why = needs_tcg_here(found.arm, load_kernel(found.arm.kernel, beside=found.folder))
    if found.kind.accelerator == "kvm" and why:
        raise Absent(why)
    plan = [PlannedTrial(name, 0, SEED)]
    begun = time.time()
    try:
        prepared = prepare_trials(store, experiment, found.folder, plan, folder / "first", found.kind.accelerator)
    except KreproError as error:
        # What a guest printed that did not come up to be saved (harness.machine.saved).
        left = store.root / "logs" / f"boot-{name}"
        console = _console(left) if left.is_dir() and left.stat().st_mtime >= begun - 1 else ""
        raise Failed(lost_line(console) or error.message, console) from error
    return prepared.trials[0], prepared


def run_one(spec: TrialSpec, folder: Path) -> TrialRecord:
    """Run a trial below `folder`; its record with absolute paths. Failed with what its console tells."""
    record = run_trial(spec)
    if record.status != "ok":
        console = _console(spec.folder)
        line = lost_line(console)
        raise Failed(line or str(record.reason), console)
    return record.model_copy(update={"path": spec.folder})


def lost_line(console: str) -> str | None:
    """The line in which a kernel says why it is lost; None when it says nothing of the kind."""
    for pattern in LOST:
        if match := re.search(pattern, console):
            return match[0].strip()
    return None


def _same_again(spec: TrialSpec, folder: Path, first: TrialRecord) -> str:
    again = run_one(spec.model_copy(update={"folder": folder / "second" / spec.arm / "0"}), folder)
    one, other = _bits(first), _bits(again)
    difference = first_difference(one, other)
    if difference is not None:
        raise Failed(f"two runs differ: {difference}", _console(again.path))
    return f"two runs equal, digest {str(digest(one))[:12]}"


def _bits(record: TrialRecord) -> dict[str, str]:
    return deterministic_files(record.path, [record.model_copy(update={"path": Path()})])


def _replayed(spec: TrialSpec, folder: Path, recorded: TrialRecord) -> str:
    again = replay_of(spec, recorded.path).model_copy(update={"folder": folder / "second" / spec.arm / "0"})
    replayed = run_one(again, folder)
    difference = first_difference(comparable(hash_tree(recorded.path)), comparable(hash_tree(replayed.path)))
    if difference is not None:
        raise Failed(f"the replay differs: {difference}", _console(replayed.path))
    return "replayed, every bit equal"


def _console(trial: Path) -> str:
    try:
        return (trial / "console.log").read_text(errors="replace")
    except OSError:
        return ""
