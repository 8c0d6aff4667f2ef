# SPDX-License-Identifier: MIT
"""What is traced is what was counted: the memory of probecost's workloads is the same in each run, and has no rings."""

from __future__ import annotations

import pytest
from experiments.probe_cost.runs import Run, read_runs

from harness.paths import EXPERIMENTS
from tests.trials import run_one

pytestmark = pytest.mark.timeout(600)
FORKS = "run fork work=fork rounds=12 check=2\nprobe kretprobe handle_mm_fault\nuse\ngo\n"
#: Two brk() a round, whose probe tells events by a ring of perf's.
HEAP = """\
run heap work=brk rounds=80 check=3 drain=1000
probe syscall sys_enter_brk
use bpf=0 perf=64
go
"""
#: Sixteen pages mapped, touched and given back a round, beside a sampler whose first sample does not come.
MAPPED = "run mapped work=faults rounds=30 check=3\nprobe sample 1000000000\nuse\ngo\n"
#: What a sampler without samples takes of a round at most; with its ring in the workload's own memory, 4,200.
IDLE = 100
#: What such an event takes at most; with the ring in the workload's own memory it came to 985 and 2,600.
MOST = 900
#: Runs of a program with other addresses each, where they are drawn; and another environment.
COMMAND = """\
cd /run/krepro/out/$KREPRO_WORKLOAD
printf '%s' '{forks}' > forks
printf '%s' '{heap}' > heap
printf '%s' '{mapped}' > mapped
probecost ticks < forks && probecost ticks < forks && MORE=0123456789abcdef0123456789 probecost ticks < forks
probecost ticks < heap
probecost ticks < mapped
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    command = COMMAND.format(forks=FORKS, heap=HEAP, mapped=MAPPED)
    arm = {"kernel": "modern-6.1", "clock": "virtual", "icount_shift": 0}
    workloads = {"memory": {"command": command, "timeout_s": 300}}
    folder = run_one(workloads, arm, EXPERIMENTS / "probe-cost", tmp_path_factory.mktemp("memory"))
    found = read_runs(folder / "memory/stdout")
    assert [run.problem for run in found] == [""] * 5
    return found


def test_a_forks_faults_are_as_many_in_each_run(runs):
    faults = {run.probes[0].firings for run in runs if run.run == "fork"}
    assert len(faults) == 1
    assert faults != {0}


def test_a_ring_changes_no_mapping_of_the_workload(runs):
    (run,) = (run for run in runs if run.run == "heap")
    added = sorted(run.took)[2] - sorted(run.plain)[2]
    assert 200 < added / (2 * run.rounds) < MOST


def test_a_sampler_changes_no_mapping_of_the_workload(runs):
    (run,) = (run for run in runs if run.run == "mapped")
    added = sorted(run.took)[2] - sorted(run.plain)[2]
    assert abs(added / run.rounds) < IDLE
