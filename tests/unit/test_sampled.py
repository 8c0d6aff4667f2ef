# SPDX-License-Identifier: MIT
"""Records of perf_event_open(2), written by hand: whose code a sample is of, and what is damaged."""

from __future__ import annotations

import struct
from collections import Counter

import pytest

from harness.errors import RunError
from harness.measure.symbols import read_system_map
from harness.program.profile.calls import Call, Calls, Thread
from harness.program.profile.code import Files, Place
from harness.program.profile.sampled import FORK, LOST, MMAP2, SAMPLE, Sampled, compared, read_samples, told
from tests.compiling import run

USER, KERNEL = 2, 1
BASE = 0x555555554000


def record(kind, body, mode=0):
    body += bytes(-len(body) % 8)
    return struct.pack("<IHH", kind, mode, 8 + len(body)) + body


def sample(address, pid, mode=USER):
    return record(SAMPLE, struct.pack("<QII", address, pid, pid), mode)


def mapping(pid, begin, length, offset, name):
    return record(MMAP2, struct.pack("<IIQQQ", pid, pid, begin, length, offset) + bytes(32) + name + b"\0")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    text = "int spin(void) { return 3; } int main(void) { return spin(); }"
    run("gcc", "-x", "c", "-", "-O0", "-pie", "-o", root / "prog", text=text)
    return root


def read(root, *records):
    files = Files(root)
    (root / "System.map").write_text(
        "ffffffff81000000 T _stext\nffffffff81000100 T vfs_read\nffffffff81000200 T _etext\n"
    )
    (root / "samples").write_bytes(b"".join(records))
    return read_samples(root / "samples", read_system_map(root / "System.map"), files)


def test_a_sample_is_of_the_function_that_its_process_had_there(program):
    spin = next(one.first for one in Files(program).binary(program / "prog").functions if one.name == "spin")
    found = read(
        program,
        mapping(7, BASE, 0x10000, 0, b"/prog"),
        sample(BASE + spin + 1, 7),
        record(FORK, struct.pack("<IIII", 8, 7, 8, 7)),
        sample(BASE + spin + 2, 8),
        mapping(8, BASE, 0x1000, 0, b"//anon"),  # it executes another file: what lay there is gone
        sample(BASE + spin + 2, 8),
        sample(0xFFFFFFFF81000110, 7, KERNEL),
        sample(BASE + spin, 9),
        record(LOST, struct.pack("<QQ", 1, 5)),
    )
    expected = {("spin", "/prog"): 2, ("vfs_read", "kernel"): 1, ("(unknown)", "[no file]"): 2}
    assert found == Sampled(expected, 5)


def test_without_a_sample_there_is_no_share(program):
    calls = Calls(
        [Thread(1, "prog", 0, True, 5, Call("main", Place("main", "/prog", 0), own=5, total=5))], Counter(), 0
    )
    none = read(program)
    table = compared(calls, none)
    assert table[["instructions", "share", "samples"]].to_numpy().tolist() == [[5, 1.0, 0]]
    assert table[["sampled", "off"]].isna().all(axis=None)
    assert told(table, none) == ["perf record -F 4000 would have taken no sample: the program is too short."]


@pytest.mark.parametrize(("data", "says"), [(sample(1, 1)[:-3], "damaged record"), (b"abc", "ends inside a record")])
def test_what_is_damaged_says_where(data, says, program):
    with pytest.raises(RunError, match=says) as raised:
        read(program, sample(1, 1), data)
    assert "byte 24" in str(raised.value)
