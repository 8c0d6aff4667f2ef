# SPDX-License-Identifier: MIT
"""Loads under each arm of a lock trace, in one guest, and what must add up in every one of them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.lock_trace.locks.events import read_events
from experiments.lock_trace.locks.status import LockTraceStatus, accounting, read_status

from harness.paths import EXPERIMENTS, ROOT
from tests.trials import run_one


def traced(
    target: Path,
    loads: Mapping[str, tuple[str, str]],
    arms: Sequence[str],
    cpus: int,
    guest: Path = ROOT / "tests/guest/lock_accounts",
    kernel: str = "modern-6.1-bare",
) -> Path:
    """The folder of a trial with a workload for each load and arm, LOAD-ARM. `loads`: options of locktrace, and shell
    text without quotes. `guest`: the loads' own programs and modules.
    """
    folder = target / "experiment"
    folder.mkdir(parents=True)
    shutil.copytree(EXPERIMENTS / "lock-trace" / "guest", folder / "guest")
    shutil.copytree(guest, folder / "guest", dirs_exist_ok=True)
    words = {
        f"{load}-{arm}": f"cd /run/krepro/out/$KREPRO_WORKLOAD && locktrace -m {arm} {options} -o . sh -c '{command}'"
        for load, (options, command) in loads.items()
        for arm in arms
    }
    # QEMU 7.2 can run old code for ever where it is patched while several CPUs run: hooks are on from the boot.
    machine = {"clock": "wall", "cmdline": {"lock_trace": "on"}} if cpus > 1 else {"clock": "virtual"}
    workloads = {name: {"command": command, "timeout_s": 1200} for name, command in words.items()}
    return run_one(workloads, {"kernel": kernel, "session": "mailbox", "cpus": cpus, **machine}, folder, target)


def accounts(folder: Path) -> LockTraceStatus:
    """What the kernel counted, after every sum was found to hold."""
    status = read_status(folder / "status.json")
    table = accounting(status, read_events(folder / "events.bin"))
    assert table["balance"].sum() >= 5
    assert list(table.loc[table["difference"] != 0, "check"]) == []
    return status
