# SPDX-License-Identifier: MIT
"""`./inv calibrate`: what the stages of a trace cost on this host, or on a kernel in a guest, as a file for `predict`.

An experiment that calibrates has two arms: GUEST, which runs on any kernel, and HOST, whose workloads are executed on
this host as they are in a guest. Its documents are then those of a run.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.analysis.contained import Contained
from harness.artefacts.store import Store
from harness.cli.terminal import print_lines
from harness.errors import EXIT_OK, KreproError, RunError, UsageError
from harness.experiment.model import Arm, Experiment, experiment_names, find_experiment, load_experiment
from harness.guest.job import render, variable
from harness.image.programs import build_programs, program_sources
from harness.kernel.load import kernel_word
from harness.machine.tail import read_tail
from harness.paths import CODE
from harness.program.bpftrace import among_trace_points
from harness.program.onhost import CPU, EXIT_IN_USE, EXIT_TIMEOUT, STATE
from harness.progress import note, step
from harness.run.executor import run_trials
from harness.run.prepared import prepare_trials
from harness.scratch import scratch_space
from harness.sets.provenance import cpu_model
from harness.sets.resultset import DOCUMENTS, Writer
from harness.trial.model import TrialRecord
from harness.trial.plan import PlannedTrial, trial_seed

#: Names of the arms.
GUEST, HOST = "calibrate", "calibrate-host"
UNDO = "calibrate undo"
#: What a process has that is asked to clean up.
END_S = 60.0


@dataclass(frozen=True)
class CalibrationRequest:
    """What a command was asked for; fields as its options. Without a kernel this host is meant."""

    kernel: str | None = None
    repetitions: int | None = None
    seed: int = 1
    out: Path | None = None


def calibrate(request: CalibrationRequest, console: Console) -> int:
    """Measure, and write the file. UsageError where this host cannot be measured, before anything is made."""
    kernel = platform.release() if request.kernel is None else kernel_word(request.kernel, Path.cwd())
    target = request.out or Path(f"model-{Path(kernel).name.replace(':', '-')}.json").absolute()
    if target.exists():
        raise UsageError("is there already", where=str(target), hint="remove it, or choose another with --out")
    if request.kernel is None:
        _check_host()
    folder, experiment = _calibrating()
    seeds = [trial_seed(request.seed, k) for k in range(request.repetitions or (2 if request.kernel is None else 1))]
    measured = _host if request.kernel is None else _guest
    with scratch_space("calibrate") as scratch:
        records = measured(scratch, folder, experiment, kernel, seeds)
        document = _document(scratch, folder, records)
    document["calibrated"] = {
        "machine": cpu_model() if request.kernel is None else "QEMU",
        "cpus": os.cpu_count() if request.kernel is None else 1,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "passes": len(records),
    }
    target.write_text(json.dumps(document, indent=1) + "\n")
    print_lines(console, *_told(document), target)
    return EXIT_OK


def undo(console: Console) -> int:
    """Take away what a calibration has left on this host that was killed with all its processes."""
    _check_root(UNDO)
    done = _onhost("undo", out=subprocess.PIPE).communicate(timeout=END_S)[0].decode().strip()
    print_lines(console, done or "nothing is left of a calibration")
    return EXIT_OK


def _calibrating() -> tuple[Path, Experiment]:
    """The experiment that has the arms."""
    for name in experiment_names():
        folder = find_experiment(name)
        experiment = load_experiment(folder)
        if {GUEST, HOST} <= set(experiment.arms):
            return folder, experiment
    raise UsageError(f"no experiment has arms {GUEST} and {HOST}")


def _told(document: dict[str, Any]) -> Iterator[str]:
    providers = document.get("providers", {})
    yield f"measured: {', '.join(providers)}; in {document.get('unit')}"
    if accuracy := document.get("accuracy"):
        yield (
            f"error of what it predicts, on {accuracy['scripts']} scripts drawn by a seed: "
            f"{accuracy['added_median']:.1%} median, {accuracy['added_worst']:.1%} worst"
        )
    else:
        yield "no script could be predicted: its error is not known"


def _document(scratch: Path, folder: Path, records: Sequence[TrialRecord]) -> dict[str, Any]:
    """The model that the experiment makes of these trials, as it does in a run."""
    made = scratch / "made"
    made.mkdir()
    with Contained(folder, scratch) as analysis:
        writer = Writer(scratch, made)
        analysis.measure(records, [], writer)
        failures = analysis.show([], writer)
    found = sorted((made / DOCUMENTS).glob("*.json"))
    if not found:
        raise failures[0] if failures else RunError("nothing could be measured", hint=_why(scratch))
    return dict(json.loads(found[0].read_bytes()))


def _why(scratch: Path) -> str | None:
    """The first run's own reason."""
    for file in sorted(scratch.glob("raw/*/*/*/stdout")):
        for line in file.read_text().splitlines():
            if problem := json.loads(line).get("problem"):
                return str(problem)
    return None


# -- in a guest --------------------------------------------------------------------------------------------------


