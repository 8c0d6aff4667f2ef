# SPDX-License-Identifier: MIT
"""Why a function's count is another one, and what of a system call is due to changed code; profiles made by hand."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pandas as pd
import pytest

from harness.errors import UsageError
from harness.kernel.packaged import changes_since
from harness.program.comparing import bound
from harness.program.history import kernels_of, related
from harness.program.profile.calls import KERNEL
from harness.program.profile.code import Place
from harness.program.profile.difference import by_code, call_difference, function_difference
from harness.program.profile.profile import INTERRUPTS, Cost, Profile
from tests.conftest import needs_guest_packages

NOPS = b"\x48\xff\xc0"  # inc %rax


class Known(Profile):
    """A profile whose code is what it was made with."""

    def code(self, place):
        return {"changed": NOPS * self.length, "same": NOPS, "busy": NOPS, "moved": NOPS}.get(place.name, b"")

    def has(self, name, file):
        return name == "seldom" or any((place.name, place.file) == (name, file) for place in self.functions)


def profile(length, below=(), **counts):
    functions = {Place(name, KERNEL): Cost(*cost) for name, cost in counts.items()}
    functions[INTERRUPTS] = Cost(length * 17, 1)
    under = {"read": Counter({(name, KERNEL): count for name, count in below})}
    calls = {"read": Cost(sum(count for _, count in below), 10)}
    made = Known(SimpleNamespace(threads=[]), SimpleNamespace(bits=64), None, {}, functions, calls, under)
    made.length = length
    return made


@needs_guest_packages
def test_each_function_says_why():
    before = [
        profile(1, changed=(100, 10), same=(50, 5), busy=(40, 4), moved=(30, 3), old=(7, 1), blind=(9, 1)),
        profile(1, changed=(100, 10), same=(50, 5), busy=(40, 4), moved=(34, 3), old=(7, 1), blind=(9, 1)),
    ]
    after = [
        profile(
            2, changed=(120, 10), same=(60, 6), busy=(44, 4), moved=(33, 3), young=(3, 1), seldom=(2, 1), blind=(8, 1)
        ),
        profile(
            2, changed=(120, 10), same=(60, 6), busy=(44, 4), moved=(37, 3), young=(3, 1), seldom=(2, 1), blind=(8, 1)
        ),
    ]
    table = function_difference(before, after).set_index("function")
    assert table["why"].to_dict() == {
        **{"changed": "code", "same": "calls", "busy": "data", "moved": "varies", "old": "gone", "young": "new"},
        **{"blind": "not known", "seldom": "calls", INTERRUPTS.name: "varies"},
    }
    assert table["change"].to_dict() == {
        **{"changed": 20, "same": 10, "busy": 4, "moved": 3, "old": -7, "young": 3, "seldom": 2, "blind": -1},
        INTERRUPTS.name: 17,
    }
    assert set(by_code(table.reset_index())["function"]) == {"changed", "old", "young"}


@needs_guest_packages
def test_a_function_in_another_ones_place_is_no_new_work():
    before = [profile(1, seldom=(30, 3), same=(50, 5))]
    after = [profile(1, **{"__seldom.part.0": (31, 3)}, same=(60, 6))]
    table = function_difference(before, after).set_index("function")
    assert table["why"].to_dict() == {"seldom": "code", "__seldom.part.0": "new", "same": "calls"}
    assert by_code(table.reset_index())["change"].sum() == 1


@needs_guest_packages
def test_of_a_system_call_the_changed_code_is_told_apart():
    before = [profile(1, below=[("changed", 1000), ("same", 500)], changed=(1000, 10), same=(500, 5))]
    after = [profile(2, below=[("changed", 1020), ("same", 530)], changed=(1020, 10), same=(530, 5))]
    (row,) = call_difference(before, after, function_difference(before, after)).to_dict("records")
    assert (row["for each before"], row["for each after"], row["change"], row["by code"]) == (150.0, 155.0, 5.0, 2.0)


CHANGELOG = """\
linux-signed-amd64 (6.1.192+1) bookworm-security; urgency=high

  * Sign kernel from linux 6.1.192-1

  * New upstream stable update:
    - pipe: count
      what is in it
    - io_uring: another
 -- Somebody <s@example.org>  Sat, 14 Nov 2026 10:29:00 +0100

linux-signed-amd64 (6.1.190+1) bookworm-security; urgency=high

    - pipe: older
"""


def test_changes_are_those_above_a_version():
    lines = changes_since(CHANGELOG, "6.1.190-1")
    assert lines[2:] == ["pipe: count what is in it", "io_uring: another"]
    assert changes_since(CHANGELOG, "6.1.192-1") == []
    functions = pd.DataFrame({"function": ["pipe_write", "exit_to_user_mode_prepare"]})
    assert related(lines, functions) == ["pipe: count what is in it"]


def test_a_bound_is_per_cent():
    assert (bound("1%"), bound("0.5"), bound(None)) == (1.0, 0.5, None)
    with pytest.raises(UsageError, match="--below much: must be per cent, as 1%"):
        bound("much")


def test_a_history_needs_several_kernels():
    assert len(kernels_of(["debian:6.1.*"])) >= 3
    assert kernels_of(["debian:6.1", "modern-6.1"]) == ["debian:6.1", "modern-6.1"]
    with pytest.raises(UsageError, match="is one kernel"):
        kernels_of(["debian:6.1"])
