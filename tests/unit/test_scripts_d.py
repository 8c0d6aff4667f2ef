# SPDX-License-Identifier: MIT
"""D: which clauses have a near one today, how each is put in bpftrace's language, and why others are left out."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from harness.errors import UsageError
from harness.program import bpftrace
from harness.program.prescript import NOTHING, is_script, readable
from harness.program.scripts.asked import commands
from harness.program.scripts.dtrace import is_d, of_command, read

READ = "tracepoint:syscalls:sys_enter_read"
needs_bpftrace = pytest.mark.skipif(
    shutil.which("bpftrace") is None or os.geteuid() != 0, reason="needs bpftrace, and root"
)
#: D and what is nearest to it. The questions are those of DTrace's guide and of the well-known one-liners.
CLAUSES = [
    ("syscall::read:entry { @[execname] = count(); }", f"{READ} {{ @[comm] = count(); }}"),
    ("syscall::read:entry /pid == 7 && execname != \"sh\"/ { @n = sum(arg2); }",
     f"{READ} /pid == 7 && comm != \"sh\"/ {{ @n = sum(args->__syscall_nr); }}"),
    ("syscall:::entry { @[probefunc] = count(); }", "tracepoint:raw_syscalls:sys_enter { @[args->id] = count(); }"),
    ("syscall::read:return /arg0 > 0/ { @ = quantize(arg0); }",
     "tracepoint:syscalls:sys_exit_read /args->ret > 0/ { @ = hist(args->ret); }"),
    ("syscall::exece:entry { trace(execname); }", "tracepoint:syscalls:sys_enter_execve { printf(\"%s\\n\", comm); }"),
    ("syscall::open*:entry { printf(\"%s %s\\n\", execname, copyinstr(arg0)); }",
     "tracepoint:syscalls:sys_enter_open* { printf(\"%s %s\\n\", comm, str(args->__syscall_nr)); }"),
    ("fbt::vfs_read:entry { @[probefunc, stack(3)] = avg(arg2); }",
     "kprobe:vfs_read { @[func, kstack(3)] = avg(arg2); }"),
    ("fbt:ext4::return { }", None),
    ("fbt:vmlinux:vfs_read:return { @ = lquantize(arg1, 0, 100, 10); stack(); }",
     "kretprobe:vfs_read { @ = lhist(retval, 0, 100, 10); printf(\"%s\\n\", kstack); }"),
    ("profile:::profile-97hz { @[ustack()] = count(); }", "profile:hz:97 { @[ustack] = count(); }"),
    ("profile-2min { @ = count(); }", "profile:s:120 { @ = count(); }"),
    ("profile-10ms { @ = max(cpu); }", "profile:ms:10 { @ = max(cpu); }"),
    ("sched:::off-cpu { self->t = timestamp; }", "tracepoint:sched:sched_switch { @self_t[tid] = nsecs; }"),
    ("proc:::exec-success { this->u = uid; @[this->u] = min(gid); }",
     "tracepoint:sched:sched_process_exec { $u = uid; @[$u] = min(gid); }"),
    ("sdt:block::block-rq-issue { self->t = 0; }", "tracepoint:block:block_rq_issue { delete(@self_t[tid]); }"),
    ("vminfo:::as_fault { n++; seen[pid] = 1; }",
     "tracepoint:exceptions:page_fault_user { @n++; @seen[pid] = 1; }"),
    ("syscall::read:entry /pid == $target/ { }", f"{READ} /pid == 1/ {{ printf(\"%d\\n\", cpu); }}"),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "near"), CLAUSES)
def test_what_is_nearest(clause, near):
    assert is_d(clause)
    if near is None:
        with pytest.raises(UsageError, match="nothing of the script has a price"):
            read(clause)
    else:
        assert read(clause).text == near


def test_a_whole_script(tmp_path):
    text = """#!/usr/sbin/dtrace -s
    #pragma D option quiet
    /* how long reads take; { not a clause } */
    BEGIN { printf("begun"); }
    syscall::read:entry, syscall::write:entry { self->ts = timestamp; }
    syscall::read:return /self->ts != 0/ { @t[execname] = quantize(timestamp - self->ts); self->ts = 0; };
    tick-1s { printa(@t); }
    pid123:libc:malloc:entry { @m = count(); }
    """
    made = read(text)
    reads = "/@self_ts[tid] != 0/ { @t[comm] = hist(nsecs - @self_ts[tid]); delete(@self_ts[tid]); }"
    assert made.text.splitlines() == [
        f"{READ} {{ @self_ts[tid] = nsecs; }}",
        "tracepoint:syscalls:sys_enter_write { @self_ts[tid] = nsecs; }",
        f"tracepoint:syscalls:sys_exit_read {reads}",
    ]
    assert dict(made.unpriced) == {
        "BEGIN": "it runs once, when the trace begins or ends",
        "tick-1s": "a timer on one CPU that samples nothing: the model has no provider for it",
        "pid123:libc:malloc:entry": "which file its functions are in is not known: "
        "uprobe:FILE:FUNCTION is bpftrace's for it",
    }
    assert f"syscall::read:entry: priced as bpftrace's {made.text.splitlines()[0]}" in made.notes


@pytest.mark.parametrize(
    ("clause", "why"),
    [
        ("fbt:::entry { @ = count(); }", "all functions of the kernel: name some"),
        ("fbt::f:offset { @ = count(); }", "ask for one of them"),
        ("read:entry { @ = count(); } syscall:::x { }", "name its provider"),
        ("lockstat:::adaptive-block { @ = count(); }", "no near one is known of the provider lockstat"),
        ("sched:::sleep { @ = count(); }", "no near one is known of sched's sleep"),
        ("sdt:::sched_switch { @ = count(); }", "name the system"),
        ("profile-5parsec { @ = count(); }", "its period profile-5parsec is not known"),
        ("io:::start { @ = sum(args[0]->b_bcount); }", "args is nothing that is known here"),
        ("profile-97 /arg0/ { @ = count(); }", "what arg0 is at profile:hz:97 is not known here"),
        ("fbt::f:entry { @ = sum(arg9); }", "what arg9 is"),
        ("syscall::read:entry { @ = llquantize(1, 2, 3, 4, 5); }", "the aggregation llquantize()"),
        ("syscall::read:entry { panic(); }", "the action panic() is none that is known here"),
        ("syscall::read:entry { printf(\"%d\"); }", "more conversions than there are values"),
        ("syscall::read:entry { printf(\"x\", pid); }", "fewer conversions than there are values"),
        ("syscall::read:entry { printf(pid); }", "printf without a format"),
        ("syscall::read:entry /curthread == 1/ { @ = count(); }", "curthread is nothing that is known here"),
        ("syscall::read:entry { @[stack(n)] = count(); }", "a number of frames, or with nothing"),
        ("syscall::read:entry { @ = sum(1 # 2); }", "# 2 is not read here"),
        ("syscall::read:entry / / { @ = count(); }", "an expression is empty"),
    ],
)  # fmt: skip
def test_what_is_left_out_has_a_reason(clause, why):
    made = read(f"{clause} syscall::write:entry {{ @w = count(); }}")
    assert made.text == "tracepoint:syscalls:sys_enter_write { @w = count(); }"
    assert why in made.unpriced[0][1]


@pytest.mark.parametrize(
    "text", ["syscall:::entry { @ = count();", "syscall:::entry", "{ }", "a:b:c:d / x { }", "x } y {"]
)
def test_what_is_no_clause_is_refused(text):
    with pytest.raises(UsageError) as error:
        read(text)
    assert len(error.value.lines) == 1


def test_d_is_told_from_bpftraces_scripts(tmp_path):
    assert is_d("BEGIN { } tick-1sec { }")
    assert is_script("trace.d")
    for other in (
        "kprobe:vfs_read { @ = count(); }", "usdt:/bin/x:a:b { @ = count(); }", "usdt:./x:a:b { @ = count(); }",
        "watchpoint:0x10000000:8:w { @ = count(); }", "w:0x1000:8:rw { }", "tracepoint:a:b { printf(\" a:b:c:d {\"); }",
        "uprobe:/bin/bash:cpp:\"f()\" { }", "BEGIN { $a = 1 ? 2 : 3; }",
    ):  # fmt: skip
        assert not is_d(other)


def test_a_command_line_of_dtraces():
    text, notes = of_command(commands("sudo dtrace -qn 'syscall:::entry { @ = count(); }' -p 12"))
    assert text == "syscall:::entry { @ = count(); }"
    assert notes == ["-p 12: of one program alone; firings are to be its own"]
    for line in ("dtrace -l", "dtrace -n", "dtrace", "dtrace x", "dtrace -n a; dtrace -n b"):
        with pytest.raises(UsageError, match="dtrace: "):
            of_command(commands(line))


def test_d_is_compiled_as_what_is_nearest(tmp_path, monkeypatch):
    asked = []

    def compiled(script: str, name: str) -> bpftrace.Compiled:
        asked.append(script)
        return bpftrace.Compiled("bpftrace", (("kprobe:vfs_read", b"\x95"),), (("@", "percpu", 8),))

    monkeypatch.setattr(bpftrace, "compiled", compiled)
    file = tmp_path / "x.d"
    file.write_text("fbt::vfs_read:entry { @ = count(); } BEGIN { }")
    for script in (str(file), file.read_text(), f"dtrace -n '{file.read_text()}'"):
        with readable(script, NOTHING, Console(quiet=True)) as made:
            told = made.read_text()
        assert '"programs": [{"probe": "kprobe:vfs_read", "code": "95"}]' in told
        assert '"unpriced": [{"probe": "BEGIN"' in told
    assert asked == ["kprobe:vfs_read { @ = count(); }"] * 3


@needs_bpftrace
def test_bpftrace_compiles_what_is_nearest():
    for _, near in CLAUSES:
        if near and "@self_t[tid])" not in near:
            assert bpftrace.compiled(near).programs


@given(st.text(st.sampled_from('abs:-{}/ ;@[](),="\\%0+<&|?#_>*tick-1self->$'), max_size=50))
def test_nonsense_is_refused_or_read_and_never_a_fault(text):
    told = []
    for whole in (text, f"syscall::read:entry {{ {text} }}", f"syscall::read:entry /{text}/ {{ @ = sum({text}); }}"):
        is_d(whole)
        try:
            read(whole)
        except UsageError as error:
            told = error.lines
        assert len(told) <= 1