def _guest(scratch: Path, folder: Path, experiment: Experiment, kernel: str, seeds: Sequence[int]) -> list[TrialRecord]:
    only = experiment.model_copy(update={"arms": {GUEST: experiment.arms[GUEST].on(kernel)}})
    plan = [PlannedTrial(GUEST, k, seed) for k, seed in enumerate(seeds)]
    prepared = prepare_trials(Store.default(), only, folder, plan, scratch, "auto")
    records = run_trials(prepared.trials)
    failed = [record for record in records if record.status == "failed"]
    if failed:
        raise RunError(f"the guest's trial failed: {failed[0].reason}")
    return [record.relocated(scratch) for record in records]


# -- on this host ------------------------------------------------------------------------------------------------


def _check_root(what: str) -> None:
    if os.geteuid():
        raise UsageError(f"{what} is for root", hint="run it as root, or calibrate a guest with --kernel")


def _check_host() -> None:
    _check_root("calibrating this host")
    if platform.machine() != "x86_64":
        raise UsageError(f"this host is {platform.machine()}, and what measures is for x86_64")
    if CPU not in os.sched_getaffinity(0):
        raise UsageError(f"this process may not run on CPU {CPU}, where probes are counted")
    seen = among_trace_points(["test", "-d", "/sys/kernel/tracing/events"])
    if subprocess.run(seen, capture_output=True, check=False).returncode:
        raise UsageError("this host's kernel shows no trace points: it has none, or this is a container")
    if STATE.exists():
        raise UsageError("another calibration runs, or was killed", where=str(STATE), hint=f"./inv {UNDO}")


def _host(scratch: Path, folder: Path, experiment: Experiment, kernel: str, seeds: Sequence[int]) -> list[TrialRecord]:
    programs = scratch / "bin"
    build_programs("x86_64", program_sources([folder / "guest"]), programs, scratch / "build.log")
    records = []
    with step("measuring this host", total=len(seeds)) as bar:
        for repetition, seed in enumerate(seeds):
            records.append(_pass(scratch, programs, experiment, kernel, PlannedTrial(HOST, repetition, seed)))
            bar.advance()
    return records


def _pass(scratch: Path, programs: Path, experiment: Experiment, kernel: str, planned: PlannedTrial) -> TrialRecord:
    """One pass of all its workloads."""
    arm, raw = experiment.arms[HOST], scratch / "raw" / HOST / str(planned.repetition)
    names = arm.workloads or list(experiment.workloads)
    begun = time.monotonic()
    for name in names:
        workload = experiment.workloads[name]
        out = raw / name
        out.mkdir(parents=True)
        _execute(out, workload.command, workload.timeout_s, _environment(arm, programs, name, planned.seed))
    return TrialRecord(
        arm=HOST, repetition=planned.repetition, seed=planned.seed, status="ok", kernel=kernel, clock="wall",
        session="none", fidelity="host", params=arm.params, cmdline={}, workloads=tuple(names),
        seconds={"trial": time.monotonic() - begun}, pmu="absent: nobody has looked", path=raw,
        system_map=Path("/dev/null"),
    )  # fmt: skip


def _environment(arm: Arm, programs: Path, workload: str, seed: int) -> dict[str, str]:
    """As a guest's job has it."""
    return {
        **{variable(name): str(render(value)) for name, value in arm.params.items()},
        "PATH": f"{programs}:{os.environ.get('PATH', os.defpath)}",
        "KREPRO_SEED": str(seed),
        "KREPRO_WORKLOAD": workload,
        "KREPRO_OUT": "/run/krepro/out",
    }


def _execute(out: Path, command: str, timeout_s: float, environment: dict[str, str]) -> None:
    """RunError where it does not end well. Whatever happens, the process below this one cleans up."""
    with (out / "stdout").open("wb") as stdout, (out / "stderr").open("wb") as stderr:
        process = _onhost("run", str(timeout_s), "sh", "-c", command, out=stdout, errors=stderr, also=environment)
        try:
            status = process.wait()
        finally:
            assert process.stdin is not None
            process.stdin.close()  # it ends, cleaning up
            _ended(process)
    if status == EXIT_IN_USE:
        raise UsageError("another calibration runs, or was killed", where=str(STATE), hint=f"./inv {UNDO}")
    if status:
        said = read_tail(out / "stderr").strip().splitlines()
        why = f"took longer than {timeout_s:.0f} s" if status == EXIT_TIMEOUT else f"ended with exit status {status}"
        raise RunError(f"{shlex.split(command)[0]} {why}", hint=said[-1][:200] if said else None)


def _ended(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise RunError(f"what cleans up does not end: ./inv {UNDO}") from None
    if process.returncode < 0 and STATE.exists():  # it was killed, and what ran below it with it
        note("what cleans up was killed: it is done now")
        _onhost("undo", out=subprocess.PIPE).communicate(timeout=END_S)


def _onhost(*words: str, out: Any, errors: Any = None, also: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    argv = among_trace_points([sys.executable, "-m", "harness.program.onhost", *words])
    try:
        return subprocess.Popen(
            argv, cwd=CODE, env={**os.environ, **(also or {})}, stdin=subprocess.PIPE, stdout=out, stderr=errors,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise KreproError(f"{argv[0]}: {error.strerror}") from error
