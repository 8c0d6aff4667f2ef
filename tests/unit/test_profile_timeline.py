# SPDX-License-Identifier: MIT
"""A profile as slices in slices: exact sums on a tree made by hand, and order, nesting and bounds on any tree."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from harness.measure.traceevents import MOST_DEPTH
from harness.program.profile.calls import KERNEL, Call, Thread
from harness.program.profile.code import Place
from harness.program.profile.timeline import DEEPER, SMALLER, laid_out, write_timeline


def call(label, own, *below, calls=1, file="/prog"):
    """With what it calls, and the sum of it."""
    made = Call(label, Place(label, file), own, own + sum(one.total for one in below), calls)
    made.below = {(one.label, file): one for one in below}
    return made


def thread(root, number=7, ours=True):
    return Thread(number, "prog", 0, ours, 0, root)


def deep(levels):
    made = call("f", 1)
    for _ in range(levels - 1):
        made = call("f", 1, made)
    return made


#: 1234 instructions: a function calls one that leaves for the kernel, a larger one, and two small ones.
TREE = call(
    "main", 34, call("read", 100, call("vfs_read", 300, file=KERNEL)), call("work", 700), call("a", 60), call("b", 40)
)


def shown(events):
    """Name, begin and length in instructions, as the file says."""
    return [(one["name"], round(one["ts"] * 1000), round(one["dur"] * 1000)) for one in events]


def test_a_calls_length_is_its_instructions_and_what_has_most_comes_first():
    slices = list(laid_out([thread(TREE)]))
    assert shown(slices) == [
        ("main", 0, 1234),
        ("work", 0, 700),
        ("read", 700, 400),
        ("vfs_read", 700, 300),
        ("a", 1100, 60),
        ("b", 1160, 40),
    ]
    assert slices[0]["args"] == {"own": 34, "calls": 1, "file": "/prog"}
    assert slices[3]["args"]["file"] == "kernel"


def test_what_is_small_is_told_as_a_sum_and_what_it_is_in_keeps_its_length():
    slices = list(laid_out([thread(TREE)], most=3))
    assert shown(slices) == [
        ("main", 0, 1234),
        ("work", 0, 700),
        ("read", 700, 400),
        (SMALLER, 700, 300),
        (SMALLER, 1100, 100),
    ]
    assert [one["args"].get("paths") for one in slices] == [None, None, None, 1, 2]


def test_paths_of_one_size_are_told_all_or_none():
    slices = list(laid_out([thread(call("main", 1, *(call(f"f{i}", 5) for i in range(4))))], most=3))
    assert shown(slices) == [("main", 0, 21), (SMALLER, 0, 20)]
    assert slices[1]["args"] == {"paths": 4}


def test_a_thread_is_told_however_little_it_did():
    slices = list(laid_out([thread(TREE), thread(call("small", 2, call("f", 3)), 8)], most=1))
    assert shown(slices) == [("main", 0, 1234), (SMALLER, 0, 1200), ("small", 0, 5), (SMALLER, 0, 3)]


def test_no_slice_lies_deeper_than_a_viewer_shows():
    assert len(list(laid_out([thread(deep(MOST_DEPTH))]))) == MOST_DEPTH
    slices = list(laid_out([thread(deep(MOST_DEPTH + 9))]))
    assert len(slices) == MOST_DEPTH
    assert (shown(slices)[-1], slices[-1]["args"]) == ((DEEPER, 0, 10), {"paths": 10})


def test_the_file_says_what_a_nanosecond_is_and_the_terminal_what_is_a_sum(tmp_path):
    threads = [thread(TREE), thread(call("swapper", 12), 1, ours=False), thread(call("idle", 0), 2, ours=False)]
    lines = write_timeline(threads, tmp_path)
    assert lines == ["perfetto.json has no times: 1 ns is 1 instruction, and what has most comes first."]
    events = json.loads((tmp_path / "perfetto.json").read_text())["traceEvents"]
    names = [(one["pid"], one["tid"], one["args"]["name"]) for one in events if one["ph"] == "M"]
    assert names == [
        (1, 0, "the program: 1 ns is 1 instruction"),
        (2, 0, "others meanwhile: 1 ns is 1 instruction"),
        (1, 7, "main"),
        (2, 1, "swapper"),
    ]
    assert shown(events[4:])[-1] == ("swapper", 0, 12)
    more = "Of its paths of calls 3 are told as sums, (smaller) or (deeper)."
    assert write_timeline(threads, tmp_path, most=3) == [*lines, more]


TREES = st.recursive(
    st.builds(lambda own: ("f", own, ()), st.integers(0, 9)),
    lambda below: st.tuples(st.just("f"), st.integers(0, 9), st.lists(below, max_size=4)),
    max_leaves=30,
)


def grown(tree, name="r"):
    _, own, below = tree
    return call(name, own, *(grown(one, f"{name}{i}") for i, one in enumerate(below)))


def counted(tree):
    return (tree.total > 0) + sum(counted(below) for below in tree.below.values())


@given(TREES, st.integers(1, 12), st.integers(2, 6))
def test_slices_lie_in_each_other_in_order_and_nothing_is_lost(tree, most, depth):
    root = grown(tree)
    slices = list(laid_out([thread(root)] if root.total else [], most, depth))
    stack: list[tuple[int, str]] = []  # end and name of those around
    told = summed = 0
    inside: dict[str, int] = {}
    for event, (name, begin, length) in zip(slices, shown(slices), strict=True):
        assert length > 0
        while stack and stack[-1][0] <= begin:
            stack.pop()
        assert not stack or begin + length <= stack[-1][0]
        if stack:
            inside[stack[-1][1]] = inside.get(stack[-1][1], 0) + length
        stack.append((begin + length, name))
        assert len(stack) <= depth
        paths = event["args"].get("paths", 0)
        told, summed = told + (not paths), summed + paths
    assert told <= most + 1
    assert told + summed == (counted(root) if slices else 0)
    for event in slices:
        if "own" in event["args"]:
            assert inside.get(event["name"], 0) == round(event["dur"] * 1000) - event["args"]["own"]
