# SPDX-License-Identifier: MIT
"""How the host's CPUs and KVM are set is read from sysfs; what a host does not tell has a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.sets.provenance import cpu_settings


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


CPU = "sys/devices/system/cpu"
LAPTOP = {
    "proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vme nx\nbugs\t: none hypervisor",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance",
    f"{CPU}/cpu0/cpufreq/scaling_driver": "intel_pstate",
    f"{CPU}/intel_pstate/no_turbo": "1",
    f"{CPU}/cpuidle/current_driver": "intel_idle",
    **{f"{CPU}/cpu0/cpuidle/state{k}/name": f"C{k}" for k in (0, 1, 2, 10)},
    f"{CPU}/cpu0/cpuidle/state1/disable": "1",
    f"{CPU}/cpu0/cpuidle/state2/disable": "0",
    "sys/module/kvm/parameters/halt_poll_ns": "200000",
    "sys/module/kvm_intel/parameters/ept": "Y",
    "sys/module/kvm_intel/parameters/debug": "x" * 65,
    "sys/module/kvmother/parameters/of": "no concern",
    "sys/module/haltpoll/parameters/force": "N",
    "sys/module/snd/parameters/index": "-1",
}


def test_a_host_that_tells_all(tmp_path):
    write(tmp_path, LAPTOP)
    values, reasons = cpu_settings(tmp_path / "sys", tmp_path / "proc")
    assert values == {
        "hypervisor": False,
        "governor": "performance",
        "frequency_driver": "intel_pstate",
        "turbo": False,
        "idle_driver": "intel_idle",
        "idle_states": ["C0", "C2", "C10"],
        "kvm": {"haltpoll.force": "N", "kvm.halt_poll_ns": "200000", "kvm_intel.ept": "Y"},
    }
    assert reasons == {}


def test_a_host_that_tells_nothing(tmp_path):
    write(tmp_path, {"proc/cpuinfo": "flags : fpu hypervisor nx"})
    values, reasons = cpu_settings(tmp_path / "sys", tmp_path / "proc")
    assert values.pop("hypervisor") is True
    assert set(values.values()) == {None}
    assert reasons.keys() == values.keys()
    assert all(reasons.values())


@pytest.mark.parametrize(
    ("file", "text", "turbo"),
    [
        ("cpufreq/boost", "1", True),
        ("cpufreq/boost", "0", False),
        ("intel_pstate/no_turbo", "0", True),
        ("intel_pstate/no_turbo", "1", False),
    ],
)
def test_turbo_has_two_places_and_two_senses(tmp_path, file, text, turbo):
    write(tmp_path, {f"{CPU}/{file}": text})
    assert cpu_settings(tmp_path / "sys", tmp_path / "proc")[0]["turbo"] is turbo
