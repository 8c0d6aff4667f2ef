# SPDX-License-Identifier: MIT
"""KVM that an arm cannot have: refused where no arm can, told per arm where some can."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.errors import UsageError
from harness.experiment.model import Arm
from harness.report.page import set_page
from harness.report.summary import accelerator_lines, closing_lines
from harness.run.prepared import prepare_trials
from harness.trial.plan import make_plan
from harness.trial.prepare import needs_tcg
from tests.small_sets import small_experiment, small_set
from tests.trials import made_experiment

VIRTUAL = {"clock": "virtual"}
ORACLE = {"clock": "wall", "session": "mailbox", "oracle": ["functions"]}
RECORDED = {"clock": "wall", "record": True}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (VIRTUAL, "the virtual clock needs TCG"),
        (ORACLE, "an oracle needs TCG"),
        (RECORDED, "a recording needs TCG"),
        ({"clock": "wall"}, None),
        ({"clock": "wall", "session": "mailbox", "devices": ["counters"]}, None),
    ],
)
def test_what_keeps_an_arm_from_kvm(fields, reason):
    assert needs_tcg(Arm.model_validate({"kernel": "classic", **fields})) == reason


def prepare(root: Path, arms: dict[str, dict[str, object]]) -> None:
    experiment = made_experiment({"w": "true"}, {name: {"kernel": "classic", **own} for name, own in arms.items()})
    prepare_trials(Store(root / "store"), experiment, root, make_plan(experiment), root / "out", "kvm")


def test_a_run_in_which_no_arm_can_have_it_is_refused_before_anything_is_built(tmp_path):
    why = "no arm of this run can have KVM: an oracle needs TCG, the virtual clock needs TCG"
    with pytest.raises(UsageError, match=f"^--accel kvm: {why} \\(use --accel auto\\)$"):
        prepare(tmp_path, {"a": VIRTUAL, "b": ORACLE})
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_what_ran_under_tcg_though_kvm_was_asked_for_is_one_line_of_the_run(tmp_path):
    why = {
        "left": "the virtual clock needs TCG",
        "exact": "an oracle needs TCG",
        "other": "the virtual clock needs TCG",
    }
    folder = small_experiment(tmp_path / "small")
    manifest = small_set(tmp_path, folder, accelerator_asked="kvm", accelerator_why=why).manifest
    told = "--accel kvm: under TCG ran left, other (the virtual clock needs TCG); exact (an oracle needs TCG)"
    assert accelerator_lines(manifest) == [told]
    assert accelerator_lines(manifest.model_copy(update={"accelerator_why": {}})) == []


def test_that_auto_did_not_take_kvm_is_for_those_who_ask_for_all(tmp_path):
    folder = small_experiment(tmp_path / "small")
    made = small_set(tmp_path, folder, accelerator_asked="auto", accelerator_why={"right": "there is no /dev/kvm"})
    assert accelerator_lines(made.manifest) == []
    told = "--accel auto: under TCG ran right (there is no /dev/kvm)"
    assert accelerator_lines(made.manifest, verbose=True) == [told]
    assert told in closing_lines(made, [])
    page = set_page(made)
    assert "right under TCG" in page
    assert "there is no /dev/kvm" in page
