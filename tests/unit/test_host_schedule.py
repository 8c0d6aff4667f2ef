# SPDX-License-Identifier: MIT
"""What the host's scheduler says of a machine's CPU threads: real threads of this process, and files like theirs."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from harness.machine import hostsched
from harness.machine.hostsched import (
    CpuTimes,
    HostSchedule,
    Reading,
    cores_first,
    pinning,
    read_cpus,
    read_thread,
    spare,
)
from tests.processes import eventually


def test_threads_get_cpus_of_their_own_or_none():
    assert pinning([11, 12], [4, 6, 7]) == [4, 6]
    assert pinning([11], [0, 1]) == "one CPU: the host's scheduler does better"
    assert pinning([11, 11], [0, 1]) == "QEMU runs several CPUs in one thread"
    assert pinning([11, 12, 13], [0, 1]) == "3 CPUs, and 2 of the host's"


@pytest.mark.parametrize(
    ("siblings", "order"),
    [
        (["0-1", "0-1", "2-3", "2-3"], [0, 2, 1, 3]),
        (["0,2", "1,3", "0,2", "1,3"], [0, 1, 2, 3]),
        (["0", "1", "2", "3"], [0, 1, 2, 3]),
        ([], [0, 1, 2, 3]),
    ],
)
def test_two_threads_of_one_core_come_last(tmp_path, siblings, order):
    for cpu, text in enumerate(siblings):
        folder = tmp_path / f"devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{text}\n")
    assert cores_first([0, 1, 2, 3], tmp_path) == order
    assert cores_first([3, 1], tmp_path) == [3, 1]


def test_the_harness_keeps_off_their_cpus_or_off_all_but_the_last():
    assert spare([4, 6], [4, 6, 7, 8]) == [7, 8]
    assert spare([4, 6], [4, 6]) == [6]


STAT = """\
cpu  999 999 999 999 999 999 999 999 999 999
cpu0 10 20 30 1000 1000 4 5 63 7 8
cpu1 1 2 3 1000 1000 4 5 6 7 8
cpu10 500 500 500 500 500 500 500 500 0 0
intr 1 2 3
"""


def test_what_a_hypervisor_stole_from_the_hosts_own_cpus(tmp_path):
    (tmp_path / "stat").write_text(STAT)
    assert read_cpus([0], tmp_path) == CpuTimes(69, 63)
    assert read_cpus([0, 1], tmp_path) == CpuTimes(84, 69)
    assert CpuTimes(106, 73).steal_share(CpuTimes(69, 10)) == 0.63
    assert CpuTimes(69, 10).steal_share(CpuTimes(69, 10)) == 0.0
    (tmp_path / "stat").write_text("cpu0 1 2 3 4 5 6 7\n")
    assert read_cpus([0], tmp_path) is None, "a kernel that does not tell of it"
    assert read_cpus([0], tmp_path / "nowhere") is None


def test_what_was_stolen_is_in_the_summary(monkeypatch):
    times = iter([CpuTimes(0, 0), CpuTimes(100, 100), CpuTimes(137, 163)])
    monkeypatch.setattr(hostsched, "read_cpus", lambda _: next(times))
    schedule = HostSchedule(os.getpid(), [os.getpid()])
    schedule.begin()
    assert schedule.summary()["steal"] == 0.63
    monkeypatch.setattr(hostsched, "read_cpus", lambda _: None)
    assert HostSchedule(os.getpid(), [os.getpid()]).summary()["steal"] is None


def fake_thread(proc: Path, text: str) -> None:
    folder = proc / "7/task/8"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schedstat").write_text(text)


def test_a_reading_is_three_numbers_or_nothing(tmp_path):
    assert read_thread(7, 8, tmp_path) is None
    fake_thread(tmp_path, "100 20 3\n")
    assert read_thread(7, 8, tmp_path) == Reading(100, 20, 3)
    fake_thread(tmp_path, "100 20\n")
    assert read_thread(7, 8, tmp_path) is None


@pytest.fixture
def two_threads():
    """Ids of two threads that spin until the test is over. A schedule that no test releases moves this one as well."""
    before = os.sched_getaffinity(0)
    end = threading.Event()
    ids: list[int] = []

    def spin() -> None:
        ids.append(threading.get_native_id())
        while not end.is_set():
            time.sleep(0.0001)

    threads = [threading.Thread(target=spin) for _ in range(2)]
    for thread in threads:
        thread.start()
    while len(ids) < 2:
        time.sleep(0.001)
    yield ids
    end.set()
    os.sched_setaffinity(0, before)
    for thread in threads:
        thread.join()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU")
def test_what_threads_did_is_the_difference_of_first_and_last_reading(two_threads):
    before = os.sched_getaffinity(0)
    schedule = HostSchedule(os.getpid(), two_threads)
    assert sorted(before)[0] not in os.sched_getaffinity(0)

    def both_ran() -> bool:
        schedule.read()
        return all(cpu["slices"] > 0 and cpu["run_ns"] > 0 for cpu in schedule.summary()["vcpus"])

    assert eventually(both_ran), "a busy host takes its time"
    schedule.release()
    assert os.sched_getaffinity(0) == before
    summary = schedule.summary()
    assert (summary["pinned"], summary["reason"]) == (True, None)
    assert [cpu["cpu"] for cpu in summary["vcpus"]] == [0, 1]
    assert [cpu["thread"] for cpu in summary["vcpus"]] == two_threads
    assert summary["nice"] in (0, hostsched.NICE)
    for cpu in summary["vcpus"]:
        assert os.sched_getaffinity(cpu["thread"]) == {cpu["host_cpu"]}
        assert os.getpriority(os.PRIO_PROCESS, cpu["thread"]) == summary["nice"]
        assert cpu["wait_ns"] >= 0
    assert summary["seconds"] >= hostsched.PERIOD_S


def test_a_thread_that_ended_keeps_its_last_reading(two_threads, monkeypatch):
    monkeypatch.setattr(hostsched, "PERIOD_S", 0)
    readings = {thread: Reading(100, 10, 1) for thread in two_threads}
    monkeypatch.setattr(hostsched, "read_thread", lambda process, thread: readings[thread])
    schedule = HostSchedule(os.getpid(), two_threads)
    readings[two_threads[0]] = Reading(150, 15, 2)
    schedule.read()
    readings[two_threads[0]] = None
    schedule.read()
    assert [(cpu["run_ns"], cpu["wait_ns"], cpu["slices"]) for cpu in schedule.summary()["vcpus"]] == [
        (50, 5, 1),
        (0, 0, 0),
    ]


def test_without_figures_there_is_a_reason_and_no_zero(two_threads, monkeypatch):
    monkeypatch.setattr(hostsched, "read_thread", lambda process, thread: None)
    summary = HostSchedule(os.getpid(), two_threads).summary()
    assert summary["reason"] == "the host's kernel keeps no schedstat"
    assert summary["vcpus"][0]["run_ns"] is None


def test_one_cpu_is_watched_and_not_pinned():
    before = os.sched_getaffinity(0)
    summary = HostSchedule(os.getpid(), [os.getpid()]).summary()
    assert summary["pinned"] is False
    assert summary["vcpus"][0]["host_cpu"] is None
    assert os.sched_getaffinity(0) == before
