# SPDX-License-Identifier: MIT
"""Page traces for long, killed at random moments, in every shape of machine, and on a kernel that checks itself."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from harness.paths import ROOT
from tests.page_trace_suite import complaints, run_in_guest, splats

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

#: What may be missing in the end, in KiB: caches of single CPUs differ by that. A cycle's tables alone have 400.
SLACK_KIB = 3000
#: A kernel of its own: it takes minutes to compile.
WIDE = ROOT / "tests" / "guest" / "page_trace_kernels"
SHAPES = list(itertools.product(["modern-6.1", "modern-6.1-la57"], [1, 2], [False, True]))


@pytest.mark.parametrize(("kernel", "cpus", "pti"), SHAPES)
def test_every_shape_of_machine(kernel: str, cpus: int, pti: bool, tmp_path: Path):
    folder = run_in_guest(tmp_path, "pt-suite 300", kernel, cpus, pti=pti, timeout_s=1200)
    assert list(complaints(folder)) == []


@pytest.mark.parametrize(("cpus", "pti"), [(2, False), (1, True)])
def test_the_suite_on_a_kernel_that_checks_itself(cpus: int, pti: bool, tmp_path: Path):
    # One slow CPU starts ten traces of a storm in some seconds.
    ms = 1000 if cpus > 1 else 3000
    folder = run_in_guest(tmp_path, f"pt-suite {ms}", "modern-6.1-debug", cpus, pti=pti, timeout_s=3000)
    assert list(complaints(folder)) == []


def test_the_suite_with_nodes_keys_generations_and_preemption(tmp_path: Path):
    there = (
        "grep -qw ospke /proc/cpuinfo && [ -d /sys/devices/system/node/node1 ] && "
        "[ $(cat /proc/sys/kernel/numa_balancing) = 1 ] && [ $(cat /sys/kernel/mm/lru_gen/enabled) != 0x0000 ]"
    )
    folder = run_in_guest(tmp_path, f"{there} && pt-suite 300", "modern-6.1-wide", beside=WIDE, timeout_s=1200)
    assert list(complaints(folder)) == []
    # As traced programs, which were compared with these.
    keys = "key 1: everything 200, reads 200, nothing 200, refused 600, otherwise 0 0 0, written 201 600\nthen 7\n"
    assert (folder / "untraced" / "keys").read_text() == f"{keys}status 0\n"


@pytest.mark.parametrize(("kernel", "cycles", "kills"), [("modern-6.1", 1000, 100), ("modern-6.1-debug", 200, 20)])
def test_cycles_kills_and_execs_leave_nothing_behind(kernel: str, cycles: int, kills: int, tmp_path: Path):
    folder = run_in_guest(tmp_path, f"pt-soak {cycles} {kills}", kernel, 2, timeout_s=3600)
    assert (folder / "wrong").read_text() == ""
    assert (folder / "left").read_text().split() == [], "processes are stuck"
    started = sum(json.loads(line)["started"] for line in (folder / "cycles").read_text().splitlines())
    assert started > cycles / 2
    memory = json.loads((folder / "soak.json").read_text())
    lost = {name: memory["after"][name] - memory["before"][name] for name in memory["before"]}
    print(lost)
    assert max(lost["slab"], lost["tables"], lost["stacks"], lost["vmalloc"]) < SLACK_KIB, lost
    assert list(splats(folder)) == []
    if not kernel.endswith("debug"):
        assert -lost["free"] < SLACK_KIB, lost
    else:
        # KASAN keeps what was freed for a while, and shadows of it: a leak is kmemleak's to find.
        assert (folder / "kmemleak").read_text() == ""
        assert (folder / "lockdep").read_text().split()[-1] == "1", "lockdep has stopped looking"
