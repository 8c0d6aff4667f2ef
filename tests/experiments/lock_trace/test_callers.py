# SPDX-License-Identifier: MIT
"""Stacks of those who waited and of those who held: which event has which, and where the part of the lock ends."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.lock_trace.locks.acquisitions import acquisitions, with_conflicts
from experiments.lock_trace.locks.blame import blame_table, blamed, chains, stacks
from experiments.lock_trace.locks.callers import Stacks, function_of, with_callers
from experiments.lock_trace.locks.events import ACQUIRED, ATTEMPT, RELEASE, STREAM_PER_LOCK, WAITS
from experiments.lock_trace.locks.kerneltables import read_stacks
from experiments.lock_trace.report.program import with_stacks

from harness.errors import RunError
from harness.measure.symbols import parse_system_map, with_kallsyms
from tests.lock_traces import Made, encode

FUNCTIONS = {0x1000: "_stext", 0x1001: "mutex_lock", 0x1100: "helper", 0x1200: "sys_one", 0x1300: "sys_two",
             0x1400: "release", 0x1500: "_etext"}  # fmt: skip
SYMBOLS = with_kallsyms(
    parse_system_map("".join(f"{address:016x} T {name}\n" for address, name in FUNCTIONS.items())),
    f"{0x9000:016x} t follow\t[mine]\n",
)
HELPER = 0x1110
TABLE = (
    "stack\tevents\tcalls\n"
    "0\t3\t-\n"
    "5\t1\t0x1010,0x1110,0x1210\n"  # mutex_lock, helper, sys_one
    "7\t2\t0x1010,0x1110,0x1310\n"  # mutex_lock, helper, sys_two
    "8\t1\t0x1408,0x1118,0x9008\n"  # an unlock inlined into helper, called by a module
)


@pytest.fixture
def table(tmp_path):
    (tmp_path / "stacks.tsv").write_text(TABLE)
    return Stacks(read_stacks(tmp_path / "stacks.tsv"), SYMBOLS, where="stacks.tsv")


def test_callers_begin_behind_the_function_that_asked_for_the_lock(table):
    assert (len(table), table.without) == (3, 3)
    assert table.callers(5, HELPER) == ("sys_one",)
    assert table.callers(8, 0x1104) == ("follow [mine]",), "by its function, where the place is another"
    assert table.callers(5, 0x1480) == ("mutex_lock", "helper", "sys_one"), "all, where it is not in the stack"
    assert table.callers(0, HELPER) == table.callers(6, HELPER) == ()


def test_a_function_is_a_place_without_its_offset():
    assert [function_of(text) for text in ("helper+0x10", "follow+0x8 [mine]", "0x10")] == [
        *("helper", "follow [mine]"), "0x10",
    ]  # fmt: skip


def trace(**numbers: int):
    """Thread 0 holds the lock while thread 1 waits for it, twice; the numbers of the stacks of the first time."""
    kinds = [(ATTEMPT, 0, 1), (ACQUIRED, 0, 1), (ATTEMPT, 1, 2), (WAITS, 1, 2), (RELEASE, 0, 1), (ACQUIRED, 1, 2),
             (RELEASE, 1, 2)]  # fmt: skip
    twice = [*kinds, *((kind, thread, number + 2) for kind, thread, number in kinds)]
    log = encode([Made(0, kind, 1, thread, number) for kind, thread, number in twice])
    log["stream"], log["order"], log["site"] = STREAM_PER_LOCK, 0, HELPER
    for kind, field, name in ((WAITS, "order", "wait"), (RELEASE, "depth", "hold")):
        at = np.flatnonzero(log["kind"] == kind)
        log[field][at] = 7
        log[field][at[np.argmin(log["time"][at])]] = numbers[name]
    for i in np.flatnonzero(log["kind"] == RELEASE).tolist():
        own = log[(log["kind"] == ACQUIRED) & (log["cpu"] == log["cpu"][i]) & (log["time"] < log["time"][i])]
        log["order"][i] = own["time"].max()
    return log


def named(log, table):
    events = with_conflicts(log)
    taken = acquisitions(events).reset_index(drop=True)
    texts = {"class": "lock", "type": "mutex", "caller": "helper+0x10", "thread": [f"pid {n}" for n in taken["pid"]]}
    return with_stacks(with_callers(taken.assign(**texts), events, table))


def test_each_wait_and_each_hold_has_its_own_stack(table):
    taken = named(trace(wait=5, hold=8), table).sort_values("acquired")
    assert taken["wait_callers"].tolist() == [(), ("sys_one",), (), ("sys_two",)]
    assert taken["hold_callers"].tolist() == [("follow [mine]",), ("sys_two",), ("sys_two",), ("sys_two",)]


def test_a_table_by_stacks_tells_the_calls_apart(table):
    taken = named(trace(wait=5, hold=8), table)
    rows = blame_table(taken, blamed(taken), ["class", "stack"])[["stack", "holder_stack", "waits"]]
    assert sorted(rows.itertuples(index=False, name=None)) == [
        ("helper+0x10 ← sys_one", "helper+0x10 ← follow [mine]", 1),
        ("helper+0x10 ← sys_two", "helper+0x10 ← sys_two", 1),
    ]


def test_a_flame_has_the_waiters_callers_below_and_the_holders_above(table):
    taken = named(trace(wait=5, hold=8), table)
    pairs = blamed(taken)
    folded = stacks(taken, pairs, chains(taken, pairs))["stack"].tolist()
    first, second = (f"pid {n}" for n in dict.fromkeys(taken.sort_values("acquired")["pid"]))
    middle = f"helper+0x10 waits for lock (mutex);helper+0x10 holds it ({first})"
    assert sorted(folded) == [
        f"{second};sys_one;{middle};follow [mine]",
        f"{second};sys_two;{middle};sys_two",
    ]


@pytest.mark.parametrize("calls", ["0x1010,,0x1110", "-", "0x1" + "0" * 20])
def test_a_damaged_stack_is_refused_with_its_table(tmp_path, calls):
    (tmp_path / "stacks.tsv").write_text(f"stack\tevents\tcalls\n5\t1\t{calls}\n")
    with pytest.raises(RunError, match=r"stacks\.tsv: column calls"):
        Stacks(read_stacks(tmp_path / "stacks.tsv"), SYMBOLS, where="stacks.tsv")
