# SPDX-License-Identifier: MIT
"""How the host's CPUs and its KVM are set: what decides how long a thing takes in a guest, as its kernel tells it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

#: Whose parameters are kept: KVM with its parts, and the idling of a host that is itself a guest.
MODULES = re.compile(r"kvm(_\w+)?|haltpoll")
#: Of a parameter's value: a list for debugging tells nothing of a measurement.
MOST_VALUE = 64


def cpu_settings(sys: Path = Path("/sys"), proc: Path = Path("/proc")) -> tuple[dict[str, Any], dict[str, str]]:
    """Fields of `Host` and, of those that are null, why: frequency, turbo, idle states (of CPU 0), and KVM's."""
    cpu = sys / "devices/system/cpu"
    values: dict[str, Any] = {
        "hypervisor": re.search(r"^flags\b.*\bhypervisor\b", _text(proc / "cpuinfo") or "", re.MULTILINE) is not None,
        "governor": _text(cpu / "cpu0/cpufreq/scaling_governor"),
        "frequency_driver": _text(cpu / "cpu0/cpufreq/scaling_driver"),
        "turbo": _turbo(cpu),
        "idle_driver": _text(cpu / "cpuidle/current_driver"),
        "idle_states": _idle_states(cpu / "cpu0/cpuidle"),
        "kvm": _parameters(sys / "module"),
    }
    reasons = {
        "governor": f"no {cpu}/cpu0/cpufreq/scaling_governor",
        "frequency_driver": f"no {cpu}/cpu0/cpufreq/scaling_driver",
        "turbo": f"neither {cpu}/intel_pstate/no_turbo nor {cpu}/cpufreq/boost",
        "idle_driver": f"no {cpu}/cpuidle/current_driver",
        "idle_states": f"no {cpu}/cpu0/cpuidle",
        "kvm": f"no parameters of kvm in {sys}/module",
    }
    return values, {name: why for name, why in reasons.items() if values[name] is None}


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def _turbo(cpu: Path) -> bool | None:
    off, on = _text(cpu / "intel_pstate/no_turbo"), _text(cpu / "cpufreq/boost")
    if off is not None:
        return off == "0"
    return None if on is None else on == "1"


def _idle_states(folder: Path) -> list[str] | None:
    """Names of the states that are not disabled, the shallowest first."""
    states = sorted(folder.glob("state[0-9]*"), key=lambda state: int(state.name.removeprefix("state")))
    if not states:
        return None
    return [_text(state / "name") or state.name for state in states if _text(state / "disable") in (None, "0")]


def _parameters(modules: Path) -> dict[str, str] | None:
    """MODULE.PARAMETER to value."""
    files = [file for file in sorted(modules.glob("*/parameters/*")) if MODULES.fullmatch(file.parents[1].name)]
    told = {f"{file.parents[1].name}.{file.name}": _text(file) for file in files}
    return {name: text for name, text in told.items() if text is not None and len(text) <= MOST_VALUE} or None
