# SPDX-License-Identifier: MIT
"""Small finished result sets, made without a guest: raw files as trials would leave them, analysed as a run does it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.analysis.analyse import analyse
from harness.analysis.here import Here
from harness.artefacts.store import hash_tree
from harness.experiment.model import Experiment, load_experiment
from harness.measure.analysis import Analysis
from harness.sets.digest import deterministic_files, digest
from harness.sets.manifest import ImageManifest, KernelManifest, Manifest
from harness.sets.provenance import Host, Repository, package_versions
from harness.sets.resultset import EXPERIMENT, ResultSet, copy_experiment, write_result_set
from harness.trial.model import TrialRecord
from tests.folders import experiment
from tests.records import host_sched, trial_record

YAML = """\
name: waits
paper: {authors: [Nobody], year: 2024, title: Waiting}
workloads:
  wait: {command: "sleep 1"}
arms:
  short: {kernel: classic, clock: virtual}
  long: {kernel: classic, clock: virtual}
  wall: {kernel: classic, clock: wall}
claims:
  - {id: short-enough, metric: wait_ms/short, expect: {at_most: 200}, because: the paper's}
  - {id: counted, metric: waits/short, expect: {equals: 1}, because: one each}
"""
ANALYSIS = '''\
"""Each trial's only raw figure is its waiting time in ms."""

import pandas as pd
from matplotlib.figure import Figure

from harness.measure.declared import ARM, TRIAL, Metric, Table, fact, number, string
from harness.measure.raw import read_text
from harness.measure.rows import MetricRows, TableRows

TABLES = [Table("waits", "one trial", (ARM, TRIAL, number("ms", "ms", "the wait"), string("problem", "none")))]
METRICS = [
    fact("wait_ms", "ms", "lower", "the wait"),
    fact("waits", "1", "neither", "whether it waited"),
    fact("misses", "1", "lower", "what was missed"),
]


def tables(trials):
    rows = TableRows(TABLES)
    for trial in trials:
        with rows.part(trial, "wait"):
            rows.put("waits", {"ms": float(read_text(trial.path / "wait"))}, trial)
    return rows.frames()


def metrics(tables):
    rows = MetricRows(METRICS, tables["problems"])
    for row in tables["waits"].itertuples():
        rows.put(row.arm, row.trial, "wait_ms", row.ms)
        rows.put(row.arm, row.trial, "waits", 1.0)
        if row.arm == "long":
            rows.put(row.arm, row.trial, "misses", None, reason="not counted in this arm")
    return rows.frame()


def summary(tables):
    return {"Median wait": tables["waits"].groupby("arm", as_index=False)["ms"].median()}


def figures(tables):
    figure = Figure(figsize=(3, 2))
    axes = figure.subplots()
    axes.plot(tables["waits"]["ms"])
    axes.set_ylabel("wait [ms]")
    return {"waits": figure}
'''
#: The same, with a wait that depends on how the host ran the guest.
TIMED = ANALYSIS.replace(
    'fact("wait_ms", "ms", "lower", "the wait")', 'Metric("wait_ms", "ms", "lower", "the wait", timing=True)'
)
#: The same, without a word of that.
UNSAID = ANALYSIS.replace("    fact(", "    Metric(")
KERNEL = KernelManifest(
    key="k", arch="i386", release="6.1", build_id="b1", source={"archive": {"linux.tar": "1"}}, patches=[],
    fragments=[], config_sha256="2", compiler={"gcc": "gcc 12"}, bzimage_sha256="3",
)  # fmt: skip
IMAGE = ImageManifest(key="i", sha256="4", packages={"busybox": "1"})


REPOSITORY = Repository(commit="c" * 40, dirty=False, diff_sha256=None, absent={"diff_sha256": "clean"})
HOST = Host(
    cpu="a CPU",
    cpus=1,
    hypervisor=False,
    governor=None,
    frequency_driver="a driver",
    turbo=True,
    idle_driver="another",
    idle_states=["POLL", "C1"],
    kvm={"kvm.halt_poll_ns": "200000"},
    kernel="x",
    memory_mib=1,
    load_before=1e-7,
    load_after=1e-7,
    absent={"governor": "none"},
)
#: Names of sets, one a day.
DAYS = [f"2026010{day}T000000.00Z-0000000{day}" for day in range(1, 7)]


def experiment_folder(parent: Path, yaml: str = YAML, analysis: str = ANALYSIS) -> Path:
    """The folder of the experiment `waits`."""
    folder = experiment(parent / "waits", yaml, analysis)
    (folder / "README.md").write_text("Waits.\n")
    return folder


def manifest_of(
    model: Experiment, trials: Sequence[TrialRecord], files: Mapping[str, str], /, **fields: Any
) -> Manifest:
    """What a set says of these trials; `files`: those under the digest. `fields` replace the manifest's."""
    kernels = sorted({"classic", *(trial.kernel for trial in trials)})
    told: dict[str, Any] = {
        "id": "", "created": "2024-01-01T00:00:00Z", "experiment": model, "experiment_files": {},
        "command_line": ["invoke"], "profile": "quick", "seed": 1, "repository": REPOSITORY,
        "kernels": dict.fromkeys(kernels, KERNEL), "images": dict.fromkeys(kernels, IMAGE), "qemu": "QEMU 7.2",
        "accelerator": dict.fromkeys(sorted({trial.arm for trial in trials}), "tcg"), "accelerator_asked": "auto",
        "accelerator_why": {}, "fidelity": {trial.arm: trial.fidelity for trial in trials}, "host": HOST,
        "packages": package_versions(), "seconds": {"harness": 1.0, "guests": 2.5}, "trials": list(trials),
        "digest": digest(files), "absent": {} if files else {"digest": "no virtual-clock trials"},
        "deterministic": files, "files": {},
    }  # fmt: skip
    return Manifest(**(told | fields))


def write_set(
    results: Path,
    folder: Path,
    values: Mapping[str, Sequence[float | None]],
    *,
    disturbed: Collection[tuple[str, int]] = (),
    **fields: Any,
) -> ResultSet:
    """A finished set: per arm one value (ms) per trial, None for a failed one; `fields` replace the manifest's.

    `disturbed`: arm and repetition of trials on the wall clock whose guest the host kept waiting; where there are any,
    the others have a record that it did not. Without a record all are disturbed.
    """
    experiment = load_experiment(folder, fields.get("chosen"))
    with write_result_set(results, experiment.name) as writer:
        copy_experiment(folder, writer.path)
        records = []
        for arm, numbers in values.items():
            for repetition, value in enumerate(numbers):
                model = experiment.arms[arm]
                trial = record(arm, repetition, model.clock, failed=value is None).model_copy(
                    update={
                        "kernel": model.kernel,
                        "system_map": Path("kernels", model.kernel, "System.map"),
                        "group": model.group,
                        "dimensions": model.dimensions,
                    }
                )
                records.append(trial)
                raw = writer.path / trial.path
                raw.mkdir(parents=True)
                (raw / "wait").write_text("" if value is None else repr(value))
                if disturbed and trial.clock == "wall":
                    waited = 1000 if (arm, repetition) in disturbed else 0
                    host_sched(raw, waited)
                (raw / "qmp-events.json").write_text(os.urandom(8).hex())
        if any(trial.status == "ok" for trial in records):
            ended = [trial.relocated(writer.path) for trial in records]
            analyse(Here(Analysis(folder)), experiment.claims, ended, writer)
        else:
            writer.write_claims([])
        files = deterministic_files(writer.path, [trial for trial in records if trial.status == "ok"])
        about = {"experiment_files": hash_tree(writer.path / EXPERIMENT), "command_line": ["invoke", "\x1b[31mred\x7f"]}
        return writer.finish(manifest_of(experiment, records, files, **{**about, **fields}))


def write_days(parent: Path) -> Path:
    """Copies of one set under the names DAYS, with `latest` the newest; the folder that holds them."""
    made = write_set(parent / "results", experiment_folder(parent), {"short": [100.0]})
    home = made.path.parent
    for name in DAYS:
        shutil.copytree(made.path, home / name)
    shutil.rmtree(made.path)
    (home / "latest").unlink()
    (home / "latest").symlink_to(DAYS[-1])
    return home


def record(arm: str, repetition: int, clock: str, *, failed: bool = False) -> TrialRecord:
    """One trial's record, as the runner would leave it."""
    told = {"status": "failed", "reason": "lost"} if failed else {}
    session = "mailbox" if clock == "virtual" else "ssh"
    return trial_record(arm, repetition, clock, seed=repetition, session=session, workloads=("wait",), **told)
