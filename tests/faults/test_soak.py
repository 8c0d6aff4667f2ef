# SPDX-License-Identifier: MIT
"""Long and rough: many boots of one state, and runs killed at random moments."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import median

import pytest

from harness.artefacts.store import Store, hash_tree
from harness.errors import EXIT_NEWS
from harness.experiment.model import load_experiment
from harness.machine import halt
from harness.machine.plugin import build_plugin, plugin_api
from harness.machine.saved import qemu_version
from harness.paths import EXPERIMENTS, ROOT
from harness.run.executor import run_trials
from harness.run.prepared import prepare_trials
from harness.sets.reference import compare, find_reference, reference_of
from harness.sets.resultset import ResultSet
from harness.trial.plan import PlannedTrial
from harness.trial.prepare import boot_files, build_for, machine_for
from tests.faults.rows import fault
from tests.faults.runs import Place
from tests.halting import booted_memory, slow_halts
from tests.processes import eventually, machines
from tests.trials import run_one

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

BOOTS = 40
KILLS = 15
#: Trials of one run; what it uses is looked at in the hundred before these ends.
TRIALS, EARLY, LATE, WINDOW = 500, 200, 480, 100
#: One process, descriptor or file that is not given back in so many trials is seen.
LEAKY = 50
#: What a sealed trial may cost the processes of a run together: its record, its description, its files' hashes.
MOST_BYTES_A_TRIAL = 64 << 10

SHORT = """\
name: faulty
paper: {authors: [Nobody], year: 2026, title: Many trials}
workloads: {write: {command: "dd if=/dev/urandom bs=1024 count=64 2>/dev/null; echo done >&2"}}
arms: {one: {kernel: classic, clock: virtual}}
repetitions: {quick: 500}
claims: []
"""
#: Arms by the virtual clock, of each mechanism at least one.
STRESSED = {
    "irq-hotspot": "tick,nmi,map-jitter,peer-perf,peer-trace,patched,n4",
    "lock-trace": "off,paper,validate",
    "page-trace": "traced,packed,stream-1,resumed,short,known-pti",
    "probe-cost": "virtual",
    "shim": "virtual,virtual-bpf",
}

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


def test_the_size_of_qemus_tlb_decides_what_damon_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Else nothing would depend on the clock that it is sized by."""
    seen = {}
    for us in (10, 20_000, 1_000_000):  # 20 ms is what a flush is taken for
        sources = tmp_path / f"halt-{us}"
        shutil.copytree(halt.SOURCES, sources)
        text = (sources / "tlb.c").read_text()
        (sources / "tlb.c").write_text(re.sub(r"FLUSH_US = \d+", f"FLUSH_US = {us}", text))
        monkeypatch.setattr(halt, "SOURCES", sources)
        seen[us] = [seen_by_damon(tmp_path / f"{us}-{turn}") for turn in range(2)]
    assert all(first == second for first, second in seen.values())
    assert len({first for first, _ in seen.values()}) == len(seen)


def seen_by_damon(target: Path) -> bytes:
    """What DAMON records of a random walk, whose pages it finds accessed where QEMU's TLB has lost them."""
    walk = {"command": "by-method pagework random --pages 1024 --n 2000000", "timeout_s": 100}
    arm = {"kernel": "modern-6.1", "clock": "virtual", "params": {"method": "damon"}}
    data = (run_one({"walk": walk}, arm, EXPERIMENTS / "page-trace", target) / "walk" / "damon.trace").read_bytes()
    assert data
    return data


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
    assert done.returncode == EXIT_NEWS, done.stderr
    assert "damaged" not in done.stderr


@dataclass(frozen=True)
class Footprint:
    """What a run uses at one moment, its guests aside: all its processes, krepro's descriptors and bytes, its files."""

    processes: int
    descriptors: int
    files: int
    resident: int


def footprint(session: int, temporary: Path) -> Footprint:
    """Of the processes of a session; QEMU's own memory is the guest's."""
    processes = descriptors = resident = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int((process / "stat").read_text().rpartition(")")[2].split()[3]) != session:
                continue
            processes += 1
            if b"python" in (process / "cmdline").read_bytes().split(b"\0")[0]:
                descriptors += len(list((process / "fd").iterdir()))
                resident += int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    # Folders may go while they are walked through: os.walk() takes no notice.
    files = sum(len(folders) + len(names) for _, folders, names in os.walk(temporary))
    return Footprint(processes, descriptors, files, resident)


@fault("500 trials in one run", "no more processes, descriptors and files, no more memory than records take")
def test_500_trials_use_no_more_than_200(tmp_path: Path):
    place = Place(tmp_path, SHORT)
    process = place.start()
    seen: dict[int, list[Footprint]] = {EARLY: [], LATE: []}
    with (tmp_path / "told").open("w") as told:
        while process.poll() is None:
            done = len(place.seals())
            for end, found in seen.items():
                if end - WINDOW <= done < end:
                    found.append(footprint(process.pid, place.temporary))
                    told.write(f"{done} {found[-1]}\n")
            time.sleep(0.2)
    assert process.wait() == 0, process.communicate()[1]
    assert len(place.manifest()["trials"]) == TRIALS
    early, late = seen[EARLY], seen[LATE]
    assert min(len(early), len(late)) > WINDOW // 4, "looked at often enough"
    # Peaks are moments at which two things happen at once; what is not given back is there at every moment.
    *more, grown = (
        median(after) - median(before)
        for before, after in zip(*(zip(*map(astuple, found), strict=True) for found in (early, late)), strict=True)
    )
    assert max(more) < (LATE - EARLY) / LEAKY, more
    assert grown <= (LATE - EARLY) * MOST_BYTES_A_TRIAL
    place.check_nothing_is_left()


@contextmanager
def stress(folder: Path) -> Iterator[None]:
    """stress-ng on four CPUs, with two that write memory and one that writes a disk."""
    words = ["stress-ng", "--cpu", "4", "--vm", "2", "--hdd", "1", "--temp-path", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
            assert process.poll() is None, "it was there all the time"
        finally:
            process.send_signal(signal.SIGINT)


@pytest.mark.skipif(shutil.which("stress-ng") is None, reason="apt install stress-ng")
@fault("stress-ng --cpu 4 --vm 2 --hdd 1 beside a run", "it ends; the bits of the reference")
@pytest.mark.parametrize("name", STRESSED)
def test_beside_stress_ng_a_run_has_the_bits_of_the_reference(name: str, tmp_path: Path):
    reference = find_reference("reference", name, tmp_path)
    assert reference is not None
    command = [sys.executable, "-m", "invoke", "run", name, "--arms", STRESSED[name], "--results", str(tmp_path)]
    with stress(tmp_path):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    (path,) = (tmp_path / name).glob("2*")
    result = ResultSet(path)
    assert {trial.arm for trial in result.manifest.trials} == set(STRESSED[name].split(","))
    assert {trial.status for trial in result.manifest.trials} == {"ok"}, done.stderr
    assert compare(reference, reference_of(result)) is None
