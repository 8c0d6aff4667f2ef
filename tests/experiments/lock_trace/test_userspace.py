# SPDX-License-Identifier: MIT
"""The kernel's filters, compiled from the patches, between real threads: against the locks' own words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from experiments.lock_trace.userspace.build import build
from experiments.lock_trace.userspace.runs import CHECKS, FAULTS, Check, check, pair_cycles

BUSY = Check("spin", 1, hold=20)


#: On a busy host one thread may be done before the other one begins.
TRIES = 20


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("threads"))


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("arm", ["per-lock", "contended"])
@pytest.mark.deep
def test_what_was_waited_for_is_kept_and_nothing_else(program: Path, arm: str, name: str):
    load = CHECKS[name]
    for _ in range(TRIES):
        found = check(program, arm, load)
        assert {fault: found[fault] for fault in FAULTS} == dict.fromkeys(FAULTS, 0)
        assert found["acquisitions"] == load.threads * load.ops
        assert found["kept"] >= found["failed"]
        if found["failed"] > 0 or not load.hold or load.locks > 2:
            return
    pytest.fail("no thread ever met another one at a lock")


def replaced(name: str, old: str, new: str) -> Callable[[str, str], str]:
    def change(file: str, text: str) -> str:
        assert file != name or text.count(old) == 1
        return text.replace(old, new) if file == name else text

    return change


#: Changes of the kernel's files that must be seen, and what they make wrong.
MUTATIONS = {
    "a waiter does not register": (
        *("lock_trace_waits.c", "entry->last = said->sequence;", "entry->waiting = 0;"),
        {"holders_dropped"},
    ),
    "a wait never ends": (
        *("lock_trace_waits.c", "word_step(lock, leaves_mark ? 0 : -1);", "word_step(lock, 0), entry->waiting++;"),
        {"without_waiter"},
    ),
    "all that is kept has waited": (
        *("lock_trace_filter.c", "likely(answer == LOCK_TRACE_NOBODY_WAITED)", "!(hold->flags & HOLD_KEPT)"),
        {"holders_dropped"},
    ),
    "everything is kept": (
        *("lock_trace_filter.c", "likely(answer == LOCK_TRACE_NOBODY_WAITED)", "false"),
        {"without_waiter"},
    ),
    "a release is not counted": (
        *("lock_trace_filter.c", "lock_trace_drop(lock_trace_events_of(hold) + 1);", "lock_trace_drop(2);"),
        {"balance"},
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.deep
def test_a_filter_that_does_something_else_is_found_out(tmp_path: Path, mutation: str):
    name, old, new, wrong = MUTATIONS[mutation]
    program = build(tmp_path, replaced(name, old, new))
    # By chance nobody may wait in one run on a busy host.
    found = [check(program, "per-lock", BUSY) for _ in range(4)]
    assert wrong <= {fault for one in found for fault in FAULTS if one[fault]}


def test_the_papers_filter_drops_who_waited_or_keeps_who_did_not(program: Path):
    found = [check(program, "paper", load) for load in CHECKS.values()]
    assert sum(one["without_waiter"] for one in found) > 0
    assert all(one["balance"] == one["untracked"] == 0 for one in found)


@pytest.mark.parametrize(("kind", "locks"), [("spin", 1), ("spin", 100), ("mutex", 1)])
def test_a_pair_costs_no_more_than_unfiltered(program: Path, kind: str, locks: int):
    """In real cycles; the least of several, as the host may be busy."""
    least = {
        arm: min(pair_cycles(program, arm, kind, locks, 1, 100_000) for _ in range(5))
        for arm in ("off", "all", "per-lock")
    }
    assert least["per-lock"] - least["off"] <= least["all"] - least["off"]
