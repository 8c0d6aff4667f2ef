# SPDX-License-Identifier: MIT
"""Where functions of a file without symbols are: by the table that unwinders search, and entry by entry."""

from __future__ import annotations

import pytest
from elftools.elf.elffile import ELFFile

from harness.measure.binary import Binary, _parsed, _searched
from tests.compiling import run

SOURCE = """\
static __attribute__((noinline)) int twice(int n) { __asm__ volatile("" : "+r"(n)); return 2 * n; }
static __attribute__((noinline)) int cube(int n) { __asm__ volatile("" : "+r"(n)); return n * n * n; }
int main(int argc, char **argv) { return twice(argc) + cube(argc); }
"""


@pytest.mark.parametrize("bits", [32, 64])
def test_both_ways_find_the_same_functions_and_those_are_the_symbols(bits, tmp_path):
    (tmp_path / "named.c").write_text(SOURCE)
    run("gcc", f"-m{bits}", "-O1", "-fasynchronous-unwind-tables", "-o", "named", "named.c", cwd=tmp_path)
    run("strip", "-o", "bare", "named", cwd=tmp_path)
    with (tmp_path / "bare").open("rb") as file:
        elf = ELFFile(file)
        searched, parsed = _searched(elf), _parsed(elf)
    assert searched is not None
    assert sorted(searched) == sorted(parsed)
    named = {one.first: one for one in Binary(tmp_path / "named").functions if one.name in ("twice", "cube", "main")}
    assert len(named) == 3
    bare = Binary(tmp_path / "bare")
    for first, one in named.items():
        assert bare.function(first) == f"function {first:#x}"
        assert (first, one.last - first) in searched


def test_a_table_of_another_kind_is_read_entry_by_entry(tmp_path):
    (tmp_path / "named.c").write_text(SOURCE)
    run("gcc", "-O1", "-o", "named", "named.c", cwd=tmp_path)
    raw = (tmp_path / "named").read_bytes()
    with (tmp_path / "named").open("rb") as file:
        section = ELFFile(file).get_section_by_name(".eh_frame_hdr")
        at = section["sh_offset"]
    changed = tmp_path / "changed"
    changed.write_bytes(raw[:at] + b"\x02" + raw[at + 1 :])
    with changed.open("rb") as file:
        elf = ELFFile(file)
        assert _searched(elf) is None
        assert len(_parsed(elf)) >= 3
