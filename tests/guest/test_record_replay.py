# SPDX-License-Identifier: MIT
"""A trial over ssh is recorded and replayed to the same bytes; what is not the recording's does not pass for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.artefacts.store import Store, hash_tree
from harness.experiment.model import Experiment
from harness.guest.recorded import RecordedSession
from harness.machine.machine import GuestLost, Machine
from harness.machine.spec import RECORDING, prepare_folder
from harness.paths import ROOT
from harness.run.prepared import prepare_trials
from harness.sets.resultset import ResultSet
from harness.trial.execution import run_trial
from harness.trial.model import TrialSpec
from harness.trial.plan import PlannedTrial

pytestmark = pytest.mark.timeout(1800)

#: Of all this nothing is the same in two runs: random bytes, the host's date, interrupts of a network card.
COMMAND = (
    "head -c 16 /dev/urandom | hexdump -C; date; cat /proc/uptime /proc/interrupts; "
    "cat /proc/interrupts /proc/uptime >/dev/console; dmesg | tail -n 3; md5sum /dev/sda"
)
EXPERIMENT = {
    "name": "recorded",
    "paper": {"authors": ["x"], "year": 2000, "title": "x"},
    "workloads": {"look": {"command": COMMAND}},
    "arms": {"a": {"kernel": "classic", "clock": "wall", "record": True, "devices": ["edu", "disk"]}},
}
ANALYSIS = """\
import pandas as pd

TABLES, METRICS = [], []


def tables(trials):
    return {}


def metrics(tables):
    return pd.DataFrame({name: [] for name in ("arm", "trial", "metric", "value", "unit", "reason")})
"""
#: What only the recording has, or what tells the host's time.
OTHERS = {RECORDING, "keys.cpio", "qmp-events.json"}


def files(folder: Path) -> dict[str, str]:
    return {name: value for name, value in hash_tree(folder).items() if name not in OTHERS}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> TrialSpec:
    """A trial that ran and was recorded; its files are in its folder."""
    root = tmp_path_factory.mktemp("recorded")
    plan = [PlannedTrial("a", 0, 7)]
    trial = prepare_trials(Store.default(), Experiment.model_validate(EXPERIMENT), root, plan, root, "auto").trials[0]
    record = run_trial(trial)
    assert (record.status, record.reason) == ("ok", None)
    return trial


def replaying(trial: TrialSpec, folder: Path, *words: str) -> TrialSpec:
    cmdline = (*trial.machine.cmdline, *words)
    machine = trial.machine.model_copy(update={"record": "replay", "cmdline": cmdline})
    return trial.model_copy(update={"machine": machine, "folder": folder, "recording": trial.folder / RECORDING})


def replay_alone(trial: TrialSpec, log: bytes, folder: Path, timeout_s: float) -> None:
    """Replay `log` on the trial's machine; GuestLost when it does not come to the log's end."""
    prepare_folder(trial.machine, folder, None)
    (folder / RECORDING).write_bytes(log)
    with Machine(trial.machine, trial.files, folder) as machine:
        RecordedSession(machine).run("", folder / "out", timeout_s)


def test_a_recorded_trial_replays_to_the_same_bytes_each_time(recorded, tmp_path):
    expected = files(recorded.folder)
    assert {"console.log", "look/stdout", "dmesg", "interrupts.final"} <= expected.keys()
    for attempt in ("first", "second"):
        again = replaying(recorded, tmp_path / attempt)
        record = run_trial(again)
        assert (record.status, record.reason) == ("ok", None)
        assert (again.folder / "console.log").read_bytes() == (recorded.folder / "console.log").read_bytes()
        assert files(again.folder) == expected


@pytest.mark.deep
def test_another_kernel_command_line_leaves_the_recording(recorded, tmp_path, monkeypatch):
    monkeypatch.setattr("harness.guest.recorded.BOOT_S", 0)
    log = (recorded.folder / RECORDING).read_bytes()
    with pytest.raises(GuestLost, match=r"did not come to the end of its recording|left its recording|hung"):
        replay_alone(replaying(recorded, tmp_path, "quiet"), log, tmp_path / "machine", 40)
    console = (tmp_path / "machine/console.log").read_bytes()
    assert console != (recorded.folder / "console.log").read_bytes()


@pytest.mark.deep
def test_a_recording_that_was_cut_short_is_not_taken_for_whole(recorded, tmp_path):
    log = (recorded.folder / RECORDING).read_bytes()
    with pytest.raises(GuestLost):
        replay_alone(replaying(recorded, tmp_path), log[: len(log) - 1000], tmp_path / "machine", 120)


@pytest.mark.deep
def test_replay_executes_a_recorded_trial_of_a_result_set_and_refuses_an_altered_one(tmp_path):
    folder = tmp_path / "recorded"
    folder.mkdir()
    (folder / "experiment.yaml").write_text(Experiment.model_validate(EXPERIMENT).model_dump_json(exclude_none=True))
    (folder / "analysis.py").write_text(ANALYSIS)
    done = invoke("run", str(folder), "--results", str(tmp_path / "results"))
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.strip().splitlines()[-1])
    result = ResultSet(path)
    assert result.manifest.fidelity == {"a": "virtual"}
    assert result.manifest.digest is None, "a recording is no deterministic trial"

    replayed = invoke("replay", str(path))
    assert replayed.returncode == 0, replayed.stderr
    assert "every bit is equal" in replayed.stdout

    altered = tmp_path / "altered"
    shutil.copytree(path, altered)
    log = altered / "raw/a/0" / RECORDING
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    refused = invoke("replay", str(altered), "--arms", "a/0", "--trust")
    assert refused.returncode == 3
    assert f"raw/a/0/{RECORDING}" in refused.stderr
    assert "is not what was recorded" in refused.stderr


def invoke(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "invoke", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
