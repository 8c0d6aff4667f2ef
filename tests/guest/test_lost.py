# SPDX-License-Identifier: MIT
"""A machine that is lost, and a state that cannot be saved, tell why."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import RunError
from harness.machine import saved
from harness.machine.machine import Machine
from harness.machine.spec import prepare_folder
from harness.trial.prepare import boot_files


@pytest.fixture
def machine(store, classic, machine_spec, tmp_path) -> Iterator[Machine]:
    spec = machine_spec(classic, "virtual", "mailbox")
    files, _ = boot_files(store, classic, spec)
    prepare_folder(spec, tmp_path, None)
    with Machine(spec, files, tmp_path) as running:
        yield running


def test_a_state_whose_file_takes_no_more_says_so(machine):
    machine.wait_stopped(saved.BOOT_TIMEOUT_S)
    with pytest.raises(OSError, match="No space left") as raised:
        machine.save(Path("/dev/full"))
    assert raised.value.errno == errno.ENOSPC


def test_a_qemu_that_has_ended_is_not_one_that_does_not_answer(machine):
    os.kill(machine.process.pid, signal.SIGKILL)
    with pytest.raises(RunError, match="the guest ended"):
        machine.check_answers()


def test_a_boot_that_fails_says_why_even_if_its_trace_cannot_be_kept(
    tmp_store, machine_spec, classic, store, monkeypatch
):
    spec = machine_spec(classic, "virtual", "mailbox")
    files, _ = boot_files(store, classic, spec)
    tmp_store.root.mkdir(parents=True, exist_ok=True)
    (tmp_store.root / "logs").write_text("no folder")
    monkeypatch.setattr(saved, "BOOT_TIMEOUT_S", 0.0)
    with pytest.raises(RunError, match="the guest did not stop at its mailbox within 0 s"):
        saved.saved_state(tmp_store, "lost", spec, files)
