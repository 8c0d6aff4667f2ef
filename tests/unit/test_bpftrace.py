# SPDX-License-Identifier: MIT
"""What bpftrace makes of a script: which map a number means, and whose code a section has."""

from __future__ import annotations

import os
import re
import shutil

import pytest

from harness.program import bpftrace

STACK = """\
  %{0} = tail call i64 @llvm.bpf.pseudo(i64 1, i64 {1})
  %get_stackid = tail call i64 inttoptr (i64 27 to i64 (i8*, i64, i64)*)(i8* %0, i64 %{0}, i64 0)
"""
NAMED = "   map: @b :: type[count, ctx: 0]\n   map: @a :: type[string[16], ctx: 0]\n"
EVENTS = ("", "perf", 4)


@pytest.mark.parametrize(
    ("said", "maps"),
    [
        ("", ()),
        (NAMED, (("@a", "hash", 8), ("@b", "percpu", 8))),
        ("  call: join :: type[none]\n", (("", "array", 4),)),
        ("  builtin: elapsed :: type[unsigned int64]\n", (("", "hash", 8),)),
        (STACK.format("pseudo", 0) + STACK.format("pseudo4", 0), (("", "stack", 4),)),
        (STACK.format("pseudo", 0) + STACK.format("pseudo", 1), (("", "stack", 4), ("", "stack", 4))),
        (
            "  builtin: elapsed ::\n  call: join ::\n" + STACK.format("pseudo7", 2) + NAMED,
            (("@a", "hash", 8), ("@b", "percpu", 8), ("", "stack", 4), ("", "array", 4), ("", "hash", 8)),
        ),
    ],
)
def test_maps_have_the_numbers_that_bpftrace_gives_them(said, maps):
    assert bpftrace._maps(said) == (*maps, EVENTS)


@pytest.mark.skipif(bool(os.geteuid()) or shutil.which("bpftrace") is None, reason="needs root and bpftrace")
def test_a_script_with_all_kinds_of_maps():
    script = 'kprobe:vfs_read { @[kstack(2)] = count(); @b[kstack(3)] = 1; join(arg1); printf("%d", elapsed); }'
    made = bpftrace.compiled(script)
    assert made.probes() == ["kprobe:vfs_read"]
    assert [(name, kind) for name, kind, _ in made.maps if name] == [("@", "percpu"), ("@b", "hash")]
    kinds = [kind for name, kind, _ in made.maps if not name]
    if tuple(map(int, re.findall(r"\d+", made.version)[:2])) >= bpftrace.STAGES:
        assert {"hash", "array", "ring"} == set(kinds)
    else:
        assert kinds == ["stack", "stack", "array", "hash", "perf"]


TREE = """\

AST after: parser
-------------------
Program
 config
  =
   config var: max_map_keys
 BEGIN
  call: printf
 kprobe:vfs_*
 tracepoint:syscalls:sys_enter_kill
  map: @

AST after: semantic
-------------------
Program
 BEGIN
"""


def test_the_probes_of_a_script_are_those_of_its_text():
    assert bpftrace._probes(TREE) == ["BEGIN", "kprobe:vfs_*", "tracepoint:syscalls:sys_enter_kill"]


@pytest.mark.parametrize(
    ("probes", "sections", "programs", "absent"),
    [
        (["BEGIN"], ["BEGIN"], [("BEGIN", b"0")], []),
        # Twice the same probe is two programs; a pattern is one, whatever it means here.
        (["kprobe:f", "kprobe:f"], ["kprobe_f", "kprobe_f"], [("kprobe:f", b"0"), ("kprobe:f", b"1")], []),
        (["kprobe:f*", "END"], ["kprobe_f1", "kprobe_f2", "END"], [("kprobe:f*", b"0"), ("END", b"2")], []),
        (["kprobe:f*", "kprobe:g"], ["kprobe_g"], [("kprobe:g", b"0")], ["kprobe:f*"]),
        (["kprobe:f.isra.0"], ["kprobe_f_isra_0"], [("kprobe:f.isra.0", b"0")], []),
    ],
)
def test_a_probe_has_the_code_of_its_section(probes, sections, programs, absent):
    made = [(name, str(number).encode()) for number, name in enumerate(sections)]
    assert bpftrace.attached(probes, made) == (programs, absent)


def test_a_program_without_a_probe_is_an_error():
    with pytest.raises(ValueError, match="its program kprobe_g is of no probe of the script"):
        bpftrace.attached(["kprobe:f"], [("kprobe_f", b""), ("kprobe_g", b"")])
