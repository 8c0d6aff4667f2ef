# SPDX-License-Identifier: MIT
"""Every experiment in its full profile within a budget, against the reference sets; resumed where it was stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from filelock import FileLock, Timeout
from rich.console import Console

from harness.analysis.contained import Contained
from harness.artefacts.store import hash_of, hash_tree, usable
from harness.choices import Profile
from harness.cli.terminal import print_lines
from harness.errors import KreproError, UsageError
from harness.experiment.model import Experiment, find_experiment, load_experiment
from harness.machine.qemu import qemu_version
from harness.paths import RESULTS
from harness.progress import note
from harness.report.checks import claim_cases, digest_case, shifts
from harness.report.junit import Case, Suite, junit_xml
from harness.report.night import BUDGET, Night, load_night, next_night, run_case, summary, write_whole
from harness.report.site import SITE, write_site
from harness.run import pipeline
from harness.run.estimate import estimate_seconds
from harness.run.request import RunRequest
from harness.sets.provenance import repository
from harness.sets.reference import REFERENCES, Reference, load_reference, reference_file
from harness.sets.resultset import ResultSet, find_result_set
from harness.sets.values import Values, load_values
from harness.status import STATUSES
from harness.trial.plan import make_plan

STATE, JUNIT, SUMMARY = "nightly.json", "junit.xml", "summary.md"
#: Of each experiment, the newest sets that get a page in the night's report.
PAGES = 3


@dataclass(frozen=True)
class NightRequest:
    """What a user chose for one night."""

    experiments: tuple[str, ...]
    budget_s: float
    profile: Profile = "full"
    results: Path = RESULTS
    out: Path = RESULTS / "nightly"
    references: Path = REFERENCES
    fresh: bool = False


class BudgetOver(KeyboardInterrupt):
    """The budget ended during a run: it ends as it would by Ctrl-C, guests first, without a half-written set."""


def nightly(request: NightRequest, console: Console) -> int:
    """Run what is left of the night and report; the exit code of the night.

    State and reports in `request.out` are written anew after each experiment, whole or not at all. UsageError before
    anything runs when an experiment cannot be loaded or another nightly uses that folder.
    """
    deadline = time.monotonic() + request.budget_s
    chosen = _load(request)
    with _alone(request.out):
        targets = {name: _with_digest(request, target) for name, target in chosen.items()}
        before = None if request.fresh else load_night(request.out / STATE)
        inputs = _inputs(request, targets)
        night = next_night(before, inputs, list(targets), _now())
        # Trials that another state of the repository measured are none of this night's.
        fresh = before is None or before.inputs != inputs
        if night is before:
            note(f"resuming the night of {night.begun}: {len(night.suites)} done, {len(night.left)} left")
        for name in night.left:
            night = night.model_copy(update={"running": name})
            _save(night, request)
            night = night.with_suite(_one(request, targets[name], deadline, fresh=fresh))
            print_lines(console, _line(night.suites[-1]))
        night = night.model_copy(update={"finished": True})
        _save(night, request)
        if any(suite.result for suite in night.suites):
            write_site(request.results, request.out / SITE, PAGES)
    for case in (case for suite in night.suites for case in suite.cases if case.status in {"news", "failed"}):
        note(f"krepro: {' '.join(case.message.split())}")
    print_lines(console, str(request.out / JUNIT))
    return night.exit_code


def write_report(night: Night, request: NightRequest) -> None:
    """What people and CI servers read of a night."""
    write_whole(request.out / JUNIT, junit_xml(night.suites))
    write_whole(request.out / SUMMARY, summary(night).encode())


def _save(night: Night, request: NightRequest) -> None:
    with usable(request.out):
        write_whole(request.out / STATE, night.model_dump_json(indent=1).encode())
        write_report(night, request)


@dataclass(frozen=True)
class Target:
    """An experiment and what it is compared with."""

    folder: Path
    experiment: Experiment
    values: Values | None
    digest: Reference | None


def _load(request: NightRequest) -> dict[str, Target]:
    """Every experiment with its reference values: a slip in one must not be found after hours."""
    found: dict[str, Target] = {}
    for word in request.experiments:
        folder = find_experiment(word)
        experiment = load_experiment(folder)
        with Contained(folder) as analysis:
            analysis.check(experiment)
        if experiment.name in found:
            raise UsageError(f"experiment {experiment.name} is given twice", where=str(folder))
        found[experiment.name] = Target(folder, experiment, load_values(request.references / experiment.name), None)
    return found


def _with_digest(request: NightRequest, target: Target) -> Target:
    """With the reference digest, which is another for each version of QEMU: so the tools are fetched by now."""
    path = reference_file(request.references / target.experiment.name, qemu_version())
    return replace(target, digest=load_reference(path) if path.is_file() else None)


def _inputs(request: NightRequest, targets: dict[str, Target]) -> dict[str, object]:
    return {
        "profile": request.profile,
        "results": str(request.results),
        "experiments": {name: hash_of(hash_tree(target.folder)) for name, target in targets.items()},
        "repository": repository().model_dump(mode="json"),
    }


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    if out.exists() and not out.is_dir():
        raise UsageError("is no folder", where=str(out))
    with usable(out):
        out.mkdir(parents=True, exist_ok=True)
        guard = FileLock(out / f".{STATE}.lock")
        try:
            guard.acquire(timeout=0)
        except Timeout:
            raise UsageError("another nightly is using this folder", where=str(out), hint="wait, or --out") from None
    try:
        yield
    finally:
        guard.release()


def _one(request: NightRequest, target: Target, deadline: float, *, fresh: bool) -> Suite:
    """Run one experiment unless the budget is over or will not do; raises nothing but an interruption.

    `fresh`: an unfinished run is not gone on with.
    """
    name = target.experiment.name
    begun, started = _now(), time.monotonic()
    left = deadline - started
    estimated = _estimate(request, target.experiment)
    result: ResultSet | None = None
    moved: tuple[str, ...] = ()
    if left <= 0:
        cases = [run_case("untried", f"{BUDGET}used up before this experiment")]
    elif estimated is not None and estimated > left:
        why = f"needs about {estimated / 60:.1f} min judging by its last run, {left / 60:.1f} min are left"
        cases = [run_case("untried", BUDGET + why)]
    else:
        try:
            with _until(left):
                run = RunRequest(str(target.folder), profile=request.profile, results=request.results, fresh=fresh)
                done = pipeline.measure(run)
            result = done.result
            cases = [run_case("ok") if done.problem is None else run_case("failed", f"{name}: {done.problem}")]
            checked, moved = _check(target, done)
            cases += checked
        except BudgetOver:
            cases = [
                run_case("untried", f"{BUDGET}used up after {left / 60:.1f} min of this run, which was interrupted")
            ]
        except KreproError as error:
            cases = [run_case("failed", f"{name}: {error}")]
        except Exception as error:  # the night goes on: the other experiments have nothing to do with it
            cases = [run_case("failed", f"{name}: unexpected {type(error).__name__}: {error}")]
    return Suite(
        experiment=name,
        begun=begun,
        seconds=round(time.monotonic() - started, 3),
        result=str(result.path) if result is not None else None,
        cases=tuple(cases),
        shifts=moved,
    )


def _check(target: Target, done: pipeline.Measured) -> tuple[list[Case], tuple[str, ...]]:
    """The cases of digest and claims, and the figures that moved."""
    cases = [digest_case(done.result, target.digest), *claim_cases(target.experiment.name, done.claims, target.values)]
    if target.values is None:
        return cases, ()
    return cases, shifts(target.values, target.experiment.version, done.claims, done.result.manifest.fidelity)


def _estimate(request: NightRequest, experiment: Experiment) -> float | None:
    try:
        last = find_result_set(request.results, f"{experiment.name}/latest").manifest
    except UsageError:
        return None
    plan = make_plan(experiment, profile=request.profile)
    return estimate_seconds(plan, experiment, last.trials, last.seconds, len(os.sched_getaffinity(0)))


@contextlib.contextmanager
def _until(seconds: float) -> Iterator[None]:
    """Raise BudgetOver in the block when it takes longer than this."""

    def over(_signal: int, _frame: FrameType | None) -> None:
        raise BudgetOver

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _line(suite: Suite) -> str:
    said = ", ".join(f"{suite.count(status)} {status}" for status in STATUSES)
    return f"{suite.experiment}: {said}; {suite.seconds:.0f} s; {suite.result or 'no result set'}"


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
