# SPDX-License-Identifier: MIT
"""locktorture and a parallel load, traced and not, on a kernel that checks its locks; and on one that checks memory."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from harness.paths import EXPERIMENTS, ROOT
from tests.page_trace_suite import QUIET, splats
from tests.trials import run_one

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

SECONDS = 120
TORTURED = ("spin_lock_irq", "rw_lock_irq", "mutex_lock", "rwsem_lock")
STATISTICS = re.compile(r"(?:Writes|Reads): +Total: (\d+) .*Fail: (\d+)")


def load(target: Path, kernel: str, torture: str | None) -> Path:
    """The folder that lt-torture left in a guest of two CPUs."""
    folder = target / "experiment"
    folder.mkdir(parents=True)
    shutil.copytree(EXPERIMENTS / "lock-trace" / "guest", folder / "guest")
    shutil.copytree(ROOT / "tests" / "guest" / "lock_trace", folder / "guest", dirs_exist_ok=True)
    # QEMU 7.2 can run old code for ever where it is patched while several CPUs run: hooks are on from the boot.
    options: dict[str, object] = {"lock_trace": "on", **QUIET}
    if torture:
        found = {"torture_type": torture, "nwriters_stress": 2, "nreaders_stress": 1, "stat_interval": 10, "stutter": 2}
        options |= {f"locktorture.{name}": value for name, value in found.items()}
    arm = {"kernel": kernel, "clock": "wall", "session": "mailbox", "cpus": 2, "cmdline": options}
    load = {"command": in_folder(f"lt-torture {SECONDS}"), "timeout_s": 1800}
    return run_one({"load": load}, arm, folder, target) / "load"


def in_folder(words: str) -> str:
    return f"cd /run/krepro/out/$KREPRO_WORKLOAD && {words}"


def check_traces(folder: Path) -> None:
    """Every trace accounts for every event, and there are some."""
    traces = [path for path in sorted(folder.glob("*/status.json")) if path.parent.name != "off"]
    assert len(traces) >= 5
    for path in traces:
        status = json.loads(path.read_text())
        assert status["nested"] == 0, path
        for stream in range(3):
            kept, dropped = status["kept"][stream], status["dropped"][stream]
            untracked = status["untracked"] if stream else 0
            assert kept == status["written"][stream] + status["lost"][stream], path
            assert kept == dropped == 0 or kept + dropped + untracked == status["events"], path
    assert int((folder / "turns").read_text()) > 0


@pytest.mark.parametrize("torture", TORTURED)
def test_locktorture_beside_traces(torture: str, tmp_path: Path):
    folder = load(tmp_path, "modern-6.1-lockdep", torture)
    check_traces(folder)
    assert list(splats(folder)) == []
    log = (folder / "dmesg.end").read_text(errors="replace")
    found = [(int(total), int(fail)) for total, fail in STATISTICS.findall(log)]
    assert found, "locktorture said nothing"
    assert found[-1][0] > found[0][0], "locktorture did nothing"
    assert all(fail == 0 for _, fail in found)
    assert "!!!" not in log
    assert "debug_locks:                             1" in (folder / "lockdep_stats").read_text()


def test_a_kernel_that_checks_memory(tmp_path: Path):
    folder = load(tmp_path, "modern-6.1-debug", None)
    check_traces(folder)
    assert list(splats(folder)) == []
