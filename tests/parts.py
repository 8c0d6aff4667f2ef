# SPDX-License-Identifier: MIT
"""Sets of parts of one plan, made without a guest: as several machines would have run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.analysis.analyse import analyse
from harness.analysis.here import Here
from harness.artefacts.store import hash_tree
from harness.experiment.model import load_experiment
from harness.measure.analysis import Analysis
from harness.run.union import planned
from harness.sets.digest import deterministic_files
from harness.sets.resultset import EXPERIMENT, ResultSet, copy_experiment, write_result_set
from harness.trial.part import parse_part
from harness.trial.plan import PlannedTrial, make_plan
from tests.records import host_sched
from tests.result_sets import manifest_of, record

Wait = Callable[[PlannedTrial], float | None]


def milliseconds(trial: PlannedTrial) -> float:
    """What a trial under the virtual clock measures, wherever it runs."""
    return 100.0 + trial.seed % 50


def write_part(
    results: Path,
    folder: Path,
    *,
    repetitions: str | int | None = None,
    shard: str | None = None,
    seed: int = 1,
    wait: Wait = milliseconds,
    fields: Mapping[str, Any] | None = None,
) -> ResultSet:
    """The set that `run` with these options leaves; `wait`: what a trial measures, None: it fails."""
    experiment = load_experiment(folder)
    part = parse_part(repetitions, shard)
    whole = make_plan(experiment, repetitions=part.count, seed=seed)
    plan, described = part.of(whole), planned(experiment, whole, part)
    with write_result_set(results, experiment.name) as writer:
        copy_experiment(folder, writer.path)
        (writer.path / "kernels/classic").mkdir(parents=True)
        (writer.path / "kernels/classic/System.map").write_text("00 T start\n")
        records = []
        for trial in plan:
            value = wait(trial)
            clock = experiment.arms[trial.arm].clock
            made = record(trial.arm, trial.repetition, clock, failed=value is None)
            records.append(made.model_copy(update={"seed": trial.seed}))
            raw = writer.path / made.path
            raw.mkdir(parents=True)
            (raw / "wait").write_text(repr(value))
            (raw / "qmp-events.json").write_text(f"{results} {part.text}")
            if clock == "wall":
                host_sched(raw, 0)
        ended = [made.relocated(writer.path) for made in records]
        good = [made for made in ended if made.status == "ok"]
        analyse(Here(Analysis(folder)), experiment.claims, ended, writer, part=described.part_of(len(plan)))
        files = deterministic_files(writer.path, good)
        told: dict[str, Any] = {
            "experiment_files": hash_tree(writer.path / EXPERIMENT), "seed": seed, "plan": described,
            "command_line": ["inv", "run", "waits", *part.text.split()],
            "seconds": {"harness": 1.0, "build": 0.5, "guests": 2.5},
        }  # fmt: skip
        manifest = manifest_of(experiment, records, files, **{**told, **(fields or {})})
        return writer.finish(manifest, latest=not manifest.missing)
