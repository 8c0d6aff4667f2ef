# SPDX-License-Identifier: MIT
"""Lock traces: the file's checks, sums that must hold, acquisitions put together, names, the kernel's tables."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from experiments.lock_trace.locks.acquisitions import acquisitions, by_key, failures, first_attempts, with_conflicts
from experiments.lock_trace.locks.blocks import block_slices, block_table, longest, with_blocks
from experiments.lock_trace.locks.classes import DYNAMIC, StaticData, call_sites, classes_of, lock_classes
from experiments.lock_trace.locks.events import (
    ABANDONED,
    ACQUIRED,
    ATTEMPT,
    CONFLICT,
    EVENT,
    FAILED,
    INIT,
    READ,
    RELEASE,
    SHARED,
    SPIN,
    STREAM_PER_LOCK,
    VALIDATE,
    WAITS,
    EventLog,
    describe,
    read_events,
)
from experiments.lock_trace.locks.kerneltables import read_locks, read_sites
from experiments.lock_trace.locks.lockstat import read_lock_stat
from experiments.lock_trace.locks.status import LockTraceStatus, accounting, log_loss, read_status
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.errors import RunError
from harness.measure.symbols import parse_system_map, with_kallsyms
from tests.experiments.lock_trace.test_replay import ACTIONS, contended, simulated
from tests.lock_traces import LOCKS, THREADS, Made, encode, per_lock_expected, status_of, write_events

A, W, Q, R, F = ATTEMPT, WAITS, ACQUIRED, RELEASE, FAILED


def made(*events: tuple[int, int, int], lock: int = 0, mode: int = SPIN) -> list[Made]:
    """Events: kind, thread, acquisition."""
    return [Made(lock, kind, mode, thread, number) for kind, thread, number in events]


BLOCK = made(
    *((A, 0, 1), (Q, 0, 1), (A, 1, 2), (W, 1, 2), (A, 2, 3), (W, 2, 3)),
    *((R, 0, 1), (Q, 1, 2), (R, 1, 2), (Q, 2, 3), (R, 2, 3)),
)


# -- the file ----------------------------------------------------------------------------------------------------


def test_events_are_64_bytes_and_come_back_as_written(tmp_path):
    assert EVENT.itemsize == 64
    log = encode(BLOCK)
    write_events(tmp_path, log)
    assert (read_events(tmp_path / "events.bin") == log).all()
    parts = list(EventLog(tmp_path / "events.bin").chunks(2))
    assert [len(part) for part in parts] == [2, 2, 2, 2, 2, 1]
    assert (np.concatenate(parts) == log).all()


def test_an_empty_file_has_no_events(tmp_path):
    (tmp_path / "events.bin").write_bytes(b"")
    assert len(read_events(tmp_path / "events.bin")) == 0


def positions(tmp_path, *numbers: int):
    log = np.concatenate([encode(BLOCK[:1])] * len(numbers))
    log["position"] = numbers
    (tmp_path / "events.bin").write_bytes(log.tobytes())
    return EventLog(tmp_path / "events.bin")


@pytest.mark.parametrize(
    "numbers",
    [
        (1, 2, 3, 1, 2, 4, 5, 3),
        (1, 2, 1, 2, 3, 3),  # two rings at one place
        (1, 2, 3, 1, 4, 5, 6, 2, 3),
        (1, 2, 1, 2, 3, 4, 5, 6, 3),  # a ring that ends where another one goes on
    ],
)
@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_rings_may_alternate(tmp_path, numbers, chunk):
    assert sum(map(len, positions(tmp_path, *numbers).chunks(chunk))) == len(numbers)


@pytest.mark.parametrize(
    ("numbers", "event", "position"),
    [((1, 2, 4), 2, 4), ((2, 3), 0, 2), ((1, 2, 2), 2, 2), ((1, 2, 1, 2, 3, 5, 4), 5, 5), ((1, 0), 1, 0)],
)
@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_a_gap_or_a_repeated_position_is_an_error_with_its_place(tmp_path, numbers, event, position, chunk):
    log = positions(tmp_path, *numbers)
    with pytest.raises(RunError, match=f"event {event} has position {position}, which no ring") as error:
        list(log.chunks(chunk))
    assert f"events.bin, byte {64 * event}" in str(error.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [("kind", 0), ("kind", 8), ("type", 8), ("type", 0), ("stream", 3), ("context", 4)],
)
def test_a_damaged_event_is_an_error_with_its_place(tmp_path, field, value):
    log = encode(BLOCK)
    log[field][3] = value
    write_events(tmp_path, log, kinds=[0] * 8)
    with pytest.raises(RunError, match=f"event 3 is damaged: .*{field} {value}.*") as error:
        read_events(tmp_path / "events.bin")
    assert "byte 192" in str(error.value)


def test_a_file_that_was_cut_short_is_an_error(tmp_path):
    (tmp_path / "events.bin").write_bytes(encode(BLOCK).tobytes()[:-1])
    with pytest.raises(RunError, match="63 bytes after event 10"):
        EventLog(tmp_path / "events.bin")
    with pytest.raises(RunError, match="cannot be read"):
        EventLog(tmp_path / "other.bin")


def test_an_event_in_words():
    log = encode(made((A, 0, 1)))
    assert describe(log[0]).startswith("attempt spinlock lock 0xffff888000001000 sequence 0 pid 11 cpu 0 time 1000")


# -- the status --------------------------------------------------------------------------------------------------


def test_all_sums_hold_of_a_whole_trace(tmp_path):
    events = np.concatenate(contended())
    write_events(tmp_path, events, arm=VALIDATE)
    status = read_status(tmp_path / "status.json")
    table = accounting(status, read_events(tmp_path / "events.bin"))
    assert (table["difference"] == 0).all()
    assert table["check"].str.contains("dropped").sum() == 3
    assert log_loss(status) == 0
    assert (status.useful, status.seconds, status.nanoseconds(1000)) == (7 / 10, 0.002, 1000)


@pytest.mark.parametrize(
    ("wrong", "check"),
    [
        ({"dropped": [0, 4, 3]}, "per-lock: kept + dropped + untracked = events"),
        ({"kept": [10, 7, 8]}, "paper: kept + dropped + untracked = events"),
        ({"untracked": 5}, "per-lock: kept + dropped + untracked = events"),
        ({"lost": [1, 0, 0]}, "log: kept = written + lost"),
        ({"written": [10, 7, 6]}, "paper: written = in the file"),
        ({"kinds": [0, 3, 3, 3, 1, 0, 0, 2]}, "kinds = events"),
        ({"nested": 2}, "hooks within hooks"),
    ],
)
def test_a_sum_that_does_not_hold_is_named(wrong, check):
    events = np.concatenate(contended())
    status = LockTraceStatus.model_validate(status_of(events, VALIDATE) | wrong)
    table = accounting(status, events)
    assert check in set(table.loc[table["difference"] != 0, "check"])


def test_a_damaged_status_is_an_error_with_its_field(tmp_path):
    path = tmp_path / "status.json"
    path.write_text(json.dumps({"arm": 9}))
    with pytest.raises(RunError, match="is not what it should be: arm"):
        read_status(path)
    with pytest.raises(RunError, match="cannot be read"):
        read_status(tmp_path / "other.json")


# -- acquisitions ------------------------------------------------------------------------------------------------


def known_acquisitions(events: list[Made]) -> set[tuple]:
    """What the made threads did: lock, first thread, begin, acquired, end; times as `encode` gives them, -1: none."""
    spans: dict[int, dict[str, int]] = {}
    for i, event in enumerate(events):
        if event.acquisition < 0 or event.kind == INIT:
            continue
        span = spans.setdefault(event.acquisition, {"lock": LOCKS[event.lock], "pid": THREADS[event.thread][0]})
        time = 1000 + 10 * i
        if event.kind == ATTEMPT or event.tried:
            span["begin"] = time
        if event.kind == ACQUIRED:
            span["acquired"] = time
        if event.kind in (RELEASE, ABANDONED):
            span["end"] = time
    return {
        tuple(span.get(name, -1) for name in ("lock", "pid", "begin", "acquired", "end"))
        for span in spans.values()
        if {"begin", "acquired"} & span.keys()
    }


@given(ACTIONS, st.integers(0, 6))
def test_acquisitions_are_what_the_threads_did(actions, cut):
    events = simulated(actions, cut)
    # What began before the trace, nobody can tell.
    known = {event.acquisition for event in events if event.kind != RELEASE}
    orphans = [event for event in events if event.kind == RELEASE and event.acquisition not in known]
    assume(not any(event.type in SHARED for event in orphans) and (not cut or not orphans))
    table = acquisitions(encode(events)).fillna(-1)
    found = table[["lock", "pid", "begin", "acquired", "end"]].astype({"lock": object})
    assert {tuple(int(value) for value in row) for row in found.itertuples(index=False)} == known_acquisitions(events)


def test_waits_holds_and_chains_by_site():
    expected = per_lock_expected(BLOCK)
    log = encode(BLOCK, expected.conflict, expected.depth)
    table = by_key(acquisitions(log), failures(log), ["lock", "type"])
    row = table.iloc[0].to_dict()
    assert (row["acquisitions"], row["contended"], row["failed"], row["holds"]) == (3, 2, 0, 3)
    assert (row["wait_total"], row["wait_max"], row["waits"]) == (10 + 50 + 50, 50, 3)
    assert (row["hold_total"], row["hold_max"], row["depth_max"]) == (50 + 10 + 10, 50, 2)


def test_what_never_was_has_no_longest():
    log = encode(made((F, 0, -1), (F, 0, -1), (A, 1, 1)))
    row = by_key(acquisitions(log), failures(log), ["lock"]).iloc[0]
    assert (row["acquisitions"], row["failed"], row["waits"], row["wait_total"]) == (0, 2, 0, 0)
    assert np.isnan(row["wait_max"])
    assert np.isnan(row["hold_max"])


def test_a_release_that_came_late_ends_the_acquisition_that_it_names():
    """The per-lock filter may look at the clock only when the next one has the lock."""
    log = encode(made((A, 0, 1), (Q, 0, 1), (A, 1, 2), (W, 1, 2), (Q, 1, 2), (R, 0, 1), (R, 1, 2)))
    log["stream"], log["order"] = STREAM_PER_LOCK, 0
    for pid in (11, 12):
        mine = log["pid"] == pid
        log["order"][mine & (log["kind"] == R)] = log["time"][mine & (log["kind"] == Q)]
    table = acquisitions(log).set_index("pid")
    assert table["end"].to_dict() == {11: 1050, 12: 1060}


def test_an_initialised_lock_forgets_who_held_it():
    log = encode(made((A, 0, 1), (Q, 0, 1), (INIT, 1, -1), (A, 1, 2), (Q, 1, 2), (R, 1, 2)))
    table = acquisitions(log)
    assert table["generation"].tolist() == [0, 1]
    assert table["end"].isna().tolist() == [True, False]


@given(ACTIONS)
def test_waits_and_how_long_the_queue_was_are_found_in_any_arm(actions):
    events = simulated(actions, 0)
    expected = per_lock_expected(events)
    log = encode(events)
    told = with_conflicts(log)
    order = np.argsort(log["order"])
    assert ((told["flags"] & CONFLICT) != 0)[order].tolist() == expected.conflict
    assert told["depth"][order].tolist() == expected.depth


def test_a_wait_that_begins_anew_is_one_wait():
    log = encode(made((A, 0, 1), (A, 1, 2), (A, 0, 1), (Q, 0, 1), (A, 0, 3), (Q, 1, 2)))
    kept = first_attempts(log)
    assert sorted(kept["time"].tolist()) == [1000, 1010, 1030, 1040, 1050]


# -- blocks --------------------------------------------------------------------------------------------------------


def test_blocks_are_unions_of_spans_and_the_longest_chain_is_found():
    alone = [made((A, 0, number), (Q, 0, number), (R, 0, number)) for number in (7, 9)]
    events = [*alone[0], *BLOCK, *alone[1], *made((A, 0, 8), (Q, 0, 8), (R, 0, 8), lock=1)]
    expected = per_lock_expected(events)
    found = with_blocks(acquisitions(encode(events, expected.conflict, expected.depth)))
    table = block_table(found)
    assert table["acquisitions"].tolist() == [1, 3, 1, 1]
    assert table["waiters"].tolist() == [0, 2, 0, 0]
    assert table["chain"].tolist() == [0, 2, 0, 0]
    best = longest(found)
    assert best["pid"].tolist() == [11, 12, 13]
    slices = block_slices(best, "all", 1e3, pd.Series(["x", "y", "z"]))
    assert slices["name"].tolist() == ["waits x", "holds x", "waits y", "holds y", "waits z", "holds z"]
    assert slices["start_s"].tolist() == pytest.approx([0, 0.01, 0.02, 0.07, 0.04, 0.09])
    assert slices["duration_s"].tolist() == pytest.approx([0.01, 0.05, 0.05, 0.01, 0.05, 0.01])


def test_nobody_waited():
    found = with_blocks(acquisitions(encode(made((A, 0, 1), (Q, 0, 1), (R, 0, 1)))))
    assert longest(found).empty
    assert block_slices(longest(found), "all", 1e3, pd.Series(dtype=object)).empty


# -- names ---------------------------------------------------------------------------------------------------------

MAP = (
    "ffffffff81000000 T _stext\nffffffff81000100 T vfs_read\nffffffff81000200 T tail\nffffffff81000300 T _etext\n"
    "ffffffff82000000 D tasklist_lock\nffffffff82000100 b rename_lock\nffffffffffffff00 A limit\n"
)
KALLSYMS = "ffffffffa0000000 t follow\t[lockknown]\nffffffffa0010000 d known_shared\t[lockknown]\n"
SYMBOLS = with_kallsyms(parse_system_map(MAP), KALLSYMS)


def test_call_sites_are_named_by_the_place_before_the_return():
    found = call_sites([0xFFFFFFFF81000200, 0xFFFFFFFF81000105, 0xFFFFFFFFA0000010, 0x10, 0xFFFFFFFF81000105], SYMBOLS)
    assert found.tolist() == ["vfs_read+0x100", "vfs_read+0x5", "follow+0x10 [lockknown]", "0x10", "vfs_read+0x5"]


def test_static_locks_are_named_without_the_kernels_table(tmp_path):
    (tmp_path / "System.map").write_text(MAP)
    data = StaticData(tmp_path / "System.map", KALLSYMS + "ffffffff82000000 D not_of_a_module\n")
    places = [0xFFFFFFFF82000000, 0xFFFFFFFF82000104, 0xFFFFFFFFA0010080, 0xFFFF888000001000, 0x10]
    assert data.names(places).tolist() == [
        "tasklist_lock",
        "rename_lock+0x4",
        "known_shared+0x80 [lockknown]",
        DYNAMIC,
        DYNAMIC,
    ]


LOCK_LINES = (
    "entry\taddress\tgeneration\tkind\tname\toffset\tinit_site\n"
    "1\t0xffffffff82000000\t0\tstatic\ttasklist_lock+0x0/0x8\t0\t-\n"
    "2\t0xffffffffa0010080\t0\tstatic\tknown_shared+0x80/0x100 [lockknown]\t0\t-\n"
    "3\t0xffff888000001000\t2\tslab\tfilp\t72\talloc_file+0x10/0x80\n"
    "4\t0xffff888000002040\t0\tslab\tkmalloc-64\t16\tunix_create1+0x1/0x2\n"
    "5\t0xffff888000003000\t0\tpercpu\t-\t0\t-\n"
    "6\t0xffffc90000001000\t0\tstack\t-\t0\t__init_swait_queue_head+0x12/0x20\n"
)


def test_classes_of_the_kernels_table(tmp_path):
    (tmp_path / "locks.tsv").write_text(LOCK_LINES)
    (tmp_path / "System.map").write_text(MAP)
    locks = read_locks(tmp_path / "locks.tsv")
    assert lock_classes(locks).tolist() == [
        *("tasklist_lock", "known_shared+0x80 [lockknown]", "filp+0x48", "unix_create1 kmalloc-64+0x10", "(percpu)"),
        "__init_swait_queue_head (stack)",
    ]
    events = encode(made((A, 0, 1)) + made((A, 0, 2), lock=2) + [Made(1, INIT, SPIN, 1, -1)])
    named = classes_of(events, locks.iloc[:3], StaticData(tmp_path / "System.map"), SYMBOLS)
    # The last one: by where it was initialised, which is thread 1's site.
    assert [named[lock] for lock in LOCKS] == ["filp+0x48", "vfs_read (dynamic)", "tasklist_lock+0x10"]


def test_a_lock_of_a_module_that_is_gone_has_its_symbols_name(tmp_path):
    """The kernel told its address alone."""
    line = "1\t0xffffffffa0010080\t0\tstatic\t0xffffffffa0010080\t0\t-\n"
    (tmp_path / "locks.tsv").write_text(LOCK_LINES.splitlines(keepends=True)[0] + line)
    (tmp_path / "System.map").write_text(MAP)
    locks, events = read_locks(tmp_path / "locks.tsv"), encode(made((A, 0, 1)))
    loaded = "ffffffffa0010000 d known_shared\t[lockknown]\n"
    names = [
        classes_of(events, locks, StaticData(tmp_path / "System.map", kallsyms), SYMBOLS)[0xFFFFFFFFA0010080]
        for kallsyms in (loaded, "")
    ]
    assert names == ["known_shared+0x80 [lockknown]", "0xffffffffa0010080"]


def test_damaged_tables_are_errors_with_their_place(tmp_path):
    path = tmp_path / "locks.tsv"
    path.write_text(LOCK_LINES.replace("generation", "age"))
    with pytest.raises(RunError, match=r"locks\.tsv:1.*no column generation|no column generation.*locks\.tsv:1"):
        read_locks(path)
    path.write_text(LOCK_LINES + "7\t0x10\n")
    with pytest.raises(RunError, match="has 2 fields, not 7"):
        read_locks(path)
    path.write_text(LOCK_LINES.replace("0xffffc90000001000", "here"))
    with pytest.raises(RunError, match="column address"):
        read_locks(path)
    with pytest.raises(RunError, match="cannot be read"):
        read_sites(tmp_path / "sites.tsv")


LOCK_STAT = """\
lock_stat version 0.4
-----------------------------------------------------------------------------------------------------------------
                              class name    con-bounces    contentions   waittime-min   waittime-max waittime-total
