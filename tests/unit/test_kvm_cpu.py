# SPDX-License-Identifier: MIT
"""A state that was saved under KVM belongs to its host's CPU; one of TCG to none."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.experiment.model import Arm
from harness.kernel.load import load_kernel
from harness.machine import saved
from harness.machine import spec as machine_spec
from harness.machine.kvmcpu import absent_features, kvm_cpu, tsc_khz
from harness.machine.saved import state_inputs
from harness.machine.spec import BootFiles, argv
from harness.trial import prepare
from harness.trial.prepare import KernelBuild, needs_tcg, needs_tcg_here
from tests.unit.test_recording import spec

CPUINFO = """\
processor\t: {number}
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 1
model name\t: AMD EPYC: 7763
microcode\t: 0xa0011d5
cpu MHz\t\t: {mhz}
flags\t\t: fpu {flag}

"""


def of(proc: Path, flag: str, mhz: int = 2445) -> dict:
    text = CPUINFO.format(number=0, flag=flag, mhz=mhz) + CPUINFO.format(number=1, flag="other", mhz=1)
    (proc / "cpuinfo").write_text(text)
    return kvm_cpu(proc, proc / "no-kvm")


def test_the_first_cpu_is_told_and_what_changes_by_itself_is_not(tmp_path):
    cpu = of(tmp_path, "sse4_1")
    assert (cpu["model name"], cpu["flags"], cpu["stepping"]) == ("AMD EPYC: 7763", "fpu sse4_1", None)
    assert cpu == of(tmp_path, "sse4_1", mhz=800)
    assert cpu != of(tmp_path, "avx2")


@pytest.mark.parametrize("device", ["/dev/null", "/nowhere/kvm"])
def test_without_kvm_nothing_is_known_of_its_counter(device):
    assert tsc_khz(Path(device)) is None


@pytest.mark.parametrize(("accelerator", "moves"), [("kvm", True), ("tcg", False)])
def test_a_state_fits_one_kind_of_host_under_kvm(tmp_path, monkeypatch, accelerator, moves):
    for name in ("kernel", "initrd"):
        (tmp_path / name).write_text(name)
    files = BootFiles(kernel=tmp_path / "kernel", initrds=(tmp_path / "initrd",))
    machine = spec(record="off", accelerator=accelerator)
    inputs = []
    for frequency in (2_445_000, 2_445_001):
        monkeypatch.setattr(saved, "kvm_cpu", lambda frequency=frequency: {"tsc_khz": frequency})
        inputs.append(state_inputs(machine, files))
    assert (inputs[0] != inputs[1]) == moves
    assert machine.restorable


def test_a_feature_that_the_host_lacks_is_named(tmp_path):
    of(tmp_path, "sse4_1")
    assert absent_features("qemu64,-hypervisor,+sse4.1,+la57", tmp_path) == ["la57"]
    assert absent_features("qemu64", tmp_path) == []


def test_an_arm_that_needs_such_a_feature_has_no_kvm_and_the_run_says_so(tmp_path, monkeypatch):
    of(tmp_path, "sse4_1")
    monkeypatch.setattr(prepare, "absent_features", lambda cpu: absent_features(cpu, tmp_path))
    arm = Arm.model_validate({"kernel": "modern-6.1-la57", "clock": "wall"})
    assert needs_tcg(arm) is None
    assert needs_tcg_here(arm, load_kernel("modern-6.1-la57")) == "this host's CPU has no la57"
    assert needs_tcg_here(arm, load_kernel("modern-6.1")) is None


def test_every_guest_under_kvm_is_told_the_frequency_of_its_counter(monkeypatch):
    files = BootFiles(kernel=Path("kernel"), initrds=(Path("initrd"),))

    def appended(accelerator: str) -> str:
        machine = spec(record="off", accelerator=accelerator, cmdline=("quiet",))
        command = argv(machine, files, Path("folder"), 3)
        return command[command.index("-append") + 1]

    monkeypatch.setattr(machine_spec, "tsc_khz", lambda: 2_300_000)
    assert appended("kvm") == "tsc_early_khz=2300000 quiet krepro.session=ssh", "a kernel's own word comes later"
    assert appended("tcg") == "quiet krepro.session=ssh"
    monkeypatch.setattr(machine_spec, "tsc_khz", lambda: None)
    assert appended("kvm") == appended("tcg")


@pytest.mark.parametrize(("asked", "told"), [("kvm", True), ("auto", True), ("tcg", False)])
def test_that_a_feature_is_absent_is_told_unless_tcg_was_asked_for(tmp_path, monkeypatch, asked, told):
    of(tmp_path, "sse4_1")
    monkeypatch.setattr(prepare, "absent_features", lambda cpu: absent_features(cpu, tmp_path))
    monkeypatch.setattr(prepare, "boot_files", lambda *_: (None, None))
    monkeypatch.setattr(prepare, "saved_state", lambda *_: None)
    recipe = load_kernel("modern-6.1-la57")
    arm = Arm.model_validate({"kernel": "modern-6.1-la57", "clock": "wall"})
    made = prepare._prepare_arm(Store(tmp_path), "a", arm, KernelBuild(recipe, None, None), asked)
    assert made.machine.accelerator == "tcg"
    assert made.why_tcg == ("this host's CPU has no la57" if told else "")
