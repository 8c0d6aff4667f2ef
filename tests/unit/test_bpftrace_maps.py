# SPDX-License-Identifier: MIT
"""Which map a compiled script of bpftrace's means by a number: those with a name, and those that bpftrace adds."""

from __future__ import annotations

import os
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
    script = 'kprobe:vfs_read { @[kstack] = count(); @b[kstack(3)] = 1; join(arg1); printf("%d", elapsed); }'
    kinds = [kind for _, kind, _ in bpftrace.compiled(script).maps]
    assert kinds == ["percpu", "hash", "stack", "stack", "array", "hash", "perf"]
