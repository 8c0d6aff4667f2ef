# SPDX-License-Identifier: MIT
"""The kernel's table of stacks: each event that has one is counted once, whether there was room for it or not."""

from __future__ import annotations

from collections import Counter

import pytest
from experiments.lock_trace.locks.callers import Stacks
from experiments.lock_trace.locks.events import RELEASE, WAITS, read_events
from experiments.lock_trace.locks.kerneltables import read_stacks

from harness.artefacts.store import Store
from harness.measure.symbols import read_system_map, with_kallsyms
from harness.paths import EXPERIMENTS
from harness.trial.prepare import build_for
from tests.newcomer import inv

KERNEL = "modern-6.1-stacks"
#: What lockknown does for each of these operations: one thread holds the mutex while another comes.
LOAD = "locktrace -m per-lock -o /tmp/o -- lockload load --kind mutex --ops 100 --conflicts 1000"
COMMANDS = f"""\
grep '\\[' /proc/kallsyms >/tmp/modules && {LOAD} && cp /tmp/modules /tmp/o/modules &&
cat /sys/kernel/debug/lock_trace/stacks >/tmp/o/stacks.tsv
"""


def traced(folder, cpus: int, *parameters: str):
    """Events and stacks of a trace on a kernel with these parameters besides its own."""
    done = inv(
        *(folder, "boot", "--kernel", KERNEL, "--experiment", "lock-trace", "--cpus", str(cpus)),
        *("--append", " ".join(parameters or ["quiet"]), "--out", "/tmp/o", "--exec", COMMANDS),
    )
    assert done.returncode == 0, done.stderr
    left = folder / "o"
    system_map = build_for(Store.default(), KERNEL, EXPERIMENTS / "lock-trace").kernel.file("System.map")
    symbols = with_kallsyms(read_system_map(system_map), (left / "modules").read_text())
    table = read_stacks(left / "stacks.tsv")
    return read_events(left / "events.bin"), table, Stacks(table, symbols, where="stacks.tsv")


def numbers(events) -> Counter[int]:
    """How many events have each stack; 0: those that may have one and have none."""
    waits = events["order"][events["kind"] == WAITS]
    ends = events[(events["kind"] == RELEASE) & (events["order"] != 0)]["depth"]
    return Counter(waits.tolist()) + Counter(ends.tolist())


@pytest.mark.deep
@pytest.mark.parametrize("cpus", [1, 2])
def test_each_event_has_the_stack_that_counts_it(tmp_path, cpus):
    events, table, stacks = traced(tmp_path, cpus)
    used = numbers(events)
    assert used == {n: count for n, count in zip(table["stack"], table["events"], strict=True) if count}
    assert used[0] == 0
    assert used.total() > 200
    waits = events[events["kind"] == WAITS]
    called = {stacks.callers(int(event["order"]), int(event["site"])) for event in waits}
    assert any(calls[-2:] == ("kthread", "ret_from_fork") for calls in called), called


@pytest.mark.deep
def test_what_finds_no_room_is_counted(tmp_path):
    events, table, stacks = traced(tmp_path, 1, "lock_trace_stacks=1")
    used = numbers(events)
    assert len(stacks) == 2
    assert used[0] == stacks.without > 0
    assert used == dict(zip(table["stack"], table["events"], strict=True))


@pytest.mark.deep
def test_no_room_is_no_stacks(tmp_path):
    events, table, _ = traced(tmp_path, 1, "lock_trace_stacks=0")
    assert numbers(events).keys() == {0}
    assert table["events"].tolist() == [0]


@pytest.mark.deep
@pytest.mark.parametrize("size", ["17", "many"])
def test_a_size_that_is_none_changes_nothing(tmp_path, size):
    """The kernel's own command line has 13."""
    events, table, _ = traced(tmp_path, 1, f"lock_trace_stacks={size}")
    assert numbers(events)[0] == 0
    assert 0 < table["stack"].max() <= 1 << 13
