# SPDX-License-Identifier: MIT
"""A mailbox guest that boots, where none can be restored, is waited for at its mailbox and ends as a restored one."""

from __future__ import annotations

import json

import pytest

from harness.experiment.execution import run_trial
from tests.mailbox_guests import ENDINGS, ends_as_it_should, mailbox_trial, panics_before_its_mailbox

pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("restored", [False, True])
def test_its_job_runs(tmp_path, restored):
    trial = mailbox_trial(tmp_path, "sleep 1; cat /proc/uptime", "tcg", restored=restored)
    record = run_trial(trial)
    assert (record.status, record.reason) == ("ok", None)
    assert float((trial.folder / "look/stdout").read_text().split()[0]) > 1
    events = [event["event"] for event in json.loads((trial.folder / "qmp-events.json").read_text())]
    assert events.count("WATCHDOG") == (0 if restored else 1)
    watched = json.loads((trial.folder / "host-sched.json").read_text())["seconds"]
    assert 0.5 < watched <= record.seconds["trial"] - record.seconds["ready"] + 0.1, "its boot is not of the trial"


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("name", ENDINGS)
def test_its_end_is_told(tmp_path, name, restored):
    ends_as_it_should(name, tmp_path, "tcg", restored=restored)


def test_a_panic_on_the_way_to_the_mailbox_is_a_panic(tmp_path):
    panics_before_its_mailbox(tmp_path, "tcg")
