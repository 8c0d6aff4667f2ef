"""The harness's own times: how long until a workload starts, by each way of getting a guest."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from rich.console import Console

from harness.build.store import Store
from harness.experiment.prepare import KernelBuild, boot_files, build_for
from harness.guest.mailbox import MailboxSession
from harness.guest.ssh import SshSession
from harness.machine.machine import Machine
from harness.machine.saved import saved_state
from harness.machine.spec import MachineSpec, prepare_folder
from harness.measure.statistics import median_estimate
from harness.progress import step
from harness.report.terminal import frame_table
from harness.scratch import scratch_folder

KERNEL = "classic"
TIMEOUT_S = 120.0


def bench(store: Store, repetitions: int, console: Console) -> int:
    """Median seconds, with intervals, from nothing to the start of a job and to its collected result."""
    built = build_for(store, KERNEL, None)
    ways: dict[str, Callable[[Path], dict[str, float]]] = {
        "restore, mailbox, virtual clock": lambda folder: _mailbox(store, built, folder, restore=True),
        "cold boot, mailbox, virtual clock": lambda folder: _mailbox(store, built, folder, restore=False),
        "restore, ssh, wall clock": lambda folder: _ssh(store, built, folder, restore=True),
        "cold boot, ssh, wall clock": lambda folder: _ssh(store, built, folder, restore=False),
    }
    rows = []
    with step("measuring", total=repetitions * len(ways)) as bar:
        for name, way in ways.items():
            samples = []
            for _ in range(repetitions):
                folder = scratch_folder(Path(tempfile.gettempdir()), "bench")
                try:
                    samples.append(way(folder))
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
                bar.advance()
            for part in samples[0]:
                estimate = median_estimate([sample[part] for sample in samples])
                rows.append((name, part, estimate.value, estimate.low, estimate.high, repetitions))
    frame = pd.DataFrame(rows, columns=["way", "until", "median s", "low", "high", "n"])
    console.print(frame_table("Time to a guest (wall clock, this host)", frame.round(4)))
    return 0


def _machine(built: KernelBuild, *, virtual: bool) -> MachineSpec:
    return MachineSpec(
        hardware=built.recipe.spec.hardware,
        accelerator="tcg",
        clock="virtual" if virtual else "wall",
        session="mailbox" if virtual else "ssh",
        cmdline=tuple(built.recipe.spec.cmdline),
    )


def _mailbox(store: Store, built: KernelBuild, folder: Path, *, restore: bool) -> dict[str, float]:
    spec, job = _machine(built, virtual=True), "true\n"
    files, _ = boot_files(store, built, spec)
    state = saved_state(store, KERNEL, spec, files).file("state") if restore else None
    started = time.monotonic()
    prepare_folder(spec, folder, job)
    with Machine(spec, files, folder, incoming=state, paused=restore) as machine:
        if not restore:
            machine.wait_stopped(TIMEOUT_S)
        session = MailboxSession(machine)
        ready = time.monotonic() - started
        session.run(job, folder / "out", TIMEOUT_S)
        return {"workload start": ready, "result": time.monotonic() - started}


def _ssh(store: Store, built: KernelBuild, folder: Path, *, restore: bool) -> dict[str, float]:
    spec = _machine(built, virtual=False)
    files, keys = boot_files(store, built, spec)
    assert keys is not None
    state = saved_state(store, f"{KERNEL}-ssh", spec, files).file("state") if restore else None
    started = time.monotonic()
    prepare_folder(spec, folder, None)
    with Machine(spec, files, folder, incoming=state) as machine:
        if not restore:
            machine.wait_ready(TIMEOUT_S)
        session = SshSession(machine, keys, TIMEOUT_S)
        ready = time.monotonic() - started
        session.run("true\n", folder / "out", TIMEOUT_S)
        return {"workload start": ready, "result": time.monotonic() - started}
