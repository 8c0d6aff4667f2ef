# SPDX-License-Identifier: MIT
"""A run under KVM, and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from harness.commands.verification import verify
from harness.store.resultset import find_result_set

pytestmark = pytest.mark.timeout(3600)


def test_a_run_under_kvm_gives_a_set_that_verifies_outside(inv: Callable, built: Callable, inside: Path):
    built("irq-hotspot")
    results = inside / "results"
    words = ["run", "experiment=irq-hotspot", "--accel", "kvm", "--arms", "tick-wall", "--repetitions", "1"]
    ended = inv(*words, "--results", results)
    assert ended.status in (0, 1), ended
    result = find_result_set(results, "irq-hotspot/latest")
    assert result.manifest.fidelity == {"tick-wall": "kvm"}
    assert [trial.status for trial in result.manifest.trials] == ["ok"]
    assert ended.stdout.splitlines()[-1] == str(result.path)
    assert verify(results, "irq-hotspot/latest", Console(quiet=True)) == 0
