# SPDX-License-Identifier: MIT
"""Mailbox guests on the wall clock, booted or restored, and how each way of ending one is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.choices import AcceleratorChoice
from harness.machine.machine import GuestLost, Machine
from harness.machine.spec import prepare_folder
from harness.run.prepared import prepare_trials
from harness.trial.execution import session_on
from harness.trial.model import TrialSpec
from harness.trial.plan import PlannedTrial
from tests.trials import made_experiment

HANG_S = 6.0
#: For those that end by themselves, also on a host that is emulated.
END_S = 120.0
BEFORE_KILL_S = 1.5
#: What a guest does in its job, and what is said of it.
ENDINGS = {
    "panic": ("echo c >/proc/sysrq-trigger", "the guest panicked during its job"),
    "watchdog": ("krepro-stop", "the guest let its watchdog run out during its job"),
    "reboot": ("reboot -f", "the guest ended during its job, QEMU's status 0"),
    "hang": ("while :; do :; done", f"the guest did not finish its job within {HANG_S:.0f} s"),
    "kill": ("sleep 1000", "the guest ended during its job, QEMU's status -9"),
}


def mailbox_trial(
    folder: Path, command: str, accelerator: AcceleratorChoice, *, restored: bool, **arm: object
) -> TrialSpec:
    """A trial of one workload `command` on kernel classic; not `restored`: its guest boots, also under TCG."""
    made = {"kernel": "classic", "clock": "wall", "session": "mailbox", **arm}
    experiment = made_experiment({"look": command}, {"a": made})
    plan = [PlannedTrial("a", 0, 5)]
    folder.mkdir(parents=True, exist_ok=True)
    trial = prepare_trials(Store.default(), experiment, folder, plan, folder / "out", accelerator).trials[0]
    return trial if restored else trial.model_copy(update={"state": None})


def lost_by(
    trial: TrialSpec, scratch: Path, timeout_s: float = END_S, meanwhile: Callable[[Machine], object] | None = None
) -> str:
    """What is said of the guest of a trial that does not end well; `meanwhile` is called while its job runs."""
    prepare_folder(trial.machine, scratch, trial.job)
    state = trial.state.path if trial.state else None
    machine = Machine(trial.machine, trial.files, scratch, incoming=state, paused=state is not None)
    with pytest.raises(GuestLost) as caught:
        _run(trial, machine, timeout_s, meanwhile or (lambda _: None))
    assert machine.process.poll() is not None, "its QEMU has ended"
    return caught.value.message


def _run(trial: TrialSpec, machine: Machine, timeout_s: float, meanwhile: Callable[[Machine], object]) -> None:
    with machine, session_on(trial, machine) as session:
        timer = threading.Timer(BEFORE_KILL_S, meanwhile, [machine])
        timer.start()
        try:
            session.run(trial.job, machine.folder / "out", timeout_s)
        finally:
            timer.join()


def ends_as_it_should(name: str, folder: Path, accelerator: AcceleratorChoice, *, restored: bool) -> None:
    """Check one of ENDINGS."""
    command, expected = ENDINGS[name]
    trial = mailbox_trial(folder / "trial", command, accelerator, restored=restored)
    kill = (lambda machine: machine.process.kill()) if name == "kill" else None
    timeout_s = HANG_S if name == "hang" else END_S
    told = lost_by(trial, folder / "scratch", timeout_s, kill)
    assert told.startswith(expected), told


def panics_before_its_mailbox(folder: Path, accelerator: AcceleratorChoice) -> None:
    """Check what is said of a guest without a first process."""
    trial = mailbox_trial(folder / "trial", "true", accelerator, restored=False)
    words = (*trial.machine.cmdline, "rdinit=/bin/false")
    trial = trial.model_copy(update={"machine": trial.machine.model_copy(update={"cmdline": words})})
    assert lost_by(trial, folder / "scratch").startswith("the guest panicked before it stopped at its mailbox")
