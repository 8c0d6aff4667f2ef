# SPDX-License-Identifier: MIT
"""The virtual clock keeps every bit, a seed changes what it should, and damage to a saved state is noticed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.artefacts.store import Store, hash_tree
from harness.experiment.model import Experiment
from harness.machine import vitals
from harness.machine.saved import why_not_restored
from harness.run.executor import run_trials
from harness.run.prepared import prepare_trials
from harness.trial.execution import run_trial
from harness.trial.plan import PlannedTrial
from tests.trials import made_experiment

pytestmark = pytest.mark.timeout(1800)

COMMAND = (
    "head -c 16 /dev/urandom | hexdump -e '16/1 \"%02x\"'; echo; grep stack /proc/self/maps; "
    "cat /proc/interrupts; echo phase >/dev/kmsg; dmesg | grep phase"
)


def experiment(**arm: object) -> Experiment:
    return made_experiment({"look": COMMAND}, {"a": {"kernel": "classic", "clock": "virtual", **arm}})


@pytest.fixture
def trials(tmp_path: Path):
    def make(seeds: list[int], name: str = "out", **arm: object):
        plan = [PlannedTrial("a", index, seed) for index, seed in enumerate(seeds)]
        folder = tmp_path / "experiment"
        folder.mkdir(exist_ok=True)
        return prepare_trials(Store.default(), experiment(**arm), folder, plan, tmp_path / name, "tcg").trials

    return make


def files(trial) -> dict[str, str]:
    return {name: value for name, value in hash_tree(trial.folder).items() if name != "qmp-events.json"}


def test_equal_seeds_give_equal_bits_in_parallel_and_under_load(trials):
    load = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        loaded = trials([7, 7, 7], "loaded")
        assert [record.status for record in run_trials(loaded)] == ["ok"] * 3
    finally:
        load.kill()
        load.wait()
    alone = trials([7], "alone")[0]
    assert run_trial(alone).status == "ok"
    expected = files(alone)
    assert {"look/stdout", "console.log", "dmesg", "job.exit"} <= expected.keys()
    assert [files(trial) for trial in loaded] == [expected] * 3


def test_a_guest_that_is_looked_at_all_the_time_gives_the_same_bits(trials, monkeypatch):
    looks: list[float] = []
    look = vitals.Vitals.look
    monkeypatch.setattr(vitals, "LOOK_VIRTUAL_S", 0.001)
    monkeypatch.setattr(vitals.Vitals, "look", lambda self, *seen: looks.append(seen[1]) or look(self, *seen))
    seen, unseen = trials([7], "seen")[0], trials([7], "unseen")[0]
    assert run_trial(seen).status == "ok"
    assert len(looks) > 1  # as often as the host comes to it
    monkeypatch.undo()
    assert run_trial(unseen).status == "ok"
    assert files(seen) == files(unseen)


def test_another_seed_gives_other_random_numbers_addresses_and_phase(trials):
    first, second = trials([1, 2])
    assert [record.status for record in run_trials([first, second])] == ["ok", "ok"]
    one, two = ((trial.folder / "look/stdout").read_text().splitlines() for trial in (first, second))
    assert one[0] != two[0], "urandom"
    assert one[1] != two[1], "address space layout: the stack"
    assert one[-1] != two[-1], "time since boot: the phase of the start"


def test_a_workload_that_fails_or_hangs_is_a_failed_trial_with_its_reason(tmp_path):
    model = experiment().model_dump()
    model["workloads"] = {
        "fails": {"command": "echo to be seen >&2; exit 3"},
        "hangs": {"command": "sleep 1000", "timeout_s": 2},
    }
    for workload, reason in (("fails", "exit status 3: to be seen"), ("hangs", "timed out after 2 s")):
        model["arms"] = {"a": {"kernel": "classic", "clock": "virtual", "workloads": [workload]}}
        (tmp_path / workload).mkdir()
        prepared = prepare_trials(
            Store.default(),
            Experiment.model_validate(model),
            tmp_path / workload,
            [PlannedTrial("a", 0, 1)],
            tmp_path / workload / "out",
            "tcg",
        )
        record = run_trial(prepared.trials[0])
        assert record.status == "failed"
        assert record.reason == f"workload {workload}: {reason}"


def test_a_damaged_saved_state_is_thrown_away_and_made_again(trials, capfd):
    trial = trials([3])[0]
    assert run_trial(trial).status == "ok"
    before = files(trial)
    state = trial.state.path
    data = bytearray(state.read_bytes())
    data[len(data) // 2] ^= 1
    state.write_bytes(data)
    again = trials([3], "again")[0]
    assert "damaged (state differs from what was written)" in " ".join(capfd.readouterr().err.split())
    assert run_trial(again).status == "ok"
    assert files(again) == before
    shutil.rmtree(again.folder)


def test_a_state_that_cannot_live_is_refused_with_the_reason(trials, tmp_path):
    trial = trials([3], "refused")[0]
    cut = tmp_path / "state"
    store = Store.default()
    assert why_not_restored(store, trial.machine, trial.files, trial.state.path) == ""
    whole = trial.state.path.read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    assert why_not_restored(store, trial.machine, trial.files, cut).startswith("QEMU did not start")
