# SPDX-License-Identifier: MIT
"""The profile decoder: conserved totals, bounds, the last counter, and util-linux's readprofile beside it."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.irq_hotspot.profile.buffer import (
    OUT_OF_TEXT,
    decode,
    decode_as_printed,
    decode_as_readprofile,
)
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import KreproError
from harness.measure.symbols import SymbolMap, parse_system_map
from tests.readprofile import READPROFILE, assert_same_counters, parse_readprofile_b, run_readprofile_b

STEXT = 0xC1000000


def make_map(offsets: list[int], length: int) -> str:
    """A System.map with a function f0, f1, ... at each offset (repeats are aliases), `length` bytes long."""
    lines = [f"{STEXT:08x} T _stext"]
    lines += [f"{STEXT + offset:08x} t f{i}" for i, offset in enumerate(sorted(offsets))]
    lines += [f"{STEXT + length:08x} T _etext", f"{STEXT + length + 64:08x} D after"]
    return "\n".join(lines) + "\n"


def make_raw(counts: list[int], shift: int) -> bytes:
    return np.array([1 << shift, *counts], dtype="<u4").tobytes()


@st.composite
def profiles(draw: st.DrawFn) -> tuple[SymbolMap, str, list[int], int]:
    """A map (aliases, tiny and long functions, ragged end of text) and counters for profile=2..7."""
    shift = draw(st.integers(2, 7))
    length = draw(st.integers(1 << shift, 2000))
    offsets = draw(st.lists(st.integers(0, length - 1), max_size=30))
    buckets = length >> shift
    counts = draw(st.lists(st.integers(0, 5000), min_size=buckets, max_size=buckets))
    text = make_map(offsets, length)
    return parse_system_map(text), text, counts, shift


@given(profiles())
def test_split_conserves_the_total_exactly_and_stays_in_bounds(profile):
    symbols, _, counts, shift = profile
    table = decode(make_raw(counts, shift), symbols)
    assert table.ticks.sum() + table.out_of_text == sum(counts) == table.total
    assert (table.low <= table.ticks).all()
    assert (table.ticks <= table.high).all()
    np.testing.assert_array_equal(table.ticks, table.low + table.shared)
    assert table.high.max(initial=0) <= sum(counts)


@given(profiles())
def test_split_agrees_with_a_byte_by_byte_count(profile):
    symbols, _, counts, shift = profile
    step, last = 1 << shift, len(counts) - 1
    table = decode(make_raw(counts, shift), symbols)
    for start, size, ticks, low, high in zip(
        symbols.address, symbols.size, table.ticks, table.low, table.high, strict=True
    ):
        begin = int(start) - STEXT
        held: dict[int, int] = {}
        for byte in range(begin, begin + int(size)):
            bucket = min(byte >> shift, last)
            held[bucket] = held.get(bucket, 0) + 1
        assert ticks == sum(counts[b] * n for b, n in held.items() if b != last) / step
        assert low == sum(counts[b] for b, n in held.items() if n == step and b != last)
        assert high == sum(counts[b] for b in held)


@given(profiles())
def test_a_sample_is_found_in_the_counter_the_kernel_put_it_in(profile):
    symbols, _, counts, shift = profile
    table = decode(make_raw(counts, shift), symbols)
    for address in [STEXT, STEXT + 5, symbols.etext - 1, symbols.etext, symbols.etext + 999, STEXT - 1, 0]:
        kernel = min(((address - STEXT) % 2**32) >> shift, len(counts) - 1)  # do_profile_hits(), unsigned
        assert table.bucket_of(address) == kernel


@given(profiles())
def test_readprofile_attribution_owns_each_counter_once(profile):
    symbols, _, counts, shift = profile
    table = decode_as_readprofile(make_raw(counts, shift), symbols)
    assert table.total + table.unknown == sum(counts)
    assert table.ticks.sum() == table.total
    by_owner = np.bincount(table.owner[:-1], weights=counts[:-1], minlength=len(table.name))
    np.testing.assert_array_equal(table.ticks, by_owner)
    assert table.owner[-1] == -1


@given(profiles())
def test_printed_pseudo_code(profile):
    symbols, _, counts, shift = profile
    printed = decode_as_printed(make_raw(counts, shift), symbols)
    for size, ticks in zip(symbols.size, printed, strict=True):
        total = index = 0
        while index < min(int(size) // (1 << shift), len(counts)):
            total += counts[index]
            index += 1
        assert ticks == total


def test_straddling_counter_is_split_by_bytes_and_reported():
    # Counters of 16 bytes: f0 0..20, f1 20..32; counter 1 (8 ticks) holds 4 bytes of f0 and 12 of f1.
    symbols = parse_system_map(make_map([0, 20, 32], 64))
    table = decode(make_raw([3, 8, 5, 2], 4), symbols)
    assert table.ticks.tolist() == [3 + 2, 6, 5]
    assert table.low.tolist() == [3, 0, 5]
    assert table.high.tolist() == [11, 8, 5 + 2]
    assert table.is_exclusive(0)
    assert not table.is_exclusive(1)
    assert not table.is_exclusive(3)  # the last counter is nobody's
    assert table.ticks_per_byte[0] == 5 / 20


def test_last_counter_is_out_of_text_but_may_be_the_tail_of_text():
    symbols = parse_system_map(make_map([0, 40], 70))  # 4 counters of 16; the last holds 48..70 and all else
    table = decode(make_raw([0, 0, 0, 9], 4), symbols)
    assert table.ticks.tolist() == [0, 0]
    assert table.high.tolist() == [0, 9]
    assert (table.out_of_text, table.tail) == (9, STEXT + 48)
    row = table.frame().set_index("function").loc[OUT_OF_TEXT]
    assert (row["ticks"], row["low"], row["high"]) == (9, 0, 9)


def test_single_counter_belongs_to_nobody():
    symbols = parse_system_map(make_map([0, 3], 5))
    table = decode(make_raw([7], 2), symbols)
    assert table.out_of_text == table.total == 7
    assert table.high.tolist() == [7, 7]


def test_all_zero_buffer():
    symbols = parse_system_map(make_map([0, 8], 64))
    table = decode(make_raw([0] * 4, 4), symbols)
    assert table.total == 0
    assert table.frame()["function"].tolist() == [OUT_OF_TEXT]


def test_printed_index_makes_equal_sizes_equal():
    # Two functions of 32 bytes each read the first two counters: fault 3 of the paper in two lines.
    symbols = parse_system_map(make_map([0, 32], 64))
    assert decode_as_printed(make_raw([1, 2, 50, 60], 4), symbols).tolist() == [3, 3]


def test_counts_are_unsigned_and_do_not_overflow():
    symbols = parse_system_map(make_map([0], 128))
    table = decode(make_raw([2**32 - 1] * 8, 4), symbols)
    assert table.total == 8 * (2**32 - 1)
    assert table.low[0] == 7 * (2**32 - 1)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "empty or cut short"),
        (b"\x10\0\0\0", "empty or cut short"),
        (make_raw([1, 2, 3, 4], 4)[:-1], "empty or cut short"),
        (make_raw([1, 2, 3], 4), "3 counters of 16 bytes"),
        (make_raw([1, 2, 3, 4, 5], 4), "gives 4"),
        (np.array([12, 1, 2, 3, 4, 5], dtype="<u4").tobytes(), "not a power of two"),
        (np.array([0, 1, 2, 3, 4], dtype="<u4").tobytes(), "not a power of two"),
    ],
)
def test_buffer_that_does_not_fit_the_map(raw, says):
    symbols = parse_system_map(make_map([0], 64))
    for decoder in (decode, decode_as_readprofile, decode_as_printed):
        with pytest.raises(KreproError, match=says):
            decoder(raw, symbols)


needs_readprofile = pytest.mark.skipif(READPROFILE is None, reason="util-linux's readprofile is not installed")


@needs_readprofile
@pytest.mark.parametrize("shift", [2, 3, 4, 5, 6, 7])
def test_real_readprofile_sees_the_same_total_and_the_same_counters(shift, tmp_path):
    rng = np.random.default_rng(shift)
    length = 6000 + shift  # ragged: the last counter holds more than a step
    offsets = [0, *rng.integers(0, length, 250).tolist()]
    offsets += offsets[20:40]  # aliases
    text = make_map(offsets, length)
    counts = rng.poisson(3, length >> shift)
    counts[rng.random(counts.size) < 0.5] = 0
    raw = make_raw(counts.tolist(), shift)
    (tmp_path / "profile").write_bytes(raw)
    (tmp_path / "System.map").write_text(text)

    assert_same_counters(raw, tmp_path / "profile", tmp_path / "System.map")


@needs_readprofile
def test_readprofile_gives_a_functions_last_counter_to_its_successor(tmp_path):
    text = make_map([0, 32], 64)
    (tmp_path / "System.map").write_text(text)
    (tmp_path / "profile").write_bytes(make_raw([0, 9, 0, 0], 4))  # 9 ticks, all in f0's second half
    tool = run_readprofile_b(tmp_path / "profile", tmp_path / "System.map")
    assert tool.totals == [("f1", 9)]
    assert decode((tmp_path / "profile").read_bytes(), parse_system_map(text)).ticks.tolist() == [9, 0]


def test_parser_refuses_output_that_it_does_not_know():
    with pytest.raises(ValueError, match="not a line"):
        parse_readprofile_b("what is this\n")
    with pytest.raises(ValueError, match="trailer"):
        parse_readprofile_b("f:\n\tc1000000\t1\n  total\t\t\t\t1\n")
