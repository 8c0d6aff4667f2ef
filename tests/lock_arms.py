# SPDX-License-Identifier: MIT
"""Golden trials of lock-trace, changed as raw files: what mutations share, and arms that the golden trials have not.

What a filter alone keeps, on one CPU or on two, is made of a real trial of arm validate, which has every event and
beside it what each filter makes of it. Costs on two CPUs are those on one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from experiments.lock_trace.locks.events import (
    ABANDONED,
    ACQUIRED,
    ARMS,
    ATTEMPT,
    EVENT,
    FAILED,
    RELEASE,
    RWSEM_READ,
    STREAM_LOG,
    STREAM_PAPER,
    STREAM_PER_LOCK,
    STREAMS,
    Events,
)

from tests.golden import Golden

KINDS = ("spin", "spin_irqsave", "read", "write", "mutex", "rwsem_read", "rwsem_write")
#: The stream of an arm's events; of arm validate there are all three.
STREAM = {"all": STREAM_LOG, "tracepoint": STREAM_LOG, "per-lock": STREAM_PER_LOCK, "paper": STREAM_PAPER}
#: Programs, as claims call them, and their workloads.
PROGRAMS = {"files": "files-one", "pipes": "pipes", "forks": "forks"}
LOCK_STAT = ("share-50", "share-500", "spin-irq", "rwlock", "mutex")
SITE, COUNTS = ["lock", "type", "site", "symbol"], ["acquisitions", "failed", "abandoned"]
#: Address of a lock that is got twice.
RECURSION = 0xFFFFFFFFA000C700


# -- raw files, read and written -------------------------------------------------------------------------------------


def change_json(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Fields of a file get what `change` says of them."""
    told = json.loads(path.read_text())
    path.write_text(json.dumps(told | change(told)) + "\n")


