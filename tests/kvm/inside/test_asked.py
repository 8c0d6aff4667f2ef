# SPDX-License-Identifier: MIT
"""A run that asks for KVM: arms that can have it have it, the others say why not, in the run and in its set."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from harness.report.page import set_page
from harness.run.pipeline import run
from harness.run.request import RunRequest
from tests.folders import experiment

pytestmark = pytest.mark.timeout(1800)

EXPERIMENT = """\
name: asked
paper: {authors: [Nobody], year: 2024, title: A guest adds numbers}
workloads:
  add: {command: "echo $((20 + 22))"}
arms:
  booted: {kernel: classic, clock: wall, session: mailbox}
  exact: {kernel: classic, clock: virtual}
claims:
  - {id: adds, metric: total/booted, expect: {equals: 42}, because: a sum, paper: numbers add up}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return experiment(tmp_path / "asked", EXPERIMENT)


@pytest.mark.parametrize("asked", ["auto", "kvm"])
def test_each_arm_has_what_it_can_have(folder, tmp_path, capsys, asked):
    options = RunRequest(experiment=str(folder), accel=asked, repetitions=1, results=tmp_path / "results")
    outcome = run(options, Console(width=200))
    assert outcome.exit_code == 0
    manifest = outcome.result.manifest
    assert manifest.accelerator == {"booted": "kvm", "exact": "tcg"}
    assert manifest.fidelity == {"booted": "kvm", "exact": "virtual"}
    assert manifest.accelerator_asked == asked
    why = "the virtual clock needs TCG"
    assert manifest.accelerator_why == ({"exact": why} if asked == "kvm" else {})
    assert (f"--accel kvm: under TCG ran exact ({why})" in capsys.readouterr().out) == (asked == "kvm")
    assert ("exact under TCG" in set_page(outcome.result)) == (asked == "kvm")
    kvm = manifest.host.kvm or {}
    assert "kvm.halt_poll_ns" in kvm
    assert {"kvm_amd.npt", "kvm_intel.ept"} & kvm.keys()
