# SPDX-License-Identifier: MIT
"""The logic of the plugin stale, beside a QEMU of a few lines. A kernel patches itself in test_shim.py."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.machine.plugin import INCLUDE
from tests.compiling import run

KERNEL = "0xffffffff81000000"
PAGE = 4096


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stale") / "driver"
    source = Path(__file__).with_name("stale_driver.c")
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", "-DQEMU_PLUGIN_VERSION=1", "-pthread"]
    run("gcc", *flags, "-static", "-o", made, source)
    return made


def given_up(driver: Path, base: str, offset: int, *patched: int) -> list[tuple[int, int]]:
    done = subprocess.run([driver, base, str(offset), *map(str, patched)], capture_output=True, text=True, check=True)
    found = [(int(line.split()[0]), int(line.split()[1])) for line in done.stdout.splitlines()]
    first, second = found[: len(found) // 2], found[len(found) // 2 :]
    assert first == second, "at both looks: at the first one the block may not be in its page's list yet"
    return first


@pytest.mark.parametrize("patched", [100, 107, 114])
def test_a_block_whose_code_changed_is_given_up(driver, patched):
    assert given_up(driver, KERNEL, 100, patched) == [(100, 115)]


@pytest.mark.parametrize("patched", [(), (99,), (115,)])
def test_a_block_whose_code_is_as_it_was_stays(driver, patched):
    assert given_up(driver, KERNEL, 100, *patched) == []


def test_programs_are_not_watched(driver):
    assert given_up(driver, "0x400000", 100, 100) == []


def test_a_block_may_go_on_in_another_page(driver):
    # Instructions of 5 bytes from 4091, 4096 and 4101 on; the second page of code lies elsewhere.
    assert given_up(driver, KERNEL, PAGE - 5, 2 * PAGE + 3) == [(PAGE - 5, PAGE), (2 * PAGE, 2 * PAGE + 10)]


def test_of_an_instruction_across_pages_the_first_part_is_watched(driver):
    # From 4089, 4094 (two bytes in this page) and 4099 on.
    expected = [(PAGE - 7, PAGE), (2 * PAGE + 3, 2 * PAGE + 8)]
    assert given_up(driver, KERNEL, PAGE - 7, PAGE - 1) == expected
    assert given_up(driver, KERNEL, PAGE - 7, 2 * PAGE + 1) == []


@pytest.mark.parametrize(
    ("int3", "patched", "begins"),
    [
        (105, 99, ["goes on"]),
        (105, 105, ["100 115", "left"]),
        (100, 114, ["100 115", "left"]),
        (106, 105, ["does not look"]),  # in the midst of an instruction, it is none
    ],
)
def test_a_block_with_an_int3_is_begun_only_while_it_is_there(driver, int3, patched, begins):
    words = [driver, KERNEL, "100", str(patched), str(int3)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == begins * 2, "each time that it begins"
