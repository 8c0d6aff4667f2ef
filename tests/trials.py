# SPDX-License-Identifier: MIT
"""Experiments that are made for a test, and trials of them in guests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.artefacts.store import Store
from harness.experiment.model import Experiment
from harness.run.executor import run_trials
from harness.run.prepared import prepare_trials
from harness.trial.model import TrialRecord
from harness.trial.plan import PlannedTrial


def made_experiment(
    workloads: Mapping[str, Any], arms: Mapping[str, Mapping[str, object]], name: str = "made", **more: Any
) -> Experiment:
    """An experiment about nobody's paper. A workload may be its command alone."""
    commands = {name: {"command": one} if isinstance(one, str) else one for name, one in workloads.items()}
    paper = {"authors": ["x"], "year": 2000, "title": "x"}
    return Experiment.model_validate({"name": name, "paper": paper, "workloads": commands, "arms": arms, **more})


def run_arms(experiment: Experiment, folder: Path, target: Path, seed: int = 5) -> dict[str, TrialRecord]:
    """A good trial of each arm in a guest, with absolute paths and its kernel's symbols. `folder`: the experiment's."""
    plan = [PlannedTrial(arm, 0, seed) for arm in experiment.arms]
    prepared = prepare_trials(Store.default(), experiment, folder, plan, target, "tcg")
    records = run_trials(prepared.trials)
    assert [(record.arm, record.reason) for record in records if record.status != "ok"] == []
    maps = {name: build.kernel.file("System.map") for name, build in prepared.builds.items()}
    return {
        record.arm: record.relocated(target).model_copy(update={"system_map": maps[record.kernel]})
        for record in records
    }


def run_one(workloads: Mapping[str, Any], arm: Mapping[str, object], folder: Path, target: Path, **more: Any) -> Path:
    """The folder of one such trial, of an experiment with one arm."""
    return run_arms(made_experiment(workloads, {"a": arm}, **more), folder, target)["a"].path
