# SPDX-License-Identifier: MIT
"""Files of an observer that never ran: a CPU's known switches, what an observer saw of them, and its samples."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.shim.observer.records import (
    CHUNK,
    DELAYED,
    EVENT,
    FIRST,
    INJECTED,
    SWITCH,
    TRUSTED,
    ZERO,
    Records,
    sample_type,
)
from harness.trial.model import TrialRecord
from tests.records import trial_record

HZ = 2_000_000_000
START = 10**15


@dataclass
class Cpu:
    """Switches of one CPU: thread k runs from begin[k] to begin[k + 1]; the slot had counted `counted` before."""

    pids: list[int]
    begin: list[int]
    counted: int = 100
    lag: int = 400

    def trace(self) -> Records:
        """As sched_switch has it."""
        made = np.zeros(len(self.pids), dtype=EVENT)
        made["time"], made["next"], made["cpu"] = self.begin, self.pids, 1
        made["prev"][1:] = self.pids[:-1]
        return made

    def log(self, missed: set[int] | None = None) -> Records:
        """As an observer logs it, but for those missed."""
        kept = [k for k in range(len(self.pids)) if k not in (missed or set())]
        made = np.zeros(len(kept), dtype=SWITCH)
        made["pid"] = made["tgid"] = [self.pids[k] for k in kept]
        made["count"] = [self.counted + k for k in kept]
        made["time"] = [self.begin[k] + self.lag for k in kept]
        made["seen"] = made["time"] + 100
        made["cpu"] = 1
        made["flags"][:1] = FIRST
        return made


def cpu(switches: int = 1000, seed: int = 1, pids: tuple[int, ...] = (0, 70, 71), **more: Any) -> Cpu:
    """Threads in turn, each for 10 to 60 µs."""
    random = np.random.default_rng(seed)
    lengths = random.integers(20_000, 120_000, switches)
    begin = START + np.cumsum(lengths)
    return Cpu([pids[k % len(pids)] for k in range(switches)], begin.tolist(), **more)


def samples(
    begin: list[int], end: list[int], signals: list[list[int]] | None = None, *, pid: int = 70, count: int = 5
) -> Records:
    """Samples with the flags that a right program sets (bounds 99/100 and 101/100)."""
    columns = signals if signals is not None else []
    made = np.zeros(len(begin), dtype=sample_type(len(columns)))
    made["begin"], made["end"] = begin, end
    made["pid"], made["tgid"], made["count"] = pid, pid, count
    made["number"] = np.arange(len(begin))
    for i, column in enumerate(columns):
        made["signals"][:, i] = column
    for i in range(1, len(begin)):
        b, e = begin[i] - begin[i - 1], end[i] - end[i - 1]
        good = b > 0 and 99 * b <= 100 * e and 100 * e <= 101 * b
        made["flags"][i] = TRUSTED * good | ZERO * (b == 0)
    made["flags"][:1] |= FIRST
    return made


def steady(n: int, period: int = 20_000, ipc: float = 1.0, **more: Any) -> Records:
    """n samples at equal distances, each 200 cycles long, of one counter."""
    begin = [START + period * k for k in range(n)]
    return samples(begin, [b + 200 for b in begin], [[1000 + int(ipc * period * k) for k in range(n)]], **more)


def delayed(n: int, at: set[int], delay: int = 9000, period: int = 20_000) -> tuple[Records, Records]:
    """Samples with delays between the two clocks of some; and injected.bin."""
    begin, end, late = [], [], 0
    for k in range(n):
        begin.append(START + period * k + late)
        late += delay * (k in at)
        end.append(begin[-1] + 200 + delay * (k in at))
    made = samples(begin, end, [[0] * n])
    for k in at:
        made["flags"][k] |= DELAYED
    log = np.zeros(len(at), dtype=INJECTED)
    log["number"], log["delay"] = sorted(at), delay
    log["begin"] = [begin[k] for k in sorted(at)]
    return made, log


def chunks(n: int, *, cycles: int = 2_000_000, ipc: float = 1.0, kind: int = 0, tid: int = 70, gap: int = 0) -> Records:
    """n chunks of known work, one after another."""
    made = np.zeros(n, dtype=CHUNK)
    made["begin"] = START + np.arange(n) * (cycles + gap)
    made["end"] = made["begin"] + np.uint64(cycles)
    made["kind"], made["tid"] = kind, tid
    made["instructions"] = int(cycles * ipc)
    made["iterations"] = int(cycles * ipc) // 2
    return made


def pair(tsc: int) -> dict[str, int]:
    return {"tsc": tsc, "mono_ns": (tsc - START) * 1_000_000_000 // HZ}


INSTRUCTIONS = {
    "name": "instructions",
    "source": "oracle",
    "scope": "cpu",
    "known_expected": 20_000_000,
    "known_counted": 20_000_311,
    "known_error": 1.5e-5,
    "reason": None,
}
NO_PMU = {
    "name": "instructions",
    "source": "pmu",
    "known_expected": None,
    "known_counted": None,
    "reason": "perf_event_open: No such file or directory",
}


def shim(folder: Path, run: str, **more: Any) -> None:
    """RUN.shim.json, RUN.periods.csv and RUN.ids.csv: 1000 windows, 990 trusted, all of 10 µs."""
    folder.mkdir(parents=True, exist_ok=True)
    said = {
        "version": 1, "program": "shim", "observer_cpu": 0, "cpu": 1, "period_cycles": 20_000, "period_ns": 10_000,
        "min_window_cycles": 0, "min_window_ns": 0, "bounds": ["99/100", "101/100"], "clock_begin": pair(START),
        "clock_end": pair(START + HZ), "tsc_hz": float(HZ), "seconds": 1.0, "samples": 1001, "windows": 1000,
        "trusted": 990, "untrusted": 10, "zero": 0, "switches_seen": 0, "switches_missed": 0, "switches_slot": 0,
        "torn": 0, "injected": 0, "injected_windows": 0, "injected_trusted": 0, "samples_written": 1001,
        "samples_lost": 0, "switches_written": 0, "switches_lost": 0, "slots_ok": True, "ppid": "callback",
        "ppid_reason": None, "signals": [INSTRUCTIONS], "refused": [NO_PMU], "target": None,
    }  # fmt: skip
    (folder / f"{run}.shim.json").write_text(json.dumps(said | more))
    windows, trusted = more.get("windows", 1000), more.get("trusted", 990)
    (folder / f"{run}.periods.csv").write_text(f"low,high,windows,trusted\n19456,20480,{windows},{trusted}\n")
    ids = f"pid,tgid,cycles,windows,trusted,trusted_cycles\n70,70,20000000,{windows},{trusted},19800000\n"
    (folder / f"{run}.ids.csv").write_text(ids)


def load(folder: Path, **more: Any) -> None:
    """load.json."""
    folder.mkdir(parents=True, exist_ok=True)
    said = {
        "load": "known", "cpu": 1, "threads": [{"tid": 70}], "clock_begin": pair(START),
        "clock_end": pair(START + HZ), "tsc_hz": float(HZ),
    }  # fmt: skip
    (folder / "load.json").write_text(json.dumps(said | more))


def truth(folder: Path, trace: Records) -> None:
    """truth.bin, truth.json, comms.csv."""
    trace.tofile(folder / "truth.bin")
    said = {"clock": "x86-tsc", "cpu": 1, "events": len(trace), "overrun": 0, "dropped": 0}
    (folder / "truth.json").write_text(json.dumps(said))
    (folder / "truth.comms.csv").write_text('pid,comm\n0,"swapper/1"\n70,"one"\n71,"two, too"\n')


def host(trial: Path, wait: float = 0.001) -> None:
    """host-sched.json: the second of two vCPUs waited for this share of its time."""
    trial.mkdir(parents=True, exist_ok=True)
    vcpus = [
        {"cpu": k, "thread": 500 + k, "host_cpu": k, "run_ns": 10**9, "wait_ns": ns, "slices": 9}
        for k, ns in enumerate((0, int(1e9 * wait / (1 - wait))))
    ]
    said = {"pinned": True, "reason": None, "host_cpus": [0, 1], "seconds": 1.1, "vcpus": vcpus}
    (trial / "host-sched.json").write_text(json.dumps(said))


def readings(folder: Path, run: str, clocks: list[int], waits: list[int], target: list[int] | None = None) -> None:
    """RUN.host.csv, and what RUN.shim.json says of it; waits in ns, of the observer's vCPU and of the other one."""
    path = folder / f"{run}.shim.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"host_readings": len(clocks), "host_reason": None}))
    rows = zip(clocks, waits, target or [0] * len(clocks), strict=True)
    text = "".join(f"{clock},{clock - START},{wait},{clock - START},{other}\n" for clock, wait, other in rows)
    (folder / f"{run}.host.csv").write_text("tsc,observer_run_ns,observer_wait_ns,run_ns,wait_ns\n" + text)


def record(arm: str, path: Path, workloads: tuple[str, ...], **more: Any) -> TrialRecord:
    """What an analysis is given of a trial whose raw folder is `path`."""
    fields = {"kernel": "modern-6.1", "clock": "wall", "params": {"ppid": "callback", "period": "10us"}, "path": path}
    return trial_record(arm, workloads=workloads, **(fields | {"system_map": path / "System.map"} | more))
