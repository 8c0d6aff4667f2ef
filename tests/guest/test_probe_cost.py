# SPDX-License-Identifier: MIT
"""probe-cost in a real guest: a few of its runs, against what must come out whatever the kernel's costs are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.artefacts.store import Store
from harness.experiment.model import Workload, load_experiment
from harness.measure.analysis import Analysis
from harness.paths import EXPERIMENTS
from harness.run.prepared import prepare_trials
from harness.trial.execution import run_trial
from harness.trial.plan import PlannedTrial

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1800)]
FOLDER = EXPERIMENTS / "probe-cost"
RUNS = {
    # With the cost of a switch of tasks: whether one falls into a script's rounds is the kernel's affair.
    "fit": "bare.getppid,bare.upush,kprobe-,syscall.,uprobe.,general.switch",
    "validate": "v03",
    "effects": "nested.,depth.100,overrun.some",
    "hand": "hand.",
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root: Path = tmp_path_factory.mktemp("probe-cost")
    experiment = load_experiment(FOLDER)
    workloads = {name: Workload(command=f"{name} --only {runs}", timeout_s=600) for name, runs in RUNS.items()}
    arm = experiment.arms["virtual"].model_copy(update={"workloads": tuple(workloads)})
    experiment = experiment.model_copy(update={"workloads": workloads, "arms": {"virtual": arm}})
    store = Store.default()
    prepared = prepare_trials(store, experiment, FOLDER, [PlannedTrial("virtual", 0, 11)], root, "tcg")
    record = run_trial(prepared.trials[0])
    assert record.status == "ok", record.reason
    kernel = prepared.builds["modern-6.1"].kernel.file("System.map")
    trial = record.relocated(root).model_copy(update={"system_map": kernel})
    return Analysis(FOLDER).tables([trial])


def cost(tables: Any) -> dict[tuple[str, str], float]:
    stages = tables["stages"][tables["stages"]["point"] == ""]
    found: dict[tuple[str, str], float] = stages.set_index(["provider", "stage"])["value"].to_dict()
    return found


def test_every_run_could_be_set_up(tables):
    failed = tables["runs"][tables["runs"]["problem"].notna()]
    assert failed.empty, failed[["run", "problem"]].to_string()


def test_costs_are_exact_and_of_the_shape_that_the_kernel_gives_them(tables):
    found = cost(tables)
    assert found["syscall", "trap"] == 0
    assert found["kprobe-int3", "trap"] > found["kprobe-optimised", "trap"] > 0, "the optimiser had not done its work"
    assert found["kprobe-int3", "consumer"] == pytest.approx(found["kprobe-ftrace", "consumer"])
    assert found["uprobe", "predicate-false"] < 0 < found["uprobe", "predicate"]
    assert found["kprobe-ftrace", "instruction"] == pytest.approx(1), "an addition of eBPF is one instruction"


def test_a_held_out_script_is_predicted(tables):
    (check,) = tables["validation"].to_dict("records")
    assert abs(check["error_added"]) < 0.03
    assert check["misses"] == 0


def test_lost_hits_have_their_known_answers(tables):
    losses = tables["losses"].set_index("effect")
    for nested in ("int3-ftrace", "ftrace-ftrace", "optimised-ftrace", "int3-int3"):
        lost = losses.loc[f"nested-{nested}"]
        assert lost["misses"] == lost["executed"] > 0
        assert lost["hits"] == 0
    depth, overrun = losses.loc["depth-100"], losses.loc["overrun-some"]
    assert depth["recorded"] == 0.64 * depth["executed"]
    assert overrun["recorded"] + overrun["lost"] == overrun["executed"]


def test_what_a_person_counts_is_told_so(tables):
    counted = tables["by_hand"].set_index(["run", "what"])
    assert ("hand.dd", "bytes") in counted.index
    assert (counted["told"] == counted["by_hand"]).all()
    for opinion in ("second", "exact"):
        asked = counted[counted[opinion].notna()]
        assert (asked[opinion] == asked["by_hand"]).all()
