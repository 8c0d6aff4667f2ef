# SPDX-License-Identifier: MIT
"""Golden trials of lock-trace, changed as raw files: what mutations share, and the one arm that they have not."""

from __future__ import annotations

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
    EVENT,
    FAILED,
    STREAM_LOG,
    STREAM_PAPER,
    STREAM_PER_LOCK,
    STREAMS,
    Events,
)

from tests.golden import Golden
from tests.rawfiles import change_json, said

KINDS = ("spin", "spin_irqsave", "read", "write", "mutex", "rwsem_read", "rwsem_write")
#: The stream of an arm's events; of arm validate there are all three.
STREAM = {
    "all": STREAM_LOG, "tracepoint": STREAM_LOG, "per-lock": STREAM_PER_LOCK, "contended": STREAM_PER_LOCK,
    "paper": STREAM_PAPER,
}  # fmt: skip
#: Programs, as claims call them, and their workloads.
PROGRAMS = {"files": "files-one", "pipes": "pipes", "forks": "forks"}
LOCK_STAT = ("share-50", "share-500", "spin-irq", "rwlock", "mutex")
SITE, COUNTS = ["lock", "type", "site", "symbol"], ["acquisitions", "failed", "abandoned"]
#: Address of a lock that is got twice.
RECURSION = 0xFFFFFFFFA000C700


# -- raw files, read and written -------------------------------------------------------------------------------------


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
    sites = said(source / "status.json")["sites"]
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


def fill_buffer(golden: Golden, arm: str, workload: str, share: float) -> None:
    """A filter keeps such a share of what fills rings that nobody reads without it: the first is lost so much later."""
    bare = said(golden.raw("all") / workload / "status.json")
    folder = golden.raw(arm) / workload
    own = said(folder / "status.json")
    lost = [0, 0, 0]
    lost[STREAM[arm]] = round(share * bare["kept"][STREAM_LOG]) - own["written"][STREAM[arm]]
    first = own["start"] + round((bare["first_loss"] - bare["start"]) / share)
    change_events(folder, lambda events: events, lost=lost, first_loss=first)


def lock_stat(golden: Golden) -> None:
    """An arm with LOCK_STAT, which has the contentions of the trace."""
    add_smp(golden, "lock-stat", "validate-smp", params={"trace": "per-lock"}, kernel="modern-6.1-lockdep")
    for workload in LOCK_STAT:
        folder = add_filtered(golden, "lock-stat", workload, golden.raw("validate-smp") / "mutex")
        times = "1.00 9.00 50.00 5.00"
        (folder / "lock_stat.txt").write_text(
            f"lock_stat version 0.4\n&known_shared[i].mutex: 10 10 {times} 10 20 {times}\n"
        )
