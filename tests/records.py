# SPDX-License-Identifier: MIT
"""Records of trials that no guest ran, and of the host beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.trial.model import TrialRecord


def trial_record(
    arm: str, repetition: int = 0, clock: str = "virtual", *, root: Path | None = None, **fields: Any
) -> TrialRecord:
    """The record of a good trial as the runner would leave it; `fields` are others, or replace these.

    `root`: the folder of the set, where paths are absolute, as an analysis gets them; its map lies there.
    """
    kernel = fields.get("kernel", "classic")
    made = {
        "arm": arm, "repetition": repetition, "seed": 1, "status": "ok", "kernel": kernel, "clock": clock,
        "session": "mailbox", "fidelity": "virtual" if clock == "virtual" else "emulated", "params": {}, "cmdline": {},
        "pmu": "absent: TCG emulates no PMU", "path": (root or Path()) / "raw" / arm / str(repetition),
        "system_map": root / "System.map" if root else Path("kernels") / kernel / "System.map",
    }  # fmt: skip
    return TrialRecord.model_validate(made | fields)


def host_sched(trial: Path, wait_ns: int, ran_ns: int = 1000, **more: Any) -> None:
    """The host's record of a guest whose only CPU ran, and waited, for so long."""
    vcpu = {"cpu": 0, "thread": 1, "host_cpu": None, "run_ns": ran_ns, "wait_ns": wait_ns, "slices": 1}
    (trial / "host-sched.json").write_text(json.dumps({"pinned": False, "vcpus": [vcpu]} | more))
