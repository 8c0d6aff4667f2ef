# SPDX-License-Identifier: MIT
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

from harness.build.plugin import build_plugin, plugin_api
from harness.build.store import Store, hash_tree
from harness.experiment.model import load_experiment
from harness.experiment.plan import PlannedTrial
from harness.experiment.prepare import boot_files, build_for, machine_for
from harness.experiment.runner import run_trials
from harness.machine.saved import qemu_version
from harness.oracle.attach import prepare_trials
from harness.paths import EXPERIMENTS, ROOT
from tests.faults.rows import fault
from tests.halting import booted_memory, slow_halts
from tests.processes import eventually, machines

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

BOOTS = 40
KILLS = 15

NO_PLUGIN = """
#include "qemu.h"
EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{ (void)id; (void)info; (void)argc; (void)argv; return 0; }
"""


@fault("two busy loops beside 40 boots of one state", "the same bits each time")
def test_every_newly_made_state_gives_the_same_bits(tmp_path: Path):
    folder = EXPERIMENTS / "irq-hotspot"
    experiment = load_experiment(folder)
    store, seen = Store.default(), set()
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        for boot in range(BOOTS):
            target = tmp_path / str(boot)
            prepared = prepare_trials(store, experiment, folder, [PlannedTrial("tick", 0, 5)], target, "tcg")
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


def test_without_its_plugin_the_virtual_clock_is_not_exact(tmp_path: Path):
    """Else the plugin would be of no use, and the test that a slow host changes nothing could not fail."""
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "none.c").write_text(NO_PLUGIN)
    store, experiment = Store.default(), load_experiment(EXPERIMENTS / "irq-hotspot")
    build = build_for(store, "classic", EXPERIMENTS / "irq-hotspot")
    spec = machine_for("tick", experiment.arms["tick"], build.recipe, "tcg")
    none = build_plugin(store, "none", tmp_path / "none", plugin_api(qemu_version())).file("none.so")
    files = boot_files(store, build, spec)[0].model_copy(update={"halt": none})
    with slow_halts(tmp_path):
        assert len({booted_memory(spec, files, tmp_path / str(boot)) for boot in range(3)}) > 1


@fault("SIGKILL or SIGTERM at any moment, 15 times", "no guest, no set that is not whole; the store is whole")
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
        assert eventually(lambda: not machines(tmp_path), 60), "no guest outlives its harness"
        assert not [path for path in tmp_path.glob("irq-hotspot/2*") if not (path / "manifest.json").is_file()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "damaged" not in done.stderr
