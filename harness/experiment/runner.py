# SPDX-License-Identifier: MIT
"""Running the trials of a run: in parallel where load changes nothing, else one at a time."""

from __future__ import annotations

import concurrent.futures
import ctypes
import multiprocessing
import os
import signal
from collections.abc import Sequence

from harness.experiment.execution import run_trial
from harness.experiment.trial import TrialRecord, TrialSpec
from harness.progress import Step, step, warn

PR_SET_PDEATHSIG = 1


def run_trials(trials: Sequence[TrialSpec]) -> list[TrialRecord]:
    """Run all trials: those of the virtual clock in parallel, one per core, then the others one at a time.

    A trial that fails does not end the run. Ctrl-C does, and ends every guest first.
    """
    virtual = [trial for trial in trials if trial.machine.clock == "virtual"]
    wall = [trial for trial in trials if trial.machine.clock == "wall"]
    records: list[TrialRecord] = []
    with step(f"running {len(trials)} trials", total=len(trials)) as bar:
        if virtual:
            with worker_pool(min(len(virtual), len(os.sched_getaffinity(0)))) as executor:
                records += submit_all(executor, virtual, bar)
        for trial in wall:
            records.append(run_trial(trial))
            _progress(bar, records[-1])
    order = {(trial.arm, trial.repetition): index for index, trial in enumerate(trials)}
    return sorted(records, key=lambda record: order[record.arm, record.repetition])


def submit_all(executor: concurrent.futures.Executor, trials: Sequence[TrialSpec], bar: Step) -> list[TrialRecord]:
    """Hand trials to any Executor (processes here, a Dask client's on many machines) and gather their records."""
    futures = [executor.submit(run_trial, trial) for trial in trials]
    records = []
    try:
        for future in concurrent.futures.as_completed(futures):
            records.append(future.result())
            _progress(bar, records[-1])
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return records


def worker_pool(workers: int) -> concurrent.futures.ProcessPoolExecutor:
    """Processes that run trials and die with this one."""
    return concurrent.futures.ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=die_with_parent,
        initargs=(os.getpid(),),
    )


def die_with_parent(parent: int) -> None:
    """End this process when `parent`, the process that started it, ends; at once if it already has."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended while this process was starting: no signal comes any more
        os._exit(1)


def _progress(bar: Step, record: TrialRecord) -> None:
    bar.advance(1, f"{record.arm} {record.repetition}")
    if record.status == "failed":
        warn(f"trial {record.arm} {record.repetition} failed: {record.reason}")
