# SPDX-License-Identifier: MIT
"""Real guests of the experiment shim, and a storm of modules in one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.paths import EXPERIMENTS
from harness.trial.model import TrialRecord
from tests.trials import made_experiment, run_arms

SHIM = EXPERIMENTS / "shim"
SMP = {"kernel": "modern-6.1", "clock": "wall", "session": "mailbox", "cpus": 2}
#: What the kernel says when something went wrong.
COMPLAINTS = re.compile(
    r"WARNING|BUG|Oops|general protection|unable to handle|refcount|rcu.*stall|sysfs: cannot|lockdep", re.IGNORECASE
)


def run(target: Path, workloads: Mapping[str, Any], arms: Mapping[str, Any]) -> Mapping[str, TrialRecord]:
    """One trial per arm, with absolute paths, on the image that a run of the experiment has."""
    return run_arms(made_experiment(workloads, arms, collect=["ppid"]), SHIM, target)


def read(trial: TrialRecord, name: str) -> Any:
    return json.loads((trial.path / name).read_text())


def check_storm(folder: Path, turns: int) -> None:
    """Both modules come and go so many times among switches and hotplug; nothing may go wrong."""
    storms = run(
        folder,
        {"storm": {"command": f"ppid-storm {turns}", "timeout_s": 300 + 10 * turns}},
        {"storm": {**SMP, "params": {"ppid": "off"}}},
    )
    storm = read(storms["storm"], "storm/stdout")
    assert storm["loads"] == 2 * turns
    assert storm["busy"] == 2 * turns, "a mapped module cannot be unloaded"
    assert storm["toggles"] == 8 * turns
    assert storm["wrong"] == 0
    assert storm["offlines"] > 5
    log = (storms["storm"].path / "dmesg").read_text()
    assert "storm ends" in log
    assert [line for line in log.split("storm begins")[1].splitlines() if COMPLAINTS.search(line)] == []
