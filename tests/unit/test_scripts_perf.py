# SPDX-License-Identifier: MIT
"""Command lines of perf: which probes they mean, what is recorded there, and what has no price."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.program.scripts import perf, perfprobe
from harness.program.scripts.asked import Asked, commands
from harness.program.scripts.filters import filter_of


def asked(text: str) -> Asked:
    return perf.read(commands(text))


def events(text: str) -> dict[str, dict[str, Any]]:
    """What a line asks for, by probe, without the notes."""
    found = asked(text).as_data()["events"]
    return {one["probe"]: {name: one[name] for name in ("consumers", "fields") if name in one} for one in found}


def notes(text: str) -> str:
    return str(asked(text).as_data())


RECORDED = {"consumers": [{"record": True}]}
STACKED = {"consumers": [{"record": True, "stack_frames": 0}]}


@pytest.mark.parametrize(
    ("line", "probes"),
    [
        ("perf record -a -e sched:sched_switch -g", {"tracepoint:sched:sched_switch": STACKED}),
        ("sudo perf record --event=sched:sched_switch -aq", {"tracepoint:sched:sched_switch": RECORDED}),
        ("perf record -e '{irq:*,block:block_rq_issue}:S' -- dd if=/dev/zero of=x", {
            "tracepoint:irq:*": RECORDED, "tracepoint:block:block_rq_issue": RECORDED}),
        ("perf record -e syscalls:sys_enter_openat,syscalls:*", {
            "tracepoint:syscalls:sys_enter_openat": RECORDED, "tracepoint:syscalls:sys_enter_*": RECORDED,
            "tracepoint:syscalls:sys_exit_*": RECORDED}),
        ("perf stat -e 'kmem:kmalloc' -a sleep 1", {"tracepoint:kmem:kmalloc": {"consumers": [{"program": {}}]}}),
        ("perf record -F 99 -a -g -- sleep 10", {"profile:hz:99": STACKED}),
        ("perf record ./a.out -e sched:sched_switch", {"profile:hz:4000": RECORDED}),
        ("perf record -e cpu-clock -c 1000000", {"profile:ns:1000000": RECORDED}),
        ("perf record -e cpu-clock:u -F 49 --call-graph dwarf", {"profile:hz:49": STACKED}),
        ("perf trace -a", {
            "tracepoint:raw_syscalls:sys_enter": RECORDED, "tracepoint:raw_syscalls:sys_exit": RECORDED}),
        ("perf trace --no-syscalls -e sched:sched_wakeup", {"tracepoint:sched:sched_wakeup": RECORDED}),
    ],
)  # fmt: skip
def test_what_a_line_records(line, probes):
    assert events(line) == probes


def test_each_filter_is_of_the_events_before_it():
    found = events(
        "perf record -e sched:a,sched:b --filter 'x > 1 && y == 2' -e sched:c --filter 'comm == \"bash\"' -g"
    )
    both = {"consumers": [{"record": True, "stack_frames": 0, "predicate": {"terms": 2}}]}
    text = {"consumers": [{"record": True, "stack_frames": 0, "predicate": {"terms": 1, "characters": 5}}]}
    assert found == {"tracepoint:sched:a": both, "tracepoint:sched:b": both, "tracepoint:sched:c": text}


def test_system_calls_of_some_names_have_a_filter_by_number():
    found = events("perf trace -e openat,read,close,sched:sched_switch -p 1")
    predicate = {"terms": 3, "terms_if_true": 1, "terms_if_false": 3}
    calls = {"consumers": [{"record": True, "predicate": predicate}]}
    assert found == {
        "tracepoint:sched:sched_switch": RECORDED,
        "tracepoint:raw_syscalls:sys_enter": calls,
        "tracepoint:raw_syscalls:sys_exit": calls,
    }


def test_probes_are_where_perf_probe_has_put_them():
    line = (
        "perf probe 'vfs_read count=%dx'; perf probe --add vfs_read%return --add 'my=do_sys_open+0x10 n=+0(%si):string'"
        " && perf probe -x /bin/bash readline%return '$retval:string'; perf probe tcp_sendmsg size 'sk->sk_state';"
        " perf record -e probe:vfs_read,probe:vfs_read__return,probe:my,probe_bash:readline,probe:tcp_sendmsg -a"
    )
    assert events(line) == {
        "kprobe:vfs_read": RECORDED | {"fields": {"registers": 1}},
        "kretprobe:vfs_read": RECORDED,
        "kprobe:do_sys_open+16": RECORDED | {"fields": {"strings": 1}},
        "uretprobe:/bin/bash:readline": RECORDED | {"fields": {"strings": 1}},
        "kprobe:tcp_sendmsg": RECORDED | {"fields": {"registers": 1, "memory": 1}},
    }
    assert set(events("perf probe vfs_read%return; perf record -e probe:vfs_read")) == {"kretprobe:vfs_read"}
    assert set(events("perf probe vfs_read; perf probe vfs_write; perf record -e 'probe:vfs_*'")) == {
        "kprobe:vfs_read", "kprobe:vfs_write",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("perf record -e cycles -c 100000", "so many cycles are no time that is known"),
        ("perf record -F max", "the kernel's own limit is not known"),
        ("perf record -e page-faults", "a software event of perf's"),
        ("perf record -e cpu/event=0x3c,umask=0x1/", "the CPU's own counters have no price"),
        ("perf record -e instructions:u", "the CPU's own counters have no price"),
        ("perf record -e r1a8", "the CPU's own counters have no price"),
        ("perf record -e probe:vfs_read", "give its `perf probe …` before, with ;"),
        ("perf record -e sdt_libc:setjmp", "which place it has is not known"),
        ("perf record -e '*:*'", "a pattern of systems"),
        ("perf record -e 'syscalls:sys_*_read'", "ask for one way at a time"),
        ("perf stat -e cpu-clock", "counted and not sampled"),
        ("perf stat ls", "at no probe"),
        ("perf trace --no-syscalls -F all", "page faults: a software event"),
        ("perf probe schedule:12; perf record -e probe:schedule", "debug info alone says"),
        ("perf probe kernel/sched/core.c:99; perf record -e probe:core", "debug info alone says"),
    ],
)
def test_what_has_no_price_has_a_reason(line, why):
    (told,) = asked(f"{line}; perf record -e sched:sched_switch").as_data()["unpriced"]
    assert why in f"{told['probe']}: {told['why']}"
    with pytest.raises(UsageError, match="nothing of the script has a price"):
        asked(line).as_data()


def test_what_changes_the_price_and_is_not_priced_is_told():
    assert "records nothing" in notes("perf stat -e sched:sched_switch")
    assert "would start ls" in notes("perf record -e sched:sched_switch ls -l")
    assert "of these tasks alone" in notes("perf record -e sched:sched_switch -p 12")
    assert "-c 100 leaves firings out" in notes("perf record -c 100 -e sched:sched_switch")
    assert "of some firings alone" in notes("perf record -e sched:sched_switch:u")
    assert "of the user's alone" in notes("perf record -e cycles:u")
    assert "no copy of the user's stack" in notes("perf record --call-graph dwarf,8192")
    assert "4000 a second" in notes("perf record")
    assert "where size is, debug info says" in notes("perf probe tcp_sendmsg size; perf record -e probe:tcp_sendmsg")
    assert "the filter of what is counted" in notes("perf stat -e sched:sched_switch --filter 'a == 1'")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("perf record --foo", "perf record: option --foo not recognized"),
        ("perf record -e", "option -e requires argument"),
        ("perf report", "perf report: traces nothing that has a price"),
        ("perf record -F ninety", "-F ninety: must be a number above 0"),
        ("perf record -e cpu-clock -c 0", "-c 0: must be a number above 0"),
        ("perf record -e sched:sched_switch | cat", "'|' is for a shell"),
        ("perf record -e 'sched:sched_switch", "is no shell text: No closing quotation"),
        ("perf record --filter 'a == 1' -e sched:sched_switch", "comes behind the -e"),
        ("perf record -e sched:a --filter 'a =='", "is no filter of an event"),
        ("perf record -e cpu-clock --filter 'a == 1'", "samples of a clock have none"),
        ("perf probe 'vfs_read count=%dx'", "perf record -e probe:NAME"),
        ("perf probe -d vfs_read", "perf probe: option -d not recognized"),
        ("perf probe", "perf probe: defines nothing"),
        ("perf probe 'vfs_read a=(b)'; perf record -e probe:vfs_read", "is no argument of a probe"),
        ("perf probe '+'; perf record -e sched:a", "is no definition of a probe"),
        ("perf record -e sched:a; trace-cmd record -e b", "come others of it"),
    ],
)
def test_what_perf_would_not_take_is_told_in_one_line(line, says):
    with pytest.raises(UsageError) as error:
        asked(line).as_data()
    assert says in error.value.lines[0]
    assert len(error.value.lines) == 1


@pytest.mark.parametrize(
    ("text", "terms", "either", "characters"),
    [
        ("prev_pid == 0", 1, False, None),
        ("a > 1 && b < 2 && !(c == 3)", 3, False, None),
        ("a == 1 || b == 0x10", 2, True, None),
        ("(a == 1 || b == 2) && c != 3", 3, False, None),
        ("comm ~ \"kwork*\"", 1, False, 7),
        ("flags & 0x10", 1, False, None),
        ("prev_comm == 'sh' || x == -1", 2, True, 3),
    ],
)  # fmt: skip
def test_a_filter_has_so_many_terms(text, terms, either, characters):
    found = filter_of(text)
    assert (found.terms, found.either, found.characters) == (terms, either, characters)


@pytest.mark.parametrize(
    "text", ["", "a", "a == ", "== 1", "a == 1 &&", "(a == 1", "a == 1)", "a == 1 b == 2", "a = 1", '"x" == a']
)
def test_what_is_no_filter_is_refused(text):
    with pytest.raises(UsageError, match="is no filter"):
        filter_of(text)


@given(st.text(st.sampled_from("perf recodtasb:*-!gFc{},;'\"/%+=$()0 1\\&|~<>"), max_size=40))
def test_nonsense_is_refused_or_read_and_never_a_fault(text):
    for read in (
        lambda: asked(f"perf record {text}"), lambda: asked(f"perf trace -e {text}"), lambda: filter_of(text),
        lambda: perfprobe.read(commands(f"perf probe {text}")[0]),
    ):  # fmt: skip
        told = []
        try:
            made = read()
            if isinstance(made, Asked):
                made.as_data()
        except UsageError as error:
            told = error.lines
        assert len(told) <= 1
