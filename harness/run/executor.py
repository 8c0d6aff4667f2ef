# SPDX-License-Identifier: MIT
"""Running the trials of a run: in parallel where load changes nothing, else one at a time."""

from __future__ import annotations

import concurrent.futures
import ctypes
import logging
import multiprocessing
import os
import signal
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from harness import logs
from harness.progress import Step, step, warn
from harness.scratch import sweep
from harness.signals import unsignalled
from harness.trial.execution import failed_record, run_trial
from harness.trial.model import TrialRecord, TrialSpec

log = logging.getLogger(__name__)

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
#: What a guest's process is called before it is QEMU's, and then.
STARTING = ("setpriv", "prlimit", "bwrap", "ld-linux", "qemu-system")
KILLED = "the process that ran it was killed, twice; the host's kernel does so when memory runs out"

Finished = Callable[[TrialSpec, TrialRecord], None]


class Executor(Protocol):
    """Runs trials of one clock and calls `done` in this process with each as it ends, well or not.

    Those of the virtual clock share a machine, one per core; those of the wall clock have one each, to themselves.
    """

    def run(self, trials: Sequence[TrialSpec], done: Finished) -> None: ...


class LocalExecutor:
    """This machine: a process per core, then one trial at a time."""

    def run(self, trials: Sequence[TrialSpec], done: Finished) -> None:
        if trials[0].machine.clock == "virtual":
            _in_parallel(trials, done)
            return
        for trial in trials:
            done(trial, run_trial(trial))


def run_each(trials: Sequence[TrialSpec], finished: Finished, executor: Executor | None = None) -> None:
    """Run all trials on `executor` (this machine without one): first those of the virtual clock, then the others.

    `finished` is called in this process with each trial as soon as it has ended, well or not; nothing of it is kept
    here. A trial that fails, or whose process is killed, does not end the run. Ctrl-C does, at once, and ends every
    guest first.
    """
    virtual = [trial for trial in trials if trial.machine.clock == "virtual"]
    wall = [trial for trial in trials if trial.machine.clock == "wall"]
    with step(f"running {len(trials)} trials", total=len(trials), leads=True) as bar:

        def done(spec: TrialSpec, record: TrialRecord) -> None:
            finished(spec, record)
            _progress(bar, record)

        for group in (virtual, wall):
            if group:
                (executor or LocalExecutor()).run(group, done)


def run_trials(trials: Sequence[TrialSpec]) -> list[TrialRecord]:
    """Run all trials on this machine as `run_each` does; their records in the order of the trials."""
    records: dict[tuple[str, int], TrialRecord] = {}

    def keep(spec: TrialSpec, record: TrialRecord) -> None:
        records[spec.arm, spec.repetition] = record

    run_each(trials, keep)
    return [records[trial.arm, trial.repetition] for trial in trials]


def _in_parallel(trials: Sequence[TrialSpec], done: Finished) -> None:
    """Trials whose worker was killed run once more, each alone: it fails if that worker is killed too."""
    left: Sequence[TrialSpec] = trials
    while left:
        workers = min(len(left), len(os.sched_getaffinity(0)))
        with worker_pool(workers) as executor:
            suspects, left = submit_all(executor, left, workers, done)
        for suspect in suspects:
            with worker_pool(1) as executor:
                killed, _ = submit_all(executor, [suspect], 1, done)
            for spec in killed:
                done(spec, failed_record(spec, KILLED))


def submit_all(
    executor: concurrent.futures.Executor, trials: Iterable[TrialSpec], at_once: int, done: Finished
) -> tuple[list[TrialSpec], list[TrialSpec]]:
    """Hand trials to worker processes, so many at once.

    Not one more: those that were running are then known when the executor breaks, because a worker was killed. Returns
    these, and those that had not begun; both are empty where it did not break.
    """
    waiting = deque(trials)
    running: dict[concurrent.futures.Future[TrialRecord], TrialSpec] = {}
    while waiting or running:
        try:
            while waiting and len(running) < at_once:
                with unsignalled():  # a new worker inherits this: a terminal's Ctrl-C is none of its business
                    future = executor.submit(run_trial, waiting[0])
                running[future] = waiting.popleft()
        except concurrent.futures.BrokenExecutor:
            return list(running.values()), list(waiting)
        ended, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
        whole = [future for future in ended if not isinstance(future.exception(), concurrent.futures.BrokenExecutor)]
        for future in whole:
            done(running[future], future.result())
            del running[future]
        if len(whole) < len(ended):
            return list(running.values()), list(waiting)
    return [], []


@contextmanager
def worker_pool(workers: int) -> Iterator[concurrent.futures.ProcessPoolExecutor]:
    """Processes that run trials and die with this one; when the block is left by an error, they are killed at once.

    Nothing is asked of a worker then: it may wait for anything. Its guests die with it, and what it left in the folder
    for temporary files is removed.
    """
    # A guest whose worker dies in the moment in which it starts becomes a child of this process, not of init.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before, children = set(multiprocessing.active_children()), set(_children())
    with unsignalled():  # multiprocessing starts a process of its own here
        executor = concurrent.futures.ProcessPoolExecutor(
            workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=begin_worker,
            initargs=(os.getpid(), logs.telling()),
        )
    try:
        yield executor
    except BaseException:
        for worker in set(multiprocessing.active_children()) - before:
            worker.kill()
        executor.shutdown(wait=True, cancel_futures=True)
        _end_orphans(children)
        sweep(Path(tempfile.gettempdir()))
        raise
    executor.shutdown(wait=True)
    _end_orphans(children)


def begin_worker(parent: int, telling: bool) -> None:
    """What a worker does first; `telling`: it says what it does, as its parent does."""
    die_with_parent(parent)
    if telling:
        logs.tell()


def die_with_parent(parent: int) -> None:
    """End this process when `parent`, the process that started it, ends; at once if it already has."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended while this process was starting: no signal comes any more
        os._exit(1)


def _end_orphans(before: Collection[int]) -> None:
    """Kill and reap the guests of workers that have ended; the kernel does so too, a moment later."""
    for child, name in _children().items():
        if child not in before and name.startswith(STARTING):
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def _children() -> dict[int, str]:
    """This process's children, with their names."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            head, _, tail = status.read_text(errors="replace").rpartition(")")
            if int(tail.split()[1]) == os.getpid():
                found[int(status.parent.name)] = head.partition("(")[2]
    return found


def _progress(bar: Step, record: TrialRecord) -> None:
    bar.advance(1, f"{record.arm} {record.repetition}")
    log.debug("trial %s %d: %s, %s s", record.arm, record.repetition, record.status, record.seconds)
    if record.status == "failed":
        warn(f"trial {record.arm} {record.repetition} failed: {record.reason}")
