# SPDX-License-Identifier: MIT
"""How the host schedules a machine's CPU threads: pinning them to host cores, and how long they waited for one.

A guest cannot see that the host took a CPU away from it. What was measured then is of the host, not of the guest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Beside the trial's raw files: see docs/file-formats.md.
HOST_SCHED = "host-sched.json"
#: Reading costs some 20 microseconds a thread.
PERIOD_S = 0.05
#: Of the CPU threads, where the host allows it: QEMU's other threads and this process share their CPUs. Not more, and
#: nothing of real time: a guest that spins must leave the host its share.
NICE = -10


@dataclass(frozen=True)
class Reading:
    """Of /proc/PID/task/TID/schedstat: nanoseconds on a CPU and of waiting for one, times it was put on one."""

    run_ns: int
    wait_ns: int
    slices: int


def read_thread(process: int, thread: int, proc: Path = Path("/proc")) -> Reading | None:
    """What the host's kernel says of one thread; None when it has ended or the kernel keeps no such figures."""
    try:
        run, wait, slices = (proc / str(process) / "task" / str(thread) / "schedstat").read_text().split()
        return Reading(int(run), int(wait), int(slices))
    except (OSError, ValueError):
        return None


def cores_first(host_cpus: Sequence[int], sys: Path = Path("/sys")) -> list[int]:
    """The same CPUs, one of each core before the second of any: two threads of one core share what they measure."""
    seen: dict[str, int] = {}
    turns: list[tuple[int, int]] = []
    for cpu in host_cpus:
        try:
            core = (sys / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
        except OSError:  # a kernel without SMP tells no topology
            core = str(cpu)
        turns.append((seen.get(core, 0), cpu))
        seen[core] = seen.get(core, 0) + 1
    return [cpu for _, cpu in sorted(turns, key=lambda turn: turn[0])]


def pinning(threads: Sequence[int], host_cpus: Sequence[int]) -> list[int] | str:
    """A host CPU for each thread, no two on the same; or why there is none."""
    if len(threads) < 2:
        return "one CPU: the host's scheduler does better"
    if len(set(threads)) < len(threads):
        return "QEMU runs several CPUs in one thread"
    if len(threads) > len(host_cpus):
        return f"{len(threads)} CPUs, and {len(host_cpus)} of the host's"
    return list(host_cpus[: len(threads)])


def spare(pins: Sequence[int], host_cpus: Sequence[int]) -> list[int]:
    """Host CPUs for the harness: those left over, else that of the last CPU thread; the others are undisturbed."""
    return [cpu for cpu in host_cpus if cpu not in pins] or [pins[-1]]


@dataclass(frozen=True)
class CpuTimes:
    """Of /proc/stat, over some CPUs: ticks of work, and of work that the hypervisor did not let them do."""

    busy: int
    steal: int

    def steal_share(self, before: CpuTimes) -> float:
        """Of the time since `before` in which they wanted to work; 0 when they never did."""
        steal = self.steal - before.steal
        wanted = self.busy - before.busy + steal
        return round(max(steal, 0) / wanted, 4) if wanted > 0 else 0.0


def read_cpus(host_cpus: Sequence[int], proc: Path = Path("/proc")) -> CpuTimes | None:
    """What the host's kernel says of these CPUs; None when it does not."""
    names = {f"cpu{cpu}" for cpu in host_cpus}
    busy = steal = 0
    try:
        for line in (proc / "stat").read_text().splitlines():
            name, *fields = line.split()
            if name in names:
                user, nice, system, _idle, _iowait, irq, softirq, stolen = map(int, fields[:8])
                busy += user + nice + system + irq + softirq
                steal += stolen
    except (OSError, ValueError):
        return None
    return CpuTimes(busy, steal)


class HostSchedule:
    """The host's view of one running machine's CPUs, from `begin` on; `read` often, since the last reading counts.

    Where each CPU thread gets a host CPU, the calling thread keeps off all but the last of them, and off that too where
    there are more; `release` gives it its CPUs back. QEMU's other threads stay free: a guest's timers wait for them.
    """

    def __init__(self, process: int, threads: Sequence[int]) -> None:
        self._process = process
        self._threads = list(threads)
        self._host_cpus = sorted(os.sched_getaffinity(0))
        self._moved = False
        self._pins = self._pin()
        self._nice = self._favour() if not isinstance(self._pins, str) else 0
        self.begin()

    def begin(self) -> None:
        """Count from now on."""
        self._first = {thread: read_thread(self._process, thread) for thread in self._threads}
        self._last = dict(self._first)
        self._cpus = read_cpus(self._host_cpus)
        self._begin = self._end = time.monotonic()

    def read(self) -> None:
        """Take a reading, unless the last one is fresh or the threads have ended."""
        now = time.monotonic()
        if now - self._end < PERIOD_S:
            return
        for thread in self._threads:
            reading = read_thread(self._process, thread)
            if reading is not None:
                self._last[thread] = reading
                self._end = now

    def release(self) -> None:
        """Let the calling thread run on every CPU that it had before."""
        if self._moved:
            os.sched_setaffinity(0, self._host_cpus)

    def summary(self) -> dict[str, Any]:
        """The content of host-sched.json; a CPU without figures has nulls, and the reason says why."""
        pinned = not isinstance(self._pins, str)
        cpus = read_cpus(self._host_cpus)
        unknown = any(reading is None for reading in self._first.values())
        reason = self._pins if isinstance(self._pins, str) else None
        return {
            "pinned": pinned,
            "reason": "the host's kernel keeps no schedstat" if unknown else reason,
            "host_cpus": self._host_cpus,
            "nice": self._nice,
            "seconds": round(self._end - self._begin, 3),
            "steal": cpus.steal_share(self._cpus) if cpus is not None and self._cpus is not None else None,
            "vcpus": [
                {"cpu": cpu, "thread": thread, "host_cpu": self._pins[cpu] if pinned else None, **self._spent(thread)}
                for cpu, thread in enumerate(self._threads)
            ],
        }

    def _spent(self, thread: int) -> Mapping[str, int | None]:
        first, last = self._first[thread], self._last[thread]
        if first is None or last is None:
            return {"run_ns": None, "wait_ns": None, "slices": None}
        return {
            "run_ns": last.run_ns - first.run_ns,
            "wait_ns": last.wait_ns - first.wait_ns,
            "slices": last.slices - first.slices,
        }

    def _pin(self) -> list[int] | str:
        pins = pinning(self._threads, cores_first(self._host_cpus))
        if isinstance(pins, str):
            return pins
        try:
            for thread, cpu in zip(self._threads, pins, strict=True):
                os.sched_setaffinity(thread, {cpu})
            os.sched_setaffinity(0, spare(pins, self._host_cpus))
            self._moved = True
        except OSError as error:
            return f"the host refused: {error.strerror}"
        return pins

    def _favour(self) -> int:
        """The threads' nice value: ours, or what it was."""
        try:
            for thread in self._threads:
                os.setpriority(os.PRIO_PROCESS, thread, NICE)
        except OSError:
            return 0
        return NICE
