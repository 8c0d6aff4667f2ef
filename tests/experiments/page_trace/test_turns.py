# SPDX-License-Identifier: MIT
"""Turns against naive ones, whatever the chunks are; the longest of them; the time line that is written of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from experiments.page_trace.report import turns as turns_module
from experiments.page_trace.report.spaces import PAGE_BITS
from experiments.page_trace.report.timeline import PAGES, ProgramSets, events, program_names
from experiments.page_trace.report.turns import COLUMNS, SEVERAL, SUMS, Turns, chosen
from experiments.page_trace.trace.maps import Mapping, Maps
from experiments.page_trace.trace.records import EXEC, EXIT, LOST, VISIT, WRITE, decode
from experiments.page_trace.trace.tables import fill
from experiments.page_trace.trace.workingset import WorkingSet
from hypothesis import example, given
from hypothesis import strategies as st

from harness.measure.traceevents import write_events
from tests.experiments.page_trace.traces import record, words_of

TELL = ["space", "tid", "function", "begin", "end", "pages", *SUMS]
#: Space, page, function, thread, whether it writes, time since the one before, for no thread begins two at once; or
#: what ends a turn, of which thread.
STEPS = st.lists(
    st.one_of(
        st.tuples(*(st.integers(0, n) for n in (1, 5, 2, 2, 1)), st.integers(1, 4)),
        st.tuples(st.sampled_from([LOST, EXEC, EXIT]), st.integers(0, 2)),
    ),
    max_size=120,
)


def written(steps):
    """The records of these steps, where each function has two instructions."""
    time, rows = 0, []
    for at, step in enumerate(steps):
        if len(step) == 2:
            kind, tid = step
            rows.append(record(1 if kind == LOST else 0, time, kind, 100 + tid))
            continue
        space, page, function, tid, write, waited = step
        time += waited
        ip = 0x1000 * (function + 1) + at % 2
        rows.append(record(space << PAGE_BITS | page, time, VISIT, 100 + tid, WRITE * write, ip))
    return words_of(rows)


@dataclass
class One:
    space: int
    function: int
    begin: int
    last: int
    visits: int = 0
    writes: int = 0
    fresh: int = 0
    seen: set[int] = field(default_factory=set)


def naive(words):
    """The same, a record at a time."""
    records, found, every = decode(words), [], set()
    at: dict[int, int] = {}  # the page of each thread about which something is known
    now: dict[int, One] = {}

    def end(tid, when):
        one = now.pop(tid)
        sums = (1, one.visits, one.writes, one.fresh)
        found.append((one.space, tid, one.function, one.begin, when, len(one.seen), *sums))

    rows = zip(*(column.tolist() for column in (records.type, records.tid, records.page)), strict=True)
    more = zip(*(column.tolist() for column in (records.time_ns, records.write, records.ip)), strict=True)
    lost: set[int] = set()  # threads that ended behind a loss
    for (kind, tid, page), (time, write, ip) in zip(rows, more, strict=True):
        if kind == LOST:
            at.clear()
        elif kind in (EXEC, EXIT):
            if tid in at and tid in now:
                end(tid, time)
            elif tid in now:
                lost.add(tid)
            at.pop(tid, None)
        elif at.get(tid) != page:
            space, function = page >> PAGE_BITS, ip >> 12
            if tid in now and tid not in at:
                end(tid, now[tid].last)
            elif tid in now and (now[tid].space, now[tid].function) != (space, function):
                end(tid, time)
            lost.discard(tid)
            one = now.setdefault(tid, One(space, function, time, time))
            one.last, at[tid] = time, page
            one.visits, one.writes, one.fresh = one.visits + 1, one.writes + write, one.fresh + (page not in every)
            one.seen.add(page)
            every.add(page)
    for tid in list(now):
        end(tid, now[tid].last if tid in lost else int(records.time_ns.max()))
    return sorted(found)


def turns_of(words, size, most=1000):
    turns = Turns(lambda ips: [f"f{ip >> 12}" for ip in ips], most)
    fill((decode(words[i : i + size]) for i in range(0, len(words), size)), [turns])
    return turns, turns.frame()


#: One turn that goes on over several chunks, and comes back to pages.
@example([(0, page, 0, 0, 0, 1) for page in (0, 1, 0, 2, 3, 1, 0, 4)], 2)
@given(STEPS, st.integers(1, 40))
def test_turns_are_the_naive_ones_whatever_the_chunks_are(steps, size):
    words = written(steps)
    turns, frame = turns_of(words, size)
    rows = [
        (space, tid, int(turns.functions[function][1:]), *rest)
        for space, tid, function, *rest in frame[TELL].to_numpy().tolist()
    ]
    assert sorted(rows) == naive(words)


@given(STEPS, st.integers(1, 40), st.integers(0, 9))
def test_the_longest_are_told_and_those_between_summed_without_a_gap(steps, size, most):
    words = written(steps)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(turns_module, "_WAITING", 1)
        _, frame = turns_of(words, size, most)
    every = naive(words)
    told = frame[frame["function"] != SEVERAL]
    lengths = sorted((end - begin for _, _, _, begin, end, *_ in every), reverse=True)
    assert sorted((told["end"] - told["begin"]).tolist(), reverse=True) == lengths[:most]
    assert frame[[*SUMS]].sum().tolist() == [sum(row[6 + i] for row in every) for i in range(len(SUMS))]
    for key, part in frame.groupby(["space", "tid"]):
        assert (part["begin"].to_numpy()[1:] >= part["end"].to_numpy()[:-1]).all()
        several = (part["function"] == SEVERAL).to_numpy()
        assert not (several[1:] & several[:-1]).any()
        whole = [(begin, end) for space, tid, _, begin, end, *_ in every if (space, tid) == key]
        assert (part["begin"].min(), part["end"].max()) == (min(whole)[0], max(end for _, end in whole))


def test_a_choice_that_was_made_before_changes_nothing():
    words = written([(0, at % 6, at % 3, 0, 0, at * 7 % 5) for at in range(100)])
    whole = turns_of(words, 1000, 1000)[1]
    assert chosen(chosen(whole, 20), 7).equals(chosen(whole, 7))
    assert list(whole) == list(COLUMNS)


def test_each_programs_pages_in_use_are_together_those_of_the_whole():
    words = written([(at // 70 % 2, at * 5 % 6, 0, at % 3, 0, 3) for at in range(300)])
    sets, whole = ProgramSets(20, 50), WorkingSet(20, 50, [20])
    fill((decode(words[i : i + 32]) for i in range(0, len(words), 32)), [sets, whole])
    frame = sets.frame()
    assert sorted(frame["space"].unique()) == [0, 1]
    assert frame.groupby("begin_ns")["pages"].sum().tolist() == whole.frame()["pages"].tolist()
    assert frame["pages"].max() > 3


def test_a_time_line_has_a_track_for_each_thread_in_each_program(tmp_path):
    """Thread 100 visits pages 1, 2, 1 in f1 and page 3 in f2; then it is another program; 101 has one visit."""
    visits = [(0, 1, 0, 0, 1, 5), (0, 2, 0, 0, 0, 5), (0, 1, 0, 0, 0, 5), (0, 3, 1, 0, 0, 10), (0, 1, 2, 1, 1, 1)]
    turns, frame = turns_of(written([*visits, (EXEC, 0), (1, 1, 0, 0, 1, 4), (1, 2, 1, 0, 0, 2)]), 3, most=4)
    maps = {0: Maps([Mapping(0x400, 0x401, True, False, "/bin/sh")]), 1: Maps([])}
    sets = ProgramSets(10, 3).frame()
    write_events(events(frame, turns.functions, sets, program_names(maps, 0, "bin/first")), tmp_path / "x")
    told = json.loads((tmp_path / "x").read_text())["traceEvents"]
    names = [(event["pid"], event["tid"], event["args"]["name"]) for event in told if event["ph"] == "M"]
    tracks = [(1, 100, "thread 100"), (1, 101, "thread 101"), (2, 100, "thread 100")]
    assert names == [(1, 0, "first"), (2, 0, "program 2"), *tracks]
    slices = [event for event in told if event["ph"] == "X"]
    shown = [(one["pid"], one["tid"], one["name"], one["ts"], one["dur"]) for one in slices]
    assert shown == [
        (1, 100, "f1", 0.005, 0.02),
        (1, 100, "f2", 0.025, 0.001),
        (1, 101, "f3", 0.026, 0.006),
        (2, 100, "f1", 0.03, 0.002),
        (2, 100, "(several)", 0.032, 0.0),
    ]
    assert slices[0]["args"] == {"visits": 3, "pages": 2, "writes": 1, "pages first touched": 2}
    assert slices[-1]["args"] == {"turns": 1, "visits": 1, "writes": 0, "pages first touched": 1}


def test_a_counter_is_told_where_it_changes():
    words = written([(0, page, 0, 0, 0, waited) for page, waited in ((0, 10), (1, 40), (0, 5), (1, 20))])
    turns, sets = Turns(lambda ips: ["f" for _ in ips]), ProgramSets(20, 4)
    fill([decode(words)], [turns, sets])
    told = [one for one in events(turns.frame(), turns.functions, sets.frame(), {}) if one["ph"] == "C"]
    assert [(one["name"], one["ts"], one["args"]["pages"]) for one in told] == [(PAGES, 0.0, 1), (PAGES, 0.04, 2)]
