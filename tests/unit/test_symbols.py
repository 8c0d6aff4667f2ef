# SPDX-License-Identifier: MIT
"""System.map and kallsyms: sizes, aliases, bounds, and maps that are no maps."""

from __future__ import annotations

import numpy as np
import pytest

from harness.errors import KreproError
from harness.measure.symbols import parse_system_map, read_system_map, with_kallsyms

MAP32 = """\
00000000 A VDSO32_PRELINK
c1000000 T _stext
c1000000 T _text
c1000000 T startup_32
c1000040 t do_one
c1000058 W arch_weak
c1000058 T arch_strong
c1000058 t aaa_local
c1000070 T __cpuidle_text_start
c1000070 t default_idle
c1000080 T __cpuidle_text_end
c1000090 t do_one
c10000a0 r not_text
c10000b7 T _etext
c1100000 D jiffies
c1200000 T _sinittext
"""


def test_sizes_cover_text_without_gap_or_overlap():
    symbols = parse_system_map(MAP32)
    assert symbols.bits == 32
    assert (symbols.stext, symbols.etext) == (0xC1000000, 0xC10000B7)
    assert symbols.address.dtype == np.uint64
    assert symbols.size.sum() == symbols.etext - symbols.stext
    assert symbols.size.min() > 0
    ends = symbols.address + symbols.size
    np.testing.assert_array_equal(ends[:-1], symbols.address[1:])


def test_aliases_are_chosen_by_rule_not_by_order():
    symbols = parse_system_map(MAP32)
    expected = ["startup_32", "do_one", "arch_strong", "default_idle", "__cpuidle_text_end", "do_one"]
    assert symbols.name.tolist() == expected
    lines = MAP32.splitlines()
    shuffled = "\n".join([lines[0], *reversed(lines[1:])]) + "\n"
    assert parse_system_map(shuffled).name.tolist() == expected
    assert len(symbols.alias_name) == 11  # every text symbol in _stext.._etext, aliases too


def test_find_by_any_alias_and_all_static_namesakes():
    symbols = parse_system_map(MAP32)
    assert symbols.find("arch_weak").tolist() == [2]
    assert symbols.find("do_one").tolist() == [1, 5]
    assert symbols.find("jiffies").size == 0
    assert symbols.find("_sinittext").size == 0


def test_at_is_half_open_at_both_ends():
    symbols = parse_system_map(MAP32)
    queries = [0, 0xC0FFFFFF, 0xC1000000, 0xC100003F, 0xC1000040, 0xC10000B6, 0xC10000B7, 2**64 - 1]
    assert symbols.at(np.array(queries, dtype=np.uint64)).tolist() == [-1, -1, 0, 0, 1, 5, -1, -1]


def test_64_bit_addresses_keep_all_their_bits():
    text = "ffffffff81000000 T _stext\nffffffff81000010 t f\nffffffff81000020 T _etext\n"
    symbols = parse_system_map(text)
    assert symbols.bits == 64
    assert [int(a) for a in symbols.address] == [0xFFFFFFFF81000000, 0xFFFFFFFF81000010]
    assert symbols.at([0xFFFFFFFF8100001F]).tolist() == [1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "missing"),
        ("", "empty"),
        ("\n\n", "empty"),
        ("c1000000 T _stext\nc1000010 T f\n", "no _etext"),
        ("c1000010 T f\nc1000020 T _etext\n", "no _stext"),
        ("c1000000 T _stext\nc1000010 T f\nc100", "truncated"),
        ("c1000000 T _stext\nhello\nc1000020 T _etext\n", "not a line"),
        ("c1000020 T _stext\nc1000000 T _etext\n", "after _stext"),
        ("c1000000 A _stext\nc1000010 T f\nc1000020 T _etext\n", "no text symbol at _stext"),
    ],
)
def test_bad_maps_are_named_with_file_and_reason(text, says, tmp_path):
    path = tmp_path / "System.map"
    if text is not None:
        path.write_text(text)
    with pytest.raises(KreproError, match=says) as caught:
        read_system_map(path)
    assert str(path) in str(caught.value)


def test_kallsyms_adds_module_text_only():
    symbols = with_kallsyms(
        parse_system_map(MAP32),
        "c1000000 T _stext\nd0001000 t late\t[other]\nd0000000 t handler\t[edu]\nd0000100 d data\t[edu]\n",
    )
    assert symbols.module_name.tolist() == ["handler [edu]", "late [other]"]
    assert symbols.module_address.tolist() == [0xD0000000, 0xD0001000]
    assert symbols.modules == ("edu", "other")
    assert len(symbols) == 6


def test_kallsyms_with_hidden_addresses_is_an_error():
    with pytest.raises(KreproError, match="kptr_restrict"):
        with_kallsyms(parse_system_map(MAP32), "00000000 T _stext\n00000000 t f\t[m]\n")
