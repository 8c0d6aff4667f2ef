"""Long and rough: many boots of one state, and runs killed at random moments."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.build.store import Store, hash_tree
from harness.experiment.model import load_experiment
from harness.experiment.plan import PlannedTrial
from harness.experiment.prepare import prepare
from harness.experiment.runner import run_trials
from harness.paths import EXPERIMENTS, ROOT
from tests.processes import machines

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

BOOTS = 20
KILLS = 15


def test_every_newly_made_state_gives_the_same_bits(tmp_path: Path):
    folder = EXPERIMENTS / "irq-hotspot"
    experiment = load_experiment(folder)
    seen = set()
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        for boot in range(BOOTS):
            target = tmp_path / str(boot)
            prepared = prepare(Store.default(), experiment, folder, [PlannedTrial("tick", 0, 5)], target, "tcg")
            (record,) = run_trials(prepared.trials)
            assert record.status == "ok", record.reason
            files = hash_tree(target / record.path)
            files.pop("qmp-events.json")
            seen.add(tuple(sorted(files.items())))
            shutil.rmtree(prepared.states["tick"].path)
    finally:
        for process in load:
            process.kill()
            process.wait()
    assert len(seen) == 1


def test_runs_killed_at_random_moments_leave_no_guest_no_set_and_a_whole_store(tmp_path: Path):
    moments = random.Random(1)
    command = [sys.executable, "-m", "invoke", "run", "irq-hotspot", "--arms", "tick,n4", "--results", str(tmp_path)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    for _ in range(KILLS):
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(moments.uniform(0.5, 15))
        process.send_signal(moments.choice([signal.SIGKILL, signal.SIGTERM]))
        process.wait()
        time.sleep(2)
        assert not machines(tmp_path)
        assert not [path for path in tmp_path.glob("irq-hotspot/2*") if not (path / "manifest.json").is_file()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "damaged" not in done.stderr
