# SPDX-License-Identifier: MIT
"""trace-cmd's command lines, and the state of tracefs: which events, with which filters, triggers and instances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.program.scripts import tracecmd, tracefs
from harness.program.scripts.asked import Asked, commands
from harness.program.scripts.fetched import defined
from harness.program.scripts.triggers import Triggers, read_trigger


def asked(text: str) -> Asked:
    return tracecmd.read(commands(text))


def consumers(made: Asked) -> dict[str, list[dict[str, Any]]]:
    return {one["probe"]: one["consumers"] for one in made.as_data()["events"]}


PLAIN = {"record": True}
STACK = {"record": True, "stack_frames": 0}


@pytest.mark.parametrize(
    ("line", "probes"),
    [
        ("trace-cmd record -e sched:sched_switch -e irq", {
            "tracepoint:sched:sched_switch": [PLAIN], "tracepoint:irq:*": [PLAIN]}),
        ("trace-cmd start -e sched_switch -T", {"tracepoint:*:sched_switch": [STACK]}),
        ("trace-cmd record -O stacktrace -e syscalls ls", {
            "tracepoint:syscalls:sys_enter_*": [STACK], "tracepoint:syscalls:sys_exit_*": [STACK]}),
        ("sudo trace-cmd record -e sys_enter_read -e sys_exit -o t.dat", {
            "tracepoint:syscalls:sys_enter_read": [PLAIN], "tracepoint:raw_syscalls:sys_exit": [PLAIN]}),
        ("trace-cmd record -e sched:sched_switch -f 'prev_pid == 1 || next_pid == 1' -e kmem:kmalloc -R stacktrace", {
            "tracepoint:sched:sched_switch": [
                PLAIN | {"predicate": {"terms": 2, "terms_if_true": 1, "terms_if_false": 2}}],
            "tracepoint:kmem:kmalloc": [STACK]}),
        ("trace-cmd start -e kmem:kmalloc -R 'hist:keys=call_site,common_pid:vals=hitcount,bytes_req:sort=bytes_req'", {
            "tracepoint:kmem:kmalloc": [PLAIN | {"histogram": {"keys": 2, "values": 1}}]}),
        ("trace-cmd record -e sched:sched_switch -B two -T -e sched:sched_switch", {
            "tracepoint:sched:sched_switch": [PLAIN, STACK]}),
    ],
)  # fmt: skip
def test_what_a_line_of_trace_cmds_records(line, probes):
    assert consumers(asked(line)) == probes


def test_what_trace_cmd_has_no_price_for_has_a_reason():
    made = asked(
        "trace-cmd record -p function_graph -e all -e kprobes:x -e sched:sched_switch -R traceoff -P 7 -l vfs_read"
    )
    told = {one["probe"]: one["why"] for one in made.as_data()["unpriced"]}
    assert "functions that a tracer records" in told["the tracer function_graph"]
    assert "hangs on the kernel" in told["all"]
    assert "its definition is not among what was given" in told["kprobes:x"]
    assert "acts once, or seldom" in told["the trigger traceoff"]
    assert "-P: of some tasks alone" in str(made.notes)
    assert "would start ls" in str(asked("trace-cmd record -e sched:sched_switch ls").notes)
    assert "is taken as an event's name" in str(asked("trace-cmd record -e sched_switch").as_data())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("trace-cmd report", "trace-cmd report: traces nothing that has a price"),
        ("trace-cmd record --what -e sched", "trace-cmd record: option --what not recognized"),
        ("trace-cmd record -f 'a == 1' -e sched", "-f comes behind the -e"),
        ("trace-cmd record -v -e sched", "-v leaves events out"),
        ("trace-cmd record -e sched -R 'hist:vals=x'", "is no histogram of an event"),
        ("trace-cmd record -e sched -R 'what:1'", "is no trigger of an event"),
        ("trace-cmd record", "it asks for no event"),
        ("trace-cmd record -e sched; perf record", "perf record: traces nothing"),
    ],
)
def test_what_trace_cmd_would_not_take_is_told_in_one_line(line, says):
    with pytest.raises(UsageError) as error:
        asked(line).as_data()
    assert says in error.value.lines[0]
    assert len(error.value.lines) == 1


def test_triggers_of_a_running_kernel():
    """As events/kmem/kmalloc/trigger of 6.1 prints them."""
    triggers = Triggers()
    line = "hist:keys=call_site.sym,stacktrace:vals=hitcount,bytes_req,bytes_alloc:sort=hitcount:size=2048"
    line += ":ts0=common_timestamp.usecs:onmatch(sched.sched_waking).trace(x,y)"
    assert read_trigger(f'{line} if bytes_req > 100 && comm == "sh" [active]', triggers) is None
    consumer, notes = triggers.consumer(enabled=False, stack=True)
    assert consumer.as_data() == {
        "record": False, "predicate": {"terms": 2}, "histogram": {"keys": 2, "values": 2},
    }  # fmt: skip
    told = "\n".join(notes)
    assert "ts0=common_timestamp.usecs is not in the price" in told
    assert "onmatch(sched.sched_waking).trace(x,y) is not in the price" in told
    assert "a stack as a histogram's key" in told
    assert "not the same filter" not in told


def test_a_filter_of_a_trigger_alone_is_told():
    triggers = Triggers()
    read_trigger("hist:keys=common_pid if x == 1", triggers)
    assert "not the same filter" in str(triggers.consumer(enabled=True, stack=False)[1])


@pytest.mark.parametrize(
    ("line", "group", "name", "probe", "fields"),
    [
        (
            "p:kprobes/my vfs_read count=%dx:u64 +8(%si):string $comm",
            "kprobes",
            "my",
            "kprobe:vfs_read",
            {"registers": 1, "strings": 1, "comm": 1},
        ),
        ("r16:kprobes/r vfs_read ret=$retval", "kprobes", "r", "kretprobe:vfs_read", {"registers": 1}),
        ("p:k/e ext4:ext4_sync_file+0x10", "k", "e", "kprobe:ext4:ext4_sync_file+0x10", {}),
        ("p:k/e vfs_read+0 a=@jiffies b=+0(+8(%di)):u32", "k", "e", "kprobe:vfs_read", {"memory": 3}),
        ("p:uprobes/b /bin/bash:0x4245c0 ip=%ip", "uprobes", "b", "uprobe:/bin/bash:0x4245c0", {"registers": 1}),
        ("r:uprobes/b /bin/bash:0x4245c0", "uprobes", "b", "uretprobe:/bin/bash:0x4245c0", {}),
        ("p:k/e vfs_read%return", "k", "e", "kretprobe:vfs_read", {}),
    ],
)
def test_definitions_of_probes(line, group, name, probe, fields):
    found = defined(line)
    assert found is not None
    assert (found[0], found[1], found[2].probe, found[2].fields.numbers) == (group, name, probe, fields)


@pytest.mark.parametrize("line", ["p", "vfs_read", "p:a/b/c/d f", "p:a/b f x", "p:a/b f %"])
def test_what_defines_no_probe_is_refused(line):
    with pytest.raises(UsageError):
        defined(line)


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def test_the_state_of_tracefs(tmp_path):
    (tmp_path / "events" / "ftrace" / "print").mkdir(parents=True)
    write(
        tmp_path,
        current_tracer="nop", tracing_on="1", options__stacktrace="0",
        kprobe_events="p:kprobes/my vfs_read count=%dx\nr4:kprobes/back vfs_read", uprobe_events="",
        dynamic_events="p:kprobes/my vfs_read count=%dx\ns:synthetic/lat u64 lat\ne:eprobes/e sched.sched_switch",
        events__enable="X",
        events__sched__sched_switch__enable="1*",
        events__sched__sched_switch__filter="prev_pid != 0",
        events__sched__sched_switch__trigger="# Available triggers:\n# traceon traceoff snapshot stacktrace",
        events__sched__sched_wakeup__enable="0",
        events__kmem__kmalloc__enable="0*",
        events__kmem__kmalloc__trigger="hist:keys=call_site:vals=hitcount:size=2048 [active]\ntraceoff:count=3",
        events__kprobes__my__enable="1", events__kprobes__my__filter="none",
        events__kprobes__back__enable="1", events__synthetic__lat__enable="1", events__eprobes__e__enable="1",
        instances__two__events__sched__sched_switch__enable="1",
        instances__two__options__stacktrace="1", instances__two__tracing_on="0",
        instances__two__current_tracer="function", instances__two__set_event_pid="7",
    )  # fmt: skip
    made = tracefs.read(tmp_path)
    assert consumers(made) == {
        "kprobe:vfs_read": [PLAIN],
        "kretprobe:vfs_read": [PLAIN],
        "tracepoint:kmem:kmalloc": [{"record": False, "histogram": {"keys": 1, "values": 0}}],
        "tracepoint:sched:sched_switch": [PLAIN | {"predicate": {"terms": 1}}, STACK],
    }
    assert [one["fields"] for one in made.as_data()["events"] if "fields" in one] == [{"registers": 1}]
    told = dict(made.unpriced)
    assert set(told) == {
        "the tracer function", "synthetic:lat", "eprobes:e", "kmem:kmalloc: the trigger traceoff:count=3",
    }  # fmt: skip
    assert "tracing_on is 0 in two" in str(made.notes)
    assert "set_event_pid of two" in str(made.notes)


def test_a_folder_without_events_of_its_own_is_told(tmp_path):
    assert not tracefs.is_tracefs(tmp_path)
    write(tmp_path, events__sched__sched_switch__enable="0")
    assert tracefs.is_tracefs(tmp_path)
    with pytest.raises(UsageError, match="has no event enabled"):
        tracefs.read(tmp_path)
    (tmp_path / "kprobe_events").mkdir()
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        tracefs.read(tmp_path)


@given(st.text(st.sampled_from("efRTBpOv -;:=,'\"histkey.()[]!~*/x0"), max_size=40))
def test_nonsense_is_refused_or_read_and_never_a_fault(text):
    for read in (
        lambda: asked(f"trace-cmd record {text}").as_data(),
        lambda: read_trigger(text, Triggers()), lambda: defined(text),
    ):  # fmt: skip
        told = []
        try:
            read()
        except UsageError as error:
            told = error.lines
        assert len(told) <= 1
