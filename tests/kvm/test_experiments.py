# SPDX-License-Identifier: MIT
"""Every experiment's wall-clock arms run under KVM, none fails, and the sets verify outside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from harness.analysis.verification import verify
from harness.experiment.model import load_experiment
from harness.paths import EXPERIMENTS
from harness.sets.resultset import find_result_set
from harness.trial.prepare import needs_tcg

pytestmark = pytest.mark.timeout(3600)

NAMES = sorted(path.parent.name for path in EXPERIMENTS.glob("*/experiment.yaml"))


def arms_for_kvm(name: str) -> list[str]:
    """Arms of the profile quick that KVM can have; of an experiment with none there, all such arms.

    Without those that demand a feature of the CPU which TCG, where KVM is, cannot nest: they would run under TCG's TCG.
    """
    experiment = load_experiment(EXPERIMENTS / name)
    able = [arm for arm, spec in experiment.arms.items() if needs_tcg(spec) is None and "la57" not in spec.kernel]
    quick = [arm for arm in able if experiment.arm_repetitions(arm, "quick") > 0]
    return quick or able


@pytest.mark.parametrize("name", NAMES)
def test_wall_clock_arms_run_under_kvm(inv: Callable, built: Callable, inside: Path, name: str):
    arms = arms_for_kvm(name)
    built(name, arms)
    results = inside / "results"
    ended = inv("run", f"experiment={name}", "--accel", "kvm", "--arms", ",".join(arms), "--results", results)
    print(ended.stdout, ended.stderr)
    # Some experiments ask other arms for every verdict.
    assert ended.status in (0, 1) or "no claim of the paper could be measured" in ended.stderr, "no trial failed"
    result = find_result_set(results, f"{name}/latest")
    manifest = result.manifest
    assert [trial.status for trial in manifest.trials] == ["ok"] * len(manifest.trials)
    assert {arm: manifest.fidelity[arm] for arm in arms} == dict.fromkeys(arms, "kvm")
    assert manifest.accelerator_why == {}
    assert all(trial.pmu.startswith("absent: ") for trial in manifest.trials), "the emulated CPU has none"
    assert verify(results, f"{name}/latest", Console(quiet=True)) == 0
    if name == "irq-hotspot":  # AMD's older CPUs have an idle function of their own
        verdicts = {claim.id: claim.verdict for claim in result.claims}
        assert verdicts["idle-on-top-wall"] == "reproduced"
