# SPDX-License-Identifier: MIT
"""Guests under KVM: proved by a boot, they run their jobs, and each way of ending one is told as under TCG."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from harness.artefacts.store import Store
from harness.machine.accelerator import SILENCE_S, boot_to_end
from harness.machine.spec import KVM_CPU
from harness.trial.execution import run_trial
from tests.mailbox_guests import ENDINGS, ends_as_it_should, mailbox_trial, panics_before_its_mailbox

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def busy_host() -> Iterator[None]:
    """So many loops beside everything that a boot takes far longer than a guest may be silent."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3 * (os.cpu_count() or 1))]
    yield
    for process in spinning:
        process.kill()
        process.wait()


def test_kvm_is_proved_however_long_the_boot_takes(busy_host):
    """The first QEMU of this process: on so busy a host the look at its tools alone takes minutes."""
    store = Store.default()
    kernels = [kernel for kernel in store.all("kernel") if kernel.inputs["arch"] == "i386"]
    newest = max(kernels, key=lambda kernel: kernel.path.stat().st_mtime)
    verdict = boot_to_end(store, newest, ("-accel", "kvm", "-cpu", KVM_CPU))
    assert verdict.works, verdict.reason
    assert verdict.seconds is not None
    assert verdict.seconds > SILENCE_S, "else this shows nothing"


@pytest.mark.parametrize("session", ["mailbox", "ssh"])
def test_a_job_runs_and_an_absent_pmu_is_absent(tmp_path, session):
    trial = mailbox_trial(tmp_path, "sleep 1; cat /proc/uptime", "kvm", restored=True, session=session)
    assert trial.state is not None, "under KVM too a guest is restored"
    record = run_trial(trial)
    assert (record.status, record.reason) == ("ok", None)
    assert float((trial.folder / "look/stdout").read_text().split()[0]) > 1
    assert record.fidelity == "kvm"
    assert record.pmu.startswith("absent: ")
    assert (trial.folder / "pmu").read_text().strip() == record.pmu, "the guest's known-work check said it"
    watched = json.loads((trial.folder / "host-sched.json").read_text())["seconds"]
    login = record.seconds["ready"] if session == "ssh" else 0  # watched too
    assert watched < record.seconds["trial"] - record.seconds["ready"] + login + 0.1, "its boot is not of the trial"


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("name", ENDINGS)
def test_a_guests_end_is_told(tmp_path, name, restored):
    ends_as_it_should(name, tmp_path, "kvm", restored=restored)


def test_a_panic_on_the_way_to_the_mailbox_is_a_panic(tmp_path):
    panics_before_its_mailbox(tmp_path, "kvm")
