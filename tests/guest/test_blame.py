# SPDX-License-Identifier: MIT
"""Blame of a load whose structure is known: lockknown's chain. A takes a mutex; B, C and D come in this order and wait;
A lets go, and each in its turn holds the lock for a chosen time.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from experiments.lock_trace.locks.blame import blame_table
from experiments.lock_trace.run import Run

from harness.paths import EXPERIMENTS
from tests.trials import made_experiment, run_arms

KERNEL = "modern-6.1-bare"
ROUNDS, HOLD = 20, 200_000
#: Waits of a round at the waiters' site, and pairs of a waiter and another waiter whose turn came first.
WAITERS, AFTER_ANOTHER = 3, 2 + 1
#: The same hold by a thread that is alone, and whose clock is the module's: what it takes.
ALONE = "cd /run/krepro/out/$KREPRO_WORKLOAD; lockload load --kind mutex --threads 1 --ops {rounds} --hold {hold} -o ."
CHAIN = "traced lockload chain --kind {kind} --threads 4 --ops {rounds} --hold {hold} -o ."


@pytest.fixture(scope="module", params=["all", "per-lock"])
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """By kind of lock, and `KIND-0` without the chosen time."""
    target: Path = tmp_path_factory.mktemp("blame")
    commands = {
        f"{kind}{name}": CHAIN.format(kind=kind, rounds=ROUNDS, hold=hold)
        for kind in ("mutex", "rwsem")
        for name, hold in (("", HOLD), ("-0", 0))
    }
    commands |= {f"alone-{hold}": ALONE.format(rounds=ROUNDS, hold=hold) for hold in (0, HOLD)}
    arm = {"kernel": KERNEL, "clock": "virtual", "icount_shift": 0, "session": "mailbox"}
    arm |= {"params": {"trace": request.param}}
    experiment = made_experiment(commands, {"a": arm}, collect=["kallsyms"])
    trial = run_arms(experiment, EXPERIMENTS / "lock-trace", target)["a"]
    return {name: Run(trial, name) for name in commands}


def at_the_lock(run: Run, key: list[str]) -> pd.DataFrame:
    """The blame of lockknown's lock."""
    table = blame_table(run.named, run.blamed, ["class", *key])
    return table[table["class"].str.startswith("known_shared")].reset_index(drop=True)


def sites(table: pd.DataFrame) -> tuple[str, str]:
    """Where B, C and D take the lock, and where A does, who never waits. The compiler makes one function of both."""
    (waiter,) = set(table["caller"])
    (holder,) = set(table["holder_caller"]) - {waiter}
    assert {waiter.partition("+")[0], holder.partition("+")[0]} <= {"chain_thread", "chain_waiter"}
    return waiter, holder


@pytest.mark.parametrize("kind", ["mutex", "rwsem"])
def test_the_table_is_the_known_answer(runs, kind):
    run = runs[kind]
    assert run.gaps is None
    table = at_the_lock(run, ["caller"])
    waiter, holder = sites(table)
    sides = {(row.caller, row.holder_caller): (row.waits, row.holds) for row in table.itertuples()}
    assert sides == {
        (waiter, holder): (WAITERS * ROUNDS, ROUNDS),
        # D waits for C and for B: that is one wait, and B's hold is one hold.
        (waiter, waiter): ((WAITERS - 1) * ROUNDS, (WAITERS - 1) * ROUNDS),
    }


@pytest.mark.parametrize("kind", ["mutex", "rwsem"])
def test_the_time_is_that_of_the_chosen_hold(runs, kind):
    with_hold, without = runs[kind], runs[f"{kind}-0"]
    alone = [runs[f"alone-{hold}"].answer["elapsed_ns"] for hold in (HOLD, 0)]
    hold_ns = (alone[0] - alone[1]) / ROUNDS
    assert hold_ns > HOLD
    times = []
    for run in (with_hold, without):
        table = at_the_lock(run, ["caller"])
        others = table[table["holder_caller"] == sites(table)[0]]
        times.append(run.status.nanoseconds(float(others["blamed_total"].sum())))
    assert (times[0] - times[1]) / (AFTER_ANOTHER * ROUNDS) == pytest.approx(hold_ns, rel=0.01)


def test_each_thread_has_waited_for_those_before_it(runs):
    table = at_the_lock(runs["mutex"], ["thread"])
    pairs = set(zip(table["thread"], table["holder_thread"], strict=True))
    order = sorted({thread for pair in pairs for thread in pair}, key=lambda one: sum(one == a for a, _ in pairs))
    assert pairs == {(order[i], order[j]) for i in range(4) for j in range(i)}
    assert (table["waits"] == ROUNDS).all()