-----------------------------------------------------------------------------------------------------------------

               &known_shared.mutex:           100            100           0.50          12.25         300.00 \
           3.00           150           2010           0.10         100.00        5000.00           2.49
               -------------------
               &known_shared.mutex            100          [<ffffffffa000012d>] follow+0x12d/0x400 [lockknown]
               -------------------
               &known_shared.mutex             90          [<ffffffffa0000255>] lead+0x125/0x400 [lockknown]

.................................................................................................................

                   tasklist_lock-W:             1              1           1.00           1.00           1.00 \
           1.00             5              7           0.10           2.00           3.00           0.43
                   tasklist_lock-R:             0              0           0.00           0.00           0.00 \
           0.00             9             11           0.20           4.00           5.00           0.45
"""


def test_lock_stat_by_class_and_mode(tmp_path):
    (tmp_path / "lock_stat.txt").write_text(LOCK_STAT)
    table = read_lock_stat(tmp_path / "lock_stat.txt")
    assert table[["class", "mode", "contentions", "acquisitions"]].to_numpy().tolist() == [
        ["&known_shared.mutex", "", 100, 2010],
        ["tasklist_lock", "W", 1, 7],
        ["tasklist_lock", "R", 0, 11],
    ]
    assert table["wait_total_us"].tolist() == [300, 1, 0]
    assert table["hold_max_us"].tolist() == [100, 2, 4]
    (tmp_path / "other").write_text("lock_stat version 0.3\n")
    with pytest.raises(RunError, match="no lock_stat of version"):
        read_lock_stat(tmp_path / "other")


def test_readers_of_one_task_are_told_apart_by_when_they_came():
    nested = made((A, 0, 1), (Q, 0, 1), (A, 0, 2), (Q, 0, 2), (R, 0, 2), (R, 0, 1), mode=READ)
    table = acquisitions(encode(nested))
    assert table["end"].tolist() == [1050, 1040]


def test_idle_tasks_of_two_cpus_share_a_pid_and_are_two_threads():
    log = encode(
        made((A, 0, 1), (Q, 0, 1), (A, 1, 2), (A, 2, 3), (R, 0, 1), (Q, 1, 2), (R, 1, 2), (Q, 2, 3), (R, 2, 3))
    )
    idle = log.copy()
    idle["pid"] = 0
    assert acquisitions(idle).drop(columns="pid").equals(acquisitions(log).drop(columns="pid"))


@pytest.mark.parametrize("number", ["1.2.3", ".", "9" * 16, "9" * 400, "1e3", "\u0663"])
def test_a_lock_stat_with_a_wrong_number_is_an_error(tmp_path, number):
    (tmp_path / "x").write_text("lock_stat version 0.4\na: " + " ".join([number] * 12) + "\n")
    with pytest.raises(RunError, match=r"x: .* of 'a' is no number"):
        read_lock_stat(tmp_path / "x")


def test_a_lock_stat_with_long_lines_is_read(tmp_path):
    """8,000 blanks took 2 s when the time grew with their square: these would take a day."""
    for line in ("a:" + " " * LONG + "b", "a: " * LONG, " " * LONG, ":" * LONG):
        (tmp_path / "x").write_text(f"lock_stat version 0.4\n{line}\n")
        assert read_lock_stat(tmp_path / "x").empty


#: Characters.
LONG = 2_000_000
NO_EVENTS = np.zeros(0, dtype=[("stream", "int64"), ("kind", "int64")])


@pytest.mark.parametrize(("name", "value"), [("ring_order", 8_000_000_000), ("ring_order", -1), ("cpus", 0)])
def test_a_status_that_no_kernel_writes_is_refused(tmp_path, name, value):
    (tmp_path / "status.json").write_text(json.dumps(status_of(NO_EVENTS) | {name: value}))
    with pytest.raises(RunError, match=rf"status\.json: is not what it should be: {name}: "):
        read_status(tmp_path / "status.json")


def test_counts_of_more_than_64_bits_are_an_error(tmp_path):
    good = status_of(NO_EVENTS)
    (tmp_path / "status.json").write_text(json.dumps(good | {"events": 1 << 64}))
    with pytest.raises(RunError, match="a number has more than 64 bits"):
        read_status(tmp_path / "status.json")
    (tmp_path / "status.json").write_text(json.dumps(good | {"kinds": [0, 1 << 63, 1 << 63]}))
    status = read_status(tmp_path / "status.json")
    with pytest.raises(RunError, match="a sum of its counts has more than 64 bits"):
        accounting(status, NO_EVENTS)
