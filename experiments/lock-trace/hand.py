# SPDX-License-Identifier: MIT
"""Answers that a person can count on paper, beside what the trace says.

A load of the module makes threads meet by a handshake: who leads does not let go before the other is seen waiting
(guest/modules/lockknown). So each operation tells how many acquisitions wait, and in how many somebody waits or is
waited for, which is what a filter has to keep. A program of Debian's writes bytes one by one into a pipe: each write
takes the pipe's mutex once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .known import module_counts
from .locks.acquisitions import threads_of
from .locks.contended import releases_of, waited_for, waits_of
from .locks.events import ACQUIRED, CONTENDED, MUTEX, STREAM_LOG, STREAM_PER_LOCK, TYPES, WAITS, only
from .run import Run

#: By workload, of each operation that the load counts: waits, and acquisitions that are to be kept.
MEETS_IN_TEN = (1 / 20, 1 / 10)  # 100 of 1000 operations; both partners count theirs, one waits, both are kept
COUNTED = {
    "mutex": MEETS_IN_TEN,
    "rwsem": MEETS_IN_TEN,
    "trylock": (0, 0),  # who only tries does not wait
    "trylock-rwsem": (0, 0),
    "recursion": (0, 0),  # readers do not wait for each other
    "recursion-rwlock": (0, 0),
    "nonowner": (0, 0),
    "abandon": (1, 1),  # the waiter gives up, and so acquires nothing; the holder was waited for
    "abandon-rwsem": (1, 1),
    "chain": (4, 5),  # five threads: the first is counted, four wait for it and for those before them
}
#: A spin lock's threads meet on two CPUs alone. On one an interrupt tries the lock, and nobody waits.
ON_ONE = {"share-50": (0, 0), "share-500": (0, 0), "irq": (0, 0)}
ON_TWO = {
    "share-50": (1 / 40, 1 / 20),
    "share-500": (1 / 4, 1 / 2),
    "spin-irq": MEETS_IN_TEN,
    "rwlock": MEETS_IN_TEN,
    "migrate": (1, 2),
    # Of four cases, the first thread counts each: an interrupt waits for its task, and a task for the other one.
    "irq": (1 / 2, 1),
}
#: Arm contended, of each operation: waits, releases that somebody waited for, and pairs of these. Of n that wait in a
#: row the last has waited for n, the one before for n - 1; of one who gave up, the release that came next is kept.
MEETS_ONCE = (1 / 20,) * 3
LET_GO = {
    "mutex": MEETS_ONCE,
    "rwsem": MEETS_ONCE,
    "recursion": (0, 0, 0),
    "nonowner": (0, 0, 0),
    "abandon": (1, 1, 1),
    "abandon-rwsem": (1, 1, 1),
    "chain": (4, 4, 4 + 3 + 2 + 1),
}
LET_GO_ON_TWO = {
    "share-50": (1 / 40,) * 3,
    "share-500": (1 / 4,) * 3,
    "spin-irq": MEETS_ONCE,
    "rwlock": MEETS_ONCE,
    "migrate": (1, 1, 1),
    "irq": (1 / 2,) * 3,
}
#: The workload in which each operation is a write to a pipe, and the callers of its mutex: in 6.1, and in 7.3, where a
#: write that finds too few pages takes it elsewhere.
WRITES, PIPE_WRITES = "debian-dd", ("pipe_write+", "anon_pipe_write+", "anon_pipe_prefill_and_lock+")


def hand_rows(run: Run) -> list[dict[str, Any]]:
    """VALIDATE and CONTENDED: rows of `by_hand`; none where nothing can be counted on paper, or events were lost."""
    if run.gaps:
        return []
    operations = run.answer["operations"]
    if run.status.arm == CONTENDED:
        return _let_go(run, operations)
    if run.workload == WRITES:
        # The same function takes a lock of the pipe's readers, too, to wake them.
        mutex = run.named[(run.named["type"] == TYPES[MUTEX]) & run.named["acquired"].notna()]
        wrote = int(mutex["caller"].str.startswith(PIPE_WRITES).sum())
        return [_row("acquisitions of a pipe's mutex by write()", operations, wrote)]
    counted = COUNTED | (ON_ONE if run.trial.clock == "virtual" else ON_TWO)
    if not run.counted or run.workload not in counted:
        return []
    waits, kept = counted[run.workload]
    of_module = run.events[np.isin(run.events["lock"], module_counts(run)["lock"].to_numpy(np.uint64))]
    traced = {
        "waits for the module's locks": (waits, only(of_module, STREAM_LOG)["kind"] == WAITS),
        "acquisitions of them that per-lock keeps": (kept, only(of_module, STREAM_PER_LOCK)["kind"] == ACQUIRED),
    }
    return [_row(what, each * operations, int(found.sum())) for what, (each, found) in traced.items()]


def _let_go(run: Run, operations: float) -> list[dict[str, Any]]:
    counted = LET_GO if run.trial.clock == "virtual" else LET_GO | LET_GO_ON_TWO
    if not run.counted or run.workload not in counted:
        return []
    of_module = run.events[np.isin(run.events["lock"], module_counts(run)["lock"].to_numpy(np.uint64))]
    waits, releases = waits_of(of_module), releases_of(of_module)
    pairs = waited_for(waits, releases)
    who, whom = (
        threads_of(table.take(pairs[name].to_numpy())) for name, table in (("wait", waits), ("release", releases))
    )
    found = (len(waits), len(releases), int((who != whom).sum()))
    what = ("waits for the module's locks", "releases of them that were waited for", "waits of a thread for another")
    rows = [_row(*row) for row in zip(what, (each * operations for each in counted[run.workload]), found, strict=True)]
    return [*rows, _row("waits of a thread for itself", 0, int((who == whom).sum()))]


def _row(what: str, by_hand: float, traced: int) -> dict[str, Any]:
    return {"what": what, "by_hand": by_hand, "traced": traced, "difference": abs(by_hand - traced)}
