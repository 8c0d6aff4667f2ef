# SPDX-License-Identifier: MIT
"""What turns the claims on arm contended of lock-trace."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from experiments.lock_trace.locks.events import ACQUIRED, ATTEMPT, EVENT, RELEASE, WAITS, Events, Flags

from tests.golden import Golden
from tests.lock_arms import PROGRAMS, change_events
from tests.mutation import turns
from tests.rawfiles import change_json

ARMS = ("contended", "contended-smp")


def _change(folder: Path, change: Callable[[Events], Events]) -> None:
    """The file of events, and the kernel's counts with it: nothing was dropped."""
    left = len(change(np.fromfile(folder / "events.bin", dtype=EVENT)))
    change_events(folder, change, events=left)


def _of_module(folder: Path, events: Events) -> Flags:
    """Which events are of the module's own locks."""
    known = pd.read_csv(folder / "known.tsv", sep="\t", converters={"address": lambda text: int(text, 0)})
    return np.isin(events["lock"], known["address"].to_numpy(np.uint64))


def as_long_as_untraced(golden: Golden) -> None:
    """Golden trials without a trace are of shorter programs: those of the arm contended take a twentieth longer.

    The long programs are the short ones once more.
    """
    for what, workload in PROGRAMS.items():
        untraced = json.loads((golden.raw("off") / workload / "stdout").read_text().splitlines()[-1])
        change_json(
            golden.raw("contended") / workload / "stdout",
            lambda _, untraced=untraced: {"elapsed_ns": untraced["elapsed_ns"] * 21 // 20},
        )
        for arm in ("off", "contended"):
            shutil.copytree(golden.raw(arm) / workload, golden.raw(arm) / f"{what}-long")
    longer = tuple(f"{what}-long" for what in PROGRAMS)
    golden.trials = [
        trial.model_copy(update={"workloads": (*trial.workloads, *longer)})
        if trial.arm in ("off", "contended") and trial.repetition == 0
        else trial
        for trial in golden.trials
    ]


@turns(
    *(f"contended-slowdown-{what}{long}" for what in PROGRAMS for long in ("", "-long")),
    before=as_long_as_untraced,
    why="the programs of the trials without a trace, made for other claims, are shorter",
)
def programs_that_are_slower(golden: Golden) -> None:
    """Programs take a quarter longer with the arm contended."""
    for what, short in PROGRAMS.items():
        for workload in (short, f"{what}-long"):
            change_json(
                golden.raw("contended") / workload / "stdout",
                lambda answer: {"elapsed_ns": answer["elapsed_ns"] * 5 // 4},
            )


@turns(
    *(f"balance-{arm}" for arm in ARMS),
    also=tuple(f"{what}-{arm}" for what in ("known", "by-hand") for arm in ARMS),
)
def an_event_is_cut_off(golden: Golden) -> None:
    """The last 64 bytes are missing of the waits that a chain of the module's threads made."""
    for arm in ARMS:
        path = golden.raw(arm) / "chain/events.bin"
        path.write_bytes(path.read_bytes()[: -EVENT.itemsize])


@turns(*(f"known-{arm}" for arm in ARMS), also=tuple(f"by-hand-{arm}" for arm in ARMS))
def a_wait_is_not_there(golden: Golden) -> None:
    """The first wait for the module's mutex is not recorded."""

    def without(folder: Path, events: Events) -> Events:
        of_module = _of_module(folder, events)
        first = np.flatnonzero(of_module & (events["kind"] == WAITS))[0]
        mine = of_module & (events["pid"] == events["pid"][first])
        gone = [np.flatnonzero(mine & (events["kind"] == kind))[0] for kind in (ATTEMPT, WAITS, ACQUIRED)]
        return np.delete(events, gone)

    for arm in ARMS:
        folder = golden.raw(arm) / "mutex"
        _change(folder, lambda events, folder=folder: without(folder, events))


@turns(*(f"by-hand-{arm}" for arm in ARMS))
def a_holder_lets_go_too_early(golden: Golden) -> None:
    """A release of the module's mutex was before the wait for it had begun, by its numbers."""

    def earlier(folder: Path, events: Events) -> Events:
        one = np.flatnonzero(_of_module(folder, events) & (events["kind"] == RELEASE))[-1]
        events["order"][one] = events["sequence"][one] = 0
        return events

    for arm in ARMS:
        folder = golden.raw(arm) / "mutex"
        _change(folder, lambda events, folder=folder: earlier(folder, events))
