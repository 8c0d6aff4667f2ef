# SPDX-License-Identifier: MIT
"""Who waited for whom: waits laid over holds, chains over several locks, tables and stacks of them."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from experiments.lock_trace.locks.acquisitions import COLUMNS
from experiments.lock_trace.locks.blame import DEEPEST, blame_table, blamed, chains, stacks, threads
from experiments.lock_trace.report import flows
from experiments.lock_trace.report.flows import write_flows
from experiments.lock_trace.report.program import with_names
from hypothesis import given
from hypothesis import strategies as st

from harness.measure.tracer import names_of_threads

NAN = float("nan")


def taken(*rows: tuple[int, int, float, float, float], **others: object) -> pd.DataFrame:
    """Acquisitions: lock, pid, begin, acquired, end. Who was not served at once was contended."""
    frame = pd.DataFrame(rows, columns=["lock", "pid", "begin", "acquired", "end"])
    frame["contended"] = ~(frame["begin"] == frame["acquired"])
    frame["abandoned"] = frame["acquired"].isna()
    for name in COLUMNS:
        if name not in frame:
            frame[name] = 0
    return frame.assign(**others)[list(COLUMNS)].astype(COLUMNS)


def pairs_of(table: pd.DataFrame) -> list[tuple[int, int, float, float]]:
    pairs = blamed(table)
    return list(pairs.itertuples(index=False, name=None))


QUEUE = taken((1, 10, 0, 0, 50), (1, 11, 10, 51, 60), (1, 12, 20, 61, 70))


def test_each_wait_has_the_holders_that_it_had():
    assert pairs_of(QUEUE) == [(1, 0, 10, 50), (2, 0, 20, 50), (2, 1, 51, 60)]


def test_another_lock_or_another_life_of_it_is_none_of_its_holders():
    assert pairs_of(taken((1, 10, 0, 0, 50), (2, 11, 10, 51, 60))) == []
    assert pairs_of(taken((1, 10, 0, 0, 50), (1, 11, 10, 51, 60), generation=[0, 1])) == []


def test_readers_are_blamed_each():
    table = taken((1, 10, 0, 0, 40), (1, 11, 5, 5, 30), (1, 12, 10, 41, 50))
    assert pairs_of(table) == [(2, 0, 10, 40), (2, 1, 10, 30)]


def test_a_wait_that_was_given_up_has_its_holder():
    assert pairs_of(taken((1, 10, 0, 0, 50), (1, 11, 10, NAN, 30))) == [(1, 0, 10, 30)]


@pytest.mark.parametrize("row", [(1, 10, 0, 0, NAN), (1, 10, 0, NAN, NAN)])
def test_who_was_not_seen_to_let_go_is_not_blamed(row):
    assert pairs_of(taken(row, (1, 11, 10, 51, 60))) == []


def test_who_did_not_wait_blames_nobody():
    table = taken((1, 10, 0, 0, 50), (1, 11, 10, 51, 60)).assign(contended=False)
    assert pairs_of(table) == []
    assert pairs_of(taken()) == []


SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10), st.integers(1, 10)), max_size=30)


@given(SPANS)
def test_pairs_are_those_of_all_with_all(spans):
    table = taken(*((1, i, a, a + wait, a + wait + hold) for i, (a, wait, hold) in enumerate(spans)))
    expected = []
    for i, j in itertools.permutations(range(len(table)), 2):
        begin = max(table.at[i, "begin"], table.at[j, "acquired"])
        end = min(table.at[i, "acquired"], table.at[j, "end"])
        if table.at[i, "contended"] and end > begin:
            expected.append((i, j, begin, end))
    assert sorted(pairs_of(table)) == sorted(expected)


#: C waits for a lock of B's, who waits for one of A's.
CHAIN = taken((1, 10, 0, 0, 50), (2, 11, 5, 5, 70), (1, 11, 10, 50, 60), (2, 12, 20, 71, 80))


def links(table: pd.DataFrame) -> list[tuple[int, int, int, int, float, float]]:
    return list(chains(table, blamed(table)).itertuples(index=False, name=None))


def test_a_chain_goes_over_locks():
    assert links(CHAIN) == [(0, 0, 3, 1, 20, 50), (0, 1, 2, 0, 20, 50)]


def test_a_queue_at_one_lock_is_no_chain():
    assert links(QUEUE) == []


def test_an_interrupt_of_the_holder_that_waits_is_another_thread():
    table = CHAIN.assign(context=np.array([0, 0, 2, 0], dtype=np.uint8))
    assert links(table) == []
    assert threads(table)[2] == "pid 11 interrupt"


def test_idle_tasks_of_two_cpus_are_two():
    idle = taken((1, 0, 0, 0, 1), (2, 0, 5, 5, 6), cpu=[0, 1])
    assert threads(idle) == ["cpu 0 idle", "cpu 1 idle"]


def test_two_that_wait_for_each_other_end_a_chain():
    # A dead lock, until A gives up.
    table = taken((1, 10, 0, 0, 90), (2, 11, 0, 0, 99), (2, 10, 10, NAN, 80), (1, 11, 20, 91, 95))
    ends = [chain for chain, *_ in links(table)]
    assert ends == [0, 0, 1, 1]


def test_a_chain_is_followed_so_far_and_no_farther():
    n = DEEPEST + 4
    holds = [(i, i, 0, 0, 1000) for i in range(n)]
    waits = [(i - 1, i, 10, 500, 600) for i in range(1, n)]
    assert max(link for _, link, *_ in links(taken(*holds, *waits))) == DEEPEST - 1


def named(table: pd.DataFrame) -> pd.DataFrame:
    sites = [f"site{pid}" for pid in table["pid"]]
    lock = [f"lock{one}" for one in table["lock"]]
    return table.assign(**{"class": lock}, type="mutex", caller=sites, thread=threads(table))


def test_the_table_sums_by_lock_and_both_sites():
    both = pd.concat([QUEUE, QUEUE], ignore_index=True)
    both.loc[3:, ["begin", "acquired", "end"]] += 1000
    table = blame_table(named(both), blamed(both), ["class", "type", "caller"])
    rows = table.drop(columns=["class", "type"]).itertuples(index=False, name=None)
    assert list(rows) == [
        ("site11", "site10", 2, 2, 80, 40, 100),
        ("site12", "site10", 2, 2, 60, 30, 100),
        ("site12", "site11", 2, 2, 18, 9, 18),
    ]


def test_a_hold_that_several_wait_for_is_one_hold():
    table = blame_table(named(QUEUE).assign(caller="x"), blamed(QUEUE), ["class", "caller"])
    (row,) = table.itertuples(index=False, name=None)
    assert row == ("lock1", "x", "x", 2, 2, 40 + 30 + 9, 40, 50 + 9)


def test_stacks_weigh_what_the_waits_took():
    table = named(CHAIN)
    pairs = blamed(CHAIN)
    folded = dict(stacks(table, pairs, chains(CHAIN, pairs)).itertuples(index=False, name=None))
    direct = "pid 12;site12 waits for lock2 (mutex);site11 holds it (pid 11)"
    assert folded == {
        "pid 11;site11 waits for lock1 (mutex);site10 holds it (pid 10)": 40,
        f"{direct};site11 waits for lock1 (mutex);site10 holds it (pid 10)": 30,
        direct: 20,
    }
    assert sum(folded.values()) == (pairs["end"] - pairs["begin"]).sum()


def test_threads_have_the_names_of_those_that_ended_and_of_those_that_did_not(tmp_path):
    line = "  anna-12 [001] d..2. 3.141: sched_process_exit: comm=anna b pid=12 prio=120\n"
    (tmp_path / "exits").write_text(f"# tracer: nop\n{line}")
    (tmp_path / "threads").write_text("1 init\n12 another, later\nnonsense\n")
    names = names_of_threads(tmp_path / "exits", tmp_path / "threads")
    assert names == {12: "anna b", 1: "init"}
    pids = pd.Series([12, 13, 0, 12])
    of = ["pid 12", "pid 13", "cpu 0 idle", "pid 12 softirq"]
    assert with_names(of, pids, names) == ["anna b (pid 12)", "pid 13", "cpu 0 idle", "anna b (pid 12) softirq"]


def test_a_time_line_without_a_wait_is_empty(tmp_path):
    assert write_flows(named(QUEUE.iloc[:1]), blamed(QUEUE.iloc[:1]), 1e9, tmp_path / "x") == 0
    assert json.loads((tmp_path / "x").read_text())["traceEvents"] == []


def test_a_time_line_has_a_slice_each_and_an_arrow_for_each_pair(tmp_path):
    assert write_flows(named(QUEUE), blamed(QUEUE), 1e9, tmp_path / "x") == 3
    events = json.loads((tmp_path / "x").read_text())["traceEvents"]
    kinds = [event["ph"] for event in events]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"M": 3, "X": 2 + 2, "s": 3, "f": 3}
    wait = next(event for event in events if event["ph"] == "X" and event["cat"] == "waits for")
    assert (wait["name"], wait["ts"], wait["dur"]) == ("waits for lock1", 0.01, 0.041)


def test_of_many_pairs_a_time_line_has_the_longest(tmp_path, monkeypatch):
    monkeypatch.setattr(flows, "MOST", 1)
    assert write_flows(named(QUEUE), blamed(QUEUE), 1e9, tmp_path / "x") == 1
    events = json.loads((tmp_path / "x").read_text())["traceEvents"]
    assert [event["dur"] for event in events if event["ph"] == "X"] == [0.041, 0.05]