def change_table(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> int:
    """A table becomes what `change` makes of it; its rows."""
    table = change(pd.read_csv(path, sep="\t", converters={"lock": _address, "site": _address}))
    table.to_csv(path, sep="\t", index=False)
    return len(table)


def _address(text: str) -> int:
    return int(text, 0)


def change_pairs(golden: Golden, arm: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """What the pairs of an arm took becomes what `change` says, but for the readings of the clock alone."""
    change_table(golden.raw(arm) / "pair/pairs.tsv", lambda ticks: ticks.assign(**change(ticks[list(KINDS)])))


def change_events(folder: Path, change: Callable[[Events], Events], **fields: object) -> None:
    """The file of events becomes what `change` makes of it, in one ring, and the kernel's counts those of the file.

    `fields`: others of the kernel's counts.
    """
    path = folder / "events.bin"
    events = change(np.fromfile(path, dtype=EVENT))
    events["position"] = np.arange(1, len(events) + 1)
    path.write_bytes(events.tobytes())

    def counted(told: dict[str, Any]) -> dict[str, Any]:
        told = told | fields
        written = np.bincount(events["stream"], minlength=len(STREAMS)).tolist()
        kept = [there + lost for there, lost in zip(written, told["lost"], strict=True)]
        trace = next(name for name, arm in ARMS.items() if arm == told["arm"])
        streams = range(len(STREAMS)) if trace == "validate" else (STREAM[trace],)
        dropped = [told["events"] - count if stream in streams else 0 for stream, count in enumerate(kept)]
        return fields | {"written": written, "kept": kept, "dropped": dropped}

    change_json(folder / "status.json", counted)


# -- arms and workloads that the golden trials have not --------------------------------------------------------------


def add_arm(golden: Golden, arm: str, like: str, *workloads: str, **fields: object) -> None:
    """A trial of another arm like that of `like`, with these of its workloads."""
    trial = next(trial for trial in golden.trials if trial.arm == like)
    golden.raw(arm).mkdir(parents=True)
    shutil.copy(trial.path / "kallsyms", golden.raw(arm))
    for name in workloads:
        shutil.copytree(trial.path / name, golden.raw(arm) / name)
    changed = {"arm": arm, "path": golden.raw(arm), "workloads": workloads, **fields}
    golden.trials.append(trial.model_copy(update=changed))


def add_smp(golden: Golden, arm: str, like: str, *workloads: str, **fields: object) -> None:
    """The same on two CPUs, of a host that is quiet."""
    add_arm(golden, arm, like, *workloads, clock="wall", fidelity="emulated", **fields)
    path = golden.raw(arm) / "host-sched.json"
    shutil.copy(golden.raw("validate-smp") / path.name, path)
    change_json(path, lambda told: {"vcpus": [vcpu | {"wait_ns": 0} for vcpu in told["vcpus"]]})


def add_workload(golden: Golden, arm: str, workload: str, source: Path, but: str = "lap*") -> Path:
    """A workload more of an arm: a copy, but for the files that the arm has not."""
    folder = golden.raw(arm) / workload
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns(but))
    for place, trial in enumerate(golden.trials):
        if trial.arm == arm:
            golden.trials[place] = trial.model_copy(update={"workloads": (*trial.workloads, workload)})
    return folder


def add_filtered(golden: Golden, arm: str, workload: str, source: Path) -> Path:
    """Of a workload of arm validate what another arm's filter kept, as that arm writes it."""
    folder, trace = add_workload(golden, arm, workload, source), arm.removesuffix("-smp")
    kept = np.fromfile(source / "events.bin", dtype=EVENT)
    kept = kept[kept["stream"] == STREAM.get(trace, STREAM_PER_LOCK)]
    sites = json.loads((source / "status.json").read_text())["sites"]
    if trace == "paper":  # its table of sites has what it dropped
        sites = change_table(folder / "sites.tsv", lambda table: _without(table, kept))
    change_events(folder, lambda events: kept, arm=ARMS.get(trace, ARMS["per-lock"]), sites=sites)
    return folder


def _without(sites: pd.DataFrame, kept: Events) -> pd.DataFrame:
    """A table of sites without the acquisitions that were kept."""
    counts = {name: kept["kind"] == kind for name, kind in zip(COUNTS, (ACQUIRED, FAILED, ABANDONED), strict=True)}
    told = pd.DataFrame({name: kept[name] for name in SITE[:3]} | counts).groupby(SITE[:3]).sum()
    whole = sites.groupby(SITE, as_index=False).sum().set_index(SITE[:3])
    whole[COUNTS] -= told.reindex(whole.index, fill_value=0)
    assert (whole[COUNTS] >= 0).all(axis=None)
    return whole.reset_index()[sites.columns]


def two_cpus(golden: Golden) -> None:
    """Beside each arm that times pairs one of two CPUs, which take as many cycles as the others take instructions."""
    for arm in ("off", "all", "paper", "per-lock"):
        add_smp(golden, f"{arm}-smp", arm, "pair")


def useful_programs(golden: Golden) -> None:
    """A program on two CPUs, of which the paper's filter keeps what it kept of workload mutex: 4 %."""
    add_smp(golden, "paper-smp", "validate-smp", params={"trace": "paper"})
    add_filtered(golden, "paper-smp", "pipes", golden.raw("validate-smp") / "mutex")


def fill_buffer(golden: Golden, arm: str, share: float) -> None:
    """A filter keeps a share of what fills the rings that nobody reads: the first is lost so much later."""
    folder = golden.raw(arm) / "buffer"

    def own(events: Events) -> Events:
        events["stream"] = STREAM[arm]
        return events

    bare = json.loads((golden.raw("all") / "buffer/status.json").read_text())
    lost = [0, 0, 0]
    lost[STREAM[arm]] = round(share * bare["events"]) - bare["written"][STREAM_LOG]
    first = bare["start"] + round((bare["first_loss"] - bare["start"]) / share)
    change_events(folder, own, arm=ARMS[arm], lost=lost, first_loss=first)


def buffers(golden: Golden) -> None:
    """Rings that nobody reads with filters, too: these keep a twentieth of the events."""
    for arm in ("paper", "per-lock"):
        add_workload(golden, arm, "buffer", golden.raw("all") / "buffer")
        fill_buffer(golden, arm, 1 / 20)


def acquired_twice(golden: Golden) -> None:
    """A workload in which a thread gets a lock twice for reading, five times, and the paper's filter keeps all."""
    folder = add_workload(golden, "validate", "recursion", golden.raw("validate") / "double")
    columns = (folder / "known.tsv").read_text().splitlines()[0].split("\t")
    counts = {"name": "recursion.0", "address": hex(RECURSION), "type": "rwsem_read"}
    counts |= dict.fromkeys(("attempts", "acquired", "released"), 10)
    row = [str(counts.get(name, 0)) for name in columns]
    (folder / "known.tsv").write_text("\n".join(["\t".join(columns), "\t".join(row), ""]))
    site = {"lock": RECURSION, "type": RWSEM_READ, "site": RECURSION, "symbol": "recursion", "acquisitions": 10}
    change_table(folder / "sites.tsv", lambda table: pd.DataFrame([site], columns=table.columns).fillna(0))

    def events(old: Events) -> Events:
        log = np.resize(old[:1], 6 * 5)
        log["kind"] = [ATTEMPT, ACQUIRED, ATTEMPT, ACQUIRED, RELEASE, RELEASE] * 5
        log["order"] = np.arange(1, 31)
        log["time"] += log["order"]
        log["type"], log["lock"], log["site"] = RWSEM_READ, RECURSION, RECURSION
        log["stream"], log["sequence"], log["flags"] = STREAM_LOG, 0, 0
        kept = log.copy()
        kept["stream"] = STREAM_PAPER
        return np.concatenate([log, kept])

    change_events(folder, events, events=30, kinds=[0, 10, 10, 10, 0, 0, 0, 0], sites=1)


def counted_loads(golden: Golden) -> None:
    """Loads that the module counts, in every arm and on two CPUs: of arm validate what each filter kept of them."""
    two = golden.raw("validate-smp") / "mutex"
    for arm in ("all", "paper", "per-lock"):
        add_filtered(golden, arm, "double", golden.raw("validate") / "double")
        add_smp(golden, f"{arm}-smp", "validate-smp", params={"trace": arm})
        add_filtered(golden, f"{arm}-smp", "mutex", two)
    add_smp(golden, "tracepoint-smp", "tracepoint", "mutex")


def lock_stat(golden: Golden) -> None:
    """An arm with LOCK_STAT, which has the contentions of the trace."""
    add_smp(golden, "lock-stat", "validate-smp", params={"trace": "per-lock"}, kernel="modern-6.1-lockdep")
    for workload in LOCK_STAT:
        folder = add_filtered(golden, "lock-stat", workload, golden.raw("validate-smp") / "mutex")
        times = "1.00 9.00 50.00 5.00"
        (folder / "lock_stat.txt").write_text(
            f"lock_stat version 0.4\n&known_shared[i].mutex: 10 10 {times} 10 20 {times}\n"
        )


def probed(golden: Golden) -> None:
    """An arm of kprobes, of which a pair costs six times what it costs with hooks."""
    add_arm(golden, "kprobes", "off", "pair", params={"trace": "kprobes"})
    (golden.raw("kprobes") / "pair/kprobe_profile").write_text("  attempt_raw_spin_lock  10  0\n")
    shutil.copy(golden.raw("all") / "pair/pairs.tsv", golden.raw("kprobes") / "pair/pairs.tsv")
    change_pairs(golden, "kprobes", lambda ticks: 6 * ticks)


def programs(golden: Golden) -> None:
    """Programs on one CPU and on two that take what timing the pairs took, traced and untraced."""
    for arm in ("off", "per-lock"):
        for workload in PROGRAMS.values():
            folder = add_workload(golden, arm, workload, golden.raw(arm) / "pair", but="pairs.tsv")
            change_json(folder / "stdout", lambda told, name=workload: {"workload": name})
        add_smp(golden, f"{arm}-smp", arm, *PROGRAMS.values())
