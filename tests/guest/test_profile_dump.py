# SPDX-License-Identifier: MIT
"""util-linux readprofile and our decoder read the same total and buckets out of a real guest's buffer."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiments.irq_hotspot.profile.buffer import decode

from harness.artefacts.store import Store
from harness.experiment.model import load_experiment
from harness.measure.symbols import read_system_map
from harness.paths import EXPERIMENTS
from harness.run.prepared import prepare_trials
from harness.trial.execution import run_trial
from harness.trial.plan import PlannedTrial
from tests.readprofile import assert_same_counters

pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("arm", ["irq-entry", "n2", "n7"])
def test_readprofile_gives_the_same_total_and_buckets(arm: str, tmp_path: Path):
    folder = EXPERIMENTS / "irq-hotspot"
    experiment = load_experiment(folder)
    prepared = prepare_trials(Store.default(), experiment, folder, [PlannedTrial(arm, 0, 11)], tmp_path, "tcg")
    record = run_trial(prepared.trials[0])
    assert record.status == "ok", record.reason
    system_map = prepared.builds["classic"].kernel.file("System.map")
    profile = tmp_path / record.path / experiment.arm_workloads(arm)[0] / "profile"
    raw = profile.read_bytes()
    assert decode(raw, read_system_map(system_map)).total > 50, "a dump with nothing in it proves nothing"
    assert_same_counters(raw, profile, system_map)
