# SPDX-License-Identifier: MIT
"""A mailbox guest that boots, where none can be restored, is waited for at its mailbox and ends as a restored one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.machine import machine, spec
from harness.trial.execution import run_trial
from tests.mailbox_guests import ENDINGS, ends_as_it_should, mailbox_trial, panics_before_its_mailbox

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def watched(monkeypatch) -> list[str]:
    """The state of the machine each time that the watch over how the host runs it began anew."""
    states: list[str] = []
    watch = machine.Machine.watch_host

    def noted(made: machine.Machine) -> None:
        states.append(made.qmp.command("query-status")["status"])
        watch(made)

    monkeypatch.setattr(machine.Machine, "watch_host", noted)
    return states


@pytest.mark.parametrize("restored", [False, True])
def test_its_job_runs(tmp_path, restored, watched):
    trial = mailbox_trial(tmp_path, "sleep 1; cat /proc/uptime", "tcg", restored=restored)
    record = run_trial(trial)
    assert (record.status, record.reason) == ("ok", None)
    assert float((trial.folder / "look/stdout").read_text().split()[0]) > 1
    events = [event["event"] for event in json.loads((trial.folder / "qmp-events.json").read_text())]
    stops = events.count("WATCHDOG")
    assert stops <= (0 if restored else 1), "a busy host lets its watchdog pass"
    assert watched[-1] == ("watchdog" if restored or stops else "running"), "its boot is not of the trial"


@pytest.mark.deep
@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("name", ENDINGS)
def test_its_end_is_told(tmp_path, name, restored):
    ends_as_it_should(name, tmp_path, "tcg", restored=restored)


@pytest.mark.deep
def test_one_that_a_busy_host_lets_pass_has_done_its_job(tmp_path, monkeypatch, watched):
    """Its watchdog does not stop it here, as where the host is busy until the guest has disarmed it."""

    def passing(*words: Any, **more: Any) -> list[str]:
        return [word.replace("watchdog=pause", "watchdog=none") for word in spec.argv(*words, **more)]

    monkeypatch.setattr(machine, "argv", passing)
    trial = mailbox_trial(tmp_path, "sleep 1; cat /proc/uptime", "tcg", restored=False)
    record = run_trial(trial)
    assert (record.status, record.reason) == ("ok", None)
    assert float((trial.folder / "look/stdout").read_text().split()[0]) > 1
    assert watched[-1] == "running", "its boot, the 2.5 s in its mailbox, and its job"


@pytest.mark.deep
def test_a_panic_on_the_way_to_the_mailbox_is_a_panic(tmp_path):
    panics_before_its_mailbox(tmp_path, "tcg")
