# SPDX-License-Identifier: MIT
"""The harness's own times: until a workload starts by each way of getting a guest, of an oracle, of a list of sets."""

from __future__ import annotations

import json
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from harness.artefacts.store import Store
from harness.errors import RunError, UsageError
from harness.experiment.model import Experiment, find_experiment
from harness.machine.accelerator import prove_kvm
from harness.measure.loading import load_module
from harness.measure.statistics import median_estimate
from harness.progress import note, step
from harness.report.terminal import frame_table
from harness.run.prepared import prepare_trials
from harness.scratch import scratch_space
from harness.sets.listing import CLAIMS, MANIFEST, describe
from harness.trial.execution import run_trial
from harness.trial.model import TrialRecord, TrialSpec
from harness.trial.plan import PlannedTrial
from harness.trial.prepare import build_for

KERNEL = "classic"
#: By the session that a trial has, its clock.
CLOCKS = {"mailbox": "virtual", "ssh": "wall"}
#: In an experiment's folder: what it measures on the host, without a guest.
BENCH = "bench.py"


def bench(store: Store, repetitions: int, console: Console) -> int:
    """Median seconds, with intervals, from nothing to the start of a job and to its collected result."""
    rows = []
    with scratch_space("bench") as folder:
        ways = _ways(store, folder)
        with step("measuring", total=repetitions * len(ways)) as bar:
            for name, spec in ways.items():
                samples = []
                for _ in range(repetitions):
                    samples.append(_run(name, spec).seconds)
                    bar.advance()
                for until, part in (("workload start", "ready"), ("result", "trial")):
                    estimate = median_estimate([sample[part] for sample in samples])
                    rows.append((name, until, estimate.value, estimate.low, estimate.high, repetitions))
    frame = pd.DataFrame(rows, columns=["way", "until", "median s", "low", "high", "n"])
    console.print(frame_table("Time to a guest (wall clock, this host)", frame.round(4)))
    console.print(frame_table("Cost of an oracle (CPU time of QEMU, best of all)", oracle_slowdown(store, repetitions)))
    console.print(frame_table("Listing result sets (CPU time, best of all)", listing_beside_json(1000, repetitions)))
    return 0


def _ways(store: Store, folder: Path) -> dict[str, TrialSpec]:
    """A trial that does nothing, by each way of getting its guest that this host has."""
    experiment = _experiment(
        {"nothing": {"command": "true", "timeout_s": 60}},
        {name: {"kernel": KERNEL, "clock": clock} for name, clock in CLOCKS.items()},
    )
    plan = {name: PlannedTrial(name, 0, 1) for name in CLOCKS}
    trials = {
        f"{name}, {CLOCKS[name]} clock": prepare_trials(store, experiment, folder, [one], folder, "tcg").trials[0]
        for name, one in plan.items()
    }
    if (proof := prove_kvm(store, build_for(store, KERNEL, None).kernel)).works:
        (trials["ssh, KVM"],) = prepare_trials(store, experiment, folder, [plan["ssh"]], folder, "kvm").trials
    else:
        note(f"without KVM: {proof.reason}")
    ways = {}
    for name, spec in trials.items():
        if spec.state is not None:
            ways[f"restore, {name}"] = spec
        ways[f"cold boot, {name}"] = spec.model_copy(update={"state": None})
    return ways


def _experiment(workloads: dict[str, Any], arms: dict[str, Any]) -> Experiment:
    paper = {"authors": ["krepro"], "year": 2026, "title": "what the harness costs"}
    return Experiment.model_validate({"name": "bench", "paper": paper, "workloads": workloads, "arms": arms})


def _run(name: str, spec: TrialSpec) -> TrialRecord:
    record = run_trial(spec)
    if record.status != "ok":
        raise RunError(f"{name}: {record.reason}")
    shutil.rmtree(spec.folder)
    return record


def of_experiment(text: str, repetitions: int, console: Console) -> int:
    """The tables of `bench(folder, repetitions)` of an experiment's bench.py; UsageError when it has none."""
    path = find_experiment(text) / BENCH
    if not path.is_file():
        raise UsageError("is not there", where=str(path), hint="this experiment measures nothing on the host")
    with scratch_space("bench") as folder, step(f"measuring {path.parent.name}"):
        tables = load_module(path).bench(folder, repetitions)
    for title, frame in tables.items():
        console.print(frame_table(title, frame))
    return 0


#: 20,000,000 accesses of one process in user code, then 300 processes that keep the kernel busy.
ORACLE_LOAD = "krepro-known pages 7 20000000 alone; for i in $(seq 300); do cat /proc/stat; done"
ORACLES: dict[str, list[str]] = {
    "none": [],
    "functions": ["functions"],
    "functions-sampler": ["functions", "sampler"],
    "pages": ["pages"],
}


def oracle_slowdown(store: Store, repetitions: int) -> pd.DataFrame:
    """Columns oracle, cpu_s (user time of QEMU, the least of `repetitions`) and ratio to the same trial without one.

    Trials are interleaved, and a busy host then tells little else: the least is what the work itself takes.
    """
    experiment = _experiment(
        {"load": {"command": ORACLE_LOAD, "timeout_s": 600}},
        {name: {"kernel": KERNEL, "clock": "virtual", "oracle": modes} for name, modes in ORACLES.items()},
    )
    plan = [PlannedTrial(arm, k, 1) for k in range(repetitions) for arm in experiment.arms]
    best = dict.fromkeys(ORACLES, float("inf"))
    with scratch_space("bench") as folder:
        trials = prepare_trials(store, experiment, folder, plan, folder / "out", "tcg").trials
        with step("measuring oracles", total=len(trials)) as bar:
            for trial in trials:
                before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
                _run(f"oracle {trial.arm}", trial)
                best[trial.arm] = min(best[trial.arm], resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
                bar.advance()
    return pd.DataFrame(
        [(name, round(s, 3), round(s / best["none"], 3)) for name, s in best.items()],
        columns=["oracle", "cpu_s", "ratio"],
    )


#: A trial of a manifest, as large as a real one; a list reads its status.
TRIAL = {"status": "ok", "argv": ["-device", "virtio-serial-pci,id=bulk"] * 50}


def listing_beside_json(sets: int, repetitions: int) -> pd.DataFrame:
    """Columns sets, cpu_s (of what `results` reads of so many sets), json_s (of Python's JSON reader) and their ratio.

    Manifests are as large as those of 26 trials. Both take turns; each is the least of `repetitions`.
    """
    head = {"schema_version": 1, "created": "", "profile": "quick", "experiment": {"name": "bench"}}
    files = {f"raw/arm/{index}/workload/interrupts.before": "0" * 64 for index in range(1000)}
    manifest = json.dumps({**head, "trials": [TRIAL] * 26, "files": files})
    ways: dict[str, Callable[[Path], object]] = {
        "cpu_s": describe,
        "json_s": lambda path: json.loads((path / MANIFEST).read_bytes()),
    }
    best = dict.fromkeys(ways, float("inf"))
    with scratch_space("bench") as folder:
        for index in range(sets):
            (folder / str(index)).mkdir()
            (folder / str(index) / MANIFEST).write_text(manifest)
            (folder / str(index) / CLAIMS).write_text("[]")
        for _ in range(repetitions):
            for name, way in ways.items():
                started = time.process_time()
                for index in range(sets):
                    way(folder / str(index))
                best[name] = min(best[name], time.process_time() - started)
    return pd.DataFrame([{"sets": sets, **best, "ratio": best["cpu_s"] / best["json_s"]}]).round(3)
