# SPDX-License-Identifier: MIT
"""Whether two functions are the same code, compiled for real and laid elsewhere."""

from __future__ import annotations

import pytest

from harness.measure.binary import Binary
from harness.program.profile.machinecode import changed
from tests.compiling import run
from tests.conftest import needs_guest_packages

pytestmark = needs_guest_packages

C = """
int table[64], other;
__attribute__((noinline)) int callee(int n) { return n * 3 + other; }
__attribute__((noinline)) int watched(int n)
{
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum += table[i & 63] + callee(i);
	return sum STEP;
}
int main(int argc, char **argv) { return watched(argc); }
"""


@pytest.fixture
def built(tmp_path):
    def go(name: str, *flags: str, step: str = "") -> Binary:
        path = tmp_path / name
        run("gcc", "-x", "c", "-", "-o", path, "-O1", f"-DSTEP={step}", *flags, text=C)
        return Binary(path)

    return go


def code(binary: Binary) -> bytes:
    (function,) = (one for one in binary.functions if one.name == "watched")
    return binary.code(function.first)


@pytest.mark.parametrize(("bits", "flags"), [(64, ("-m64",)), (64, ("-m64", "-no-pie", "-static")), (32, ("-m32",))])
def test_places_are_no_change_and_one_instruction_is(built, bits, flags):
    one = code(built("one", *flags))
    # Other functions, and more data, before it.
    moved = code(built("moved", *flags, "-include", "stdio.h", "-falign-functions=64", "-Wl,-z,separate-code"))
    more = code(built("more", *flags, step="+ 1"))
    assert len(one) > 20
    assert changed([(one, moved), (one, more), (one, one)], bits) == [False, True, False]


def test_a_branch_to_another_place_inside_is_a_change():
    stays, jumps = bytes.fromhex("ffc8 75fc c3"), bytes.fromhex("ffc8 7500 c3")  # dec; jnz to the dec, or behind it
    assert changed([(stays, jumps)], 64) == [True]


def test_calls_of_others_at_other_distances_are_none():
    near, far = bytes.fromhex("e8 00100000 c3"), bytes.fromhex("e8 00200000 c3")
    assert changed([(near, far)], 64) == [False]
