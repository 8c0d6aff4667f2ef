# SPDX-License-Identifier: MIT
"""The report on one traced program: tiles against naive counts, advice with known answers, names, address spaces."""

from __future__ import annotations

import base64
import tempfile
import tracemalloc
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from experiments.page_trace.report import tiles
from experiments.page_trace.report.advice import (
    advise_habits,
    advise_hot,
    advise_pairs,
    advise_passed,
    advise_threads,
    habits,
)
from experiments.page_trace.report.habits import Instructions, Sharing
from experiments.page_trace.report.names import Names, Place, rows_of
from experiments.page_trace.report.spaces import IP_BITS, PAGE_BITS, Spaces
from experiments.page_trace.report.tiles import COLUMNS, Pyramid
from experiments.page_trace.trace import pairs as pairs_module
from experiments.page_trace.trace.maps import Mapping, Maps
from experiments.page_trace.trace.pages import PageTable
from experiments.page_trace.trace.pairs import PairCounts
from experiments.page_trace.trace.records import EXEC, KERNEL, TASK, WRITE, Trace, decode
from experiments.page_trace.trace.tables import fill
from experiments.page_trace.trace.transitions import Transitions
from hypothesis import example, given
from hypothesis import strategies as st

from harness.measure.binary import Binary
from tests.compiling import run
from tests.conftest import needs_guest_packages
from tests.experiments.page_trace.traces import record, visits_of, words_of, write_trace

#: Tiles wait here, in files without a name.
SCRATCH = Path(tempfile.gettempdir())

# -- tiles -------------------------------------------------------------------------------------------------


def decoded(text: str) -> dict[int, tuple[int, bool]]:
    """Key to the byte's count, and whether one writes: what page.js does, step by step."""
    data = zlib.decompress(base64.b64decode(text))
    cells, at, key, end = [], 0, 0, len(data)
    while at < end:
        shift = 0
        while True:
            byte = data[at]
            at += 1
            key += (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        cells.append(key)
        end -= 1
    return {key: (value & 127, value >= 128) for key, value in zip(cells, data[end:], strict=True)}


def naive(rows, columns, group):
    """Of (row, column, write): visits and writes by tile and key."""
    visits, writes = Counter(), Counter()
    for row, column, write in rows:
        place = column // COLUMNS, (row >> group) * COLUMNS + column % COLUMNS
        visits[place] += 1
        writes[place] += write
    assert all(column < columns for _, column, _ in rows)
    return visits, writes


@given(
    st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=1, max_size=300),
    st.integers(1, 7),
    st.sampled_from([3, 12]),
)
def test_tiles_have_what_a_naive_count_has_on_every_level(visits, pieces, row_bits):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "ROW_BITS", row_bits)
        pages = np.unique(np.array([100 + 3 * page for page, _ in visits], dtype=np.uint64))
        span = 1000 * len(visits)
        pyramid = Pyramid(pages, span, 20_000, SCRATCH)  # as if there were more, for some levels
        words = words_of(record(100 + 3 * p, 1000 * i, flags=w * WRITE) for i, (p, w) in enumerate(visits))
        for part in np.array_split(words, pieces):
            pyramid.add(decode(part))
        levels = pyramid.finish()
    assert len(levels) == pyramid.depth + 1 == 5
    rows = {int(page): row for row, page in enumerate(pages)}
    for number, level in enumerate(levels):
        columns = COLUMNS << number
        points = [(rows[100 + 3 * p], int(1000 * i * (columns / span)), w) for i, (p, w) in enumerate(visits)]
        seen, written = naive(points, columns, pyramid.grouped[number])
        cells = {(tile, key): cell for tile, text in level.items() for key, cell in decoded(text).items()}
        assert cells.keys() == seen.keys()
        for place, (value, write) in cells.items():
            assert value == min(127, round(np.log2(seen[place]) * 8))
            assert write == (written[place] > 0)


def test_texts_of_tiles_take_no_memory():
    kept = tiles.Tiles(SCRATCH)
    tracemalloc.start()
    for number in range(200):
        kept.put(number, f"{number:06}" * 20_000)
    memory, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept.bytes == 24_000_000 > 20 * memory
    assert [text[-6:] for text in kept.values()] == [f"{number:06}" for number in range(200)]
    kept.clear()
    assert (kept.bytes, len(kept)) == (0, 0)
    kept.put(7, "again")
    assert dict(kept) == {7: "again"}


@pytest.mark.parametrize("pieces", [1, 9])
def test_levels_with_too_many_cells_are_left_out_from_the_deepest_up(pieces):
    words = visits_of([page % 4 for page in range(20_000)], 7)
    whole: list[dict[int, str]] = []
    counts = []
    for most in (10**9, 16_000, 5_000, 1):
        pyramid = Pyramid(np.arange(4, dtype=np.uint64), 140_001, 20_000, SCRATCH, most)
        for part in np.array_split(words, pieces):
            pyramid.add(decode(part))
        left = [dict(level) for level in pyramid.finish()]
        whole = whole or left
        assert left == whole[: len(left)], "what is left is as it would be anyway"
        counts.append(len(left))
    assert counts == [5, 3, 2, 1]


@given(st.lists(st.integers(0, (1 << 35) - 1), max_size=40))
@example([(1 << 7 * n) + more for n in range(1, 5) for more in (-1, 0)])
def test_varints(numbers):
    data = tiles._varints(np.array(numbers, dtype=np.uint64))
    value, shift, read = 0, 0, []
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            read.append(value)
            value, shift = 0, 0
    assert read == numbers


@pytest.mark.parametrize("gathered", [1, 1 << 20])
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=60), st.integers(1, 4))
def test_pairs_are_counted(gathered, rows, pieces):
    pairs, known = PairCounts(), (0, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs_module, "_GATHERED", gathered)
        for part in np.array_split(np.array(rows, dtype=np.intp).reshape(-1, 2), pieces):
            known = tuple(max(one, *column, 0) for one, column in zip(known, (part + 1).T.tolist(), strict=True))
            pairs.add(part[:, 0], part[:, 1], known)
        counts = pairs.counts().tocoo()
    told = zip(counts.row.tolist(), counts.col.tolist(), counts.data.tolist(), strict=True)
    assert {(left, right): count for left, right, count in told} == Counter(rows)
    assert (pairs.total, pairs.error) == (len(rows), 0)


@pytest.mark.parametrize("often", [1, 2, 1 << 12])
def test_of_many_pairs_those_that_came_more_often_stay(monkeypatch, often):
    monkeypatch.setattr(pairs_module, "_OFTEN", often)
    rows = np.minimum(np.random.default_rng(9).zipf(1.4, (20_000, 2)), 150)
    exact = Counter(map(tuple, rows.tolist()))
    kept = PairCounts(most=1000)
    kept.add(rows[:, 0], rows[:, 1], (151, 151))
    left = kept.counts().tocoo()
    told = dict(zip(zip(left.row.tolist(), left.col.tolist(), strict=True), left.data.tolist(), strict=True))
    # Of those as frequent, the first.
    assert told == dict(sorted(exact.items(), key=lambda item: (-item[1], item[0]))[:500])
    assert kept.error == max(count for pair, count in exact.items() if pair not in told)


def test_what_a_dropped_pair_had_may_be_less_than_what_the_last_one_kept_has():
    kept = PairCounts(most=4)
    kept.add(np.repeat(np.arange(5), np.arange(1, 6)), np.zeros(15, dtype=np.intp), (5, 1))
    assert kept.counts().toarray().ravel().tolist() == [0, 0, 0, 4, 5]
    assert kept.error == 3


# -- advice ------------------------------------------------------------------------------------------------


def measured(words, size=1 << 20):
    tables = PageTable(), Instructions(), Sharing(), Transitions()
    fill((decode(words[i : i + size]) for i in range(0, len(words), size)), tables)
    return tables


def named(page: int) -> str:
    return "b[]" if page >= 1000 else "stack"


def told(words, size=1 << 20):
    """Advice on habits, where each instruction has a line of its own."""
    pages, instructions, _, _ = measured(words, size)
    visits = instructions.frame()
    places = {int(ip): Place("f", f"matmul.c:{ip}", f"matmul.c:{ip} (f)") for ip in visits["ip"].unique()}
    found = habits(visits, instructions.strides(), places, named)
    return [(one.kind, one.text) for one in advise_habits(found, int(pages.frame()["visits"].sum()))]


def turns(pages, ip=31):
    """An instruction's visits, each with one to the stack between."""
    rows = [(record(page, ip=ip), record(5, ip=1)) for page in pages]
    return words_of(record_ for pair in rows for record_ in pair)


@pytest.mark.parametrize("size", [7, 1 << 20])
def test_a_walk_by_column_is_told_with_its_distance(size):
    ((kind, text),) = told(turns([1000 + 1000 * k for _ in range(8) for k in range(50)]), size)
    assert kind == "order"
    assert text.startswith("matmul.c:31 (f) walks b[] by column: 1,000 pages apart, 56 steps in a row, over 50 pages.")


def test_a_distance_that_is_no_whole_number_of_pages_is_one_walk():
    ((kind, text),) = told(turns([1000 + k * 5 // 2 for _ in range(5) for k in range(100)]))
    assert kind == "order"
    assert "2.5 pages apart" in text


@pytest.mark.parametrize(("step", "way"), [(1, "upwards"), (-1, "downwards")])
def test_a_walk_from_page_to_page_is_to_be_prefetched(step, way):
    ((kind, text),) = told(turns([5000 + step * k for k in range(400)]))
    assert kind == "prefetch"
    assert f"walks b[] page by page, {way}: 100% of its moves" in text


def test_a_walk_that_comes_again_is_to_be_done_at_once():
    order, prefetch = told(turns([5000 + k for _ in range(4) for k in range(100)]))
    assert (order[0], prefetch[0]) == ("order", "prefetch")
    assert "walks b[] page by page, 4 times over all 100 pages." in order[1]
    # So few pages stay in reach.
    assert [kind for kind, _ in told(turns([5000 + k for _ in range(40) for k in range(10)]))] == ["prefetch"]


def test_jumps_are_to_be_kept_and_what_stays_needs_nothing():
    jumps = np.random.default_rng(1).integers(1000, 3000, 500).tolist()
    ((kind, text),) = told(turns(jumps))
    assert kind == "keep"
    assert f"jumps about in b[]: {len(set(jumps))} pages in no order" in text
    assert told(turns([1000] * 500)) == []
    assert told(turns(np.random.default_rng(1).integers(1000, 1020, 500).tolist())) == []


def test_the_hot_pages_are_told_where_they_are_few():
    pages = measured(turns([1000] * 300 + list(range(1001, 1021))))[0].frame()
    (one,) = advise_hot(pages, 0, named)
    assert one.text.startswith("2 of 22 pages have 90% of the visits (stack 1, b[] 1)")
    (other,) = advise_hot(pages, 7, named)
    assert other.text.startswith("2 of 22 pages (the 7 of libraries left out) have 90% of the visits")
    assert advise_hot(measured(visits_of(range(100)))[0].frame(), 0, named) == []


def test_memory_that_is_gone_through_is_told_and_memory_that_is_used_again_is_not():
    once = [record(1000 + n, 100 * n + i) for n in range(100) for i in range(2)]
    pages = measured(words_of(once))[0].frame()
    (one,) = advise_passed(pages, named, 10_000)
    assert (one.kind, one.subject) == ("drop", "b[]")
    again = [record(1000 + n, 10_000 + 100 * n) for n in range(100)]
    assert advise_passed(measured(words_of(once + again))[0].frame(), named, 20_000) == []
    # At the start only: nothing is passed through as time goes by.
    assert advise_passed(pages, named, 1_000_000) == []


def test_objects_that_are_used_in_turn_are_to_be_packed():
    transitions = measured(turns([1000] * 100))[3]
    (one,) = advise_pairs(transitions.frame(), transitions.total, {1000: "head", 5: "tail"})
    assert one.text.startswith("tail and head lie on two pages that are used in turn: 100%")
    assert advise_pairs(transitions.frame(), transitions.total, {1000: "head"}) == []


@pytest.mark.parametrize("size", [1, 13])  # chunks of one thread, and of both
def test_threads_that_share_are_told_how_often_the_page_changes_hands(size):
    rows = [
        (record(7, tid=tid, flags=n == 50), record(2000 + 50 * tid + n % 40, tid=tid))
        for n in range(100) for tid in (1, 2)
    ]  # fmt: skip
    sharing = measured(words_of(row for pair in rows for row in pair), size)[2].frame()
    place, *alone = advise_threads(sharing, named)
    assert place.text.startswith("stack: 1 page with writes, shared by up to 2 threads, changed hands 199 times.")
    assert [one.text.partition(".")[0] for one in alone] == [
        f"40 pages of b[] are thread {tid}'s alone" for tid in (1, 2)
    ]
    assert [one.kind for one in advise_threads(sharing.assign(writes=0), named)] == ["place", "place"]
    assert advise_threads(sharing[sharing["tid"] == 1], named) == []


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([1, 2]), st.sampled_from([31, 32])), max_size=60),
    st.integers(1, 61),
)
def test_strides_and_visits_of_instructions(rows, size):
    words = words_of(record(page, n, tid=tid, ip=ip) for n, (page, tid, ip) in enumerate(rows))
    instructions = measured(words, size)[1]
    at, last = {}, {}
    strides, visits = Counter(), Counter()
    for page, tid, ip in rows:
        if at.get(tid) == page:
            continue
        at[tid] = page
        visits[ip, page] += 1
        if (ip, tid) in last:
            strides[ip, page - last[ip, tid]] += 1
        last[ip, tid] = page
    assert dict(zip_columns(instructions.frame(), "ip", "page", "visits")) == visits
    assert dict(zip_columns(instructions.strides(), "ip", "stride", "visits")) == strides


def zip_columns(frame, first, second, value):
    return zip(zip(frame[first].tolist(), frame[second].tolist(), strict=True), frame[value].tolist(), strict=True)


# -- address spaces ----------------------------------------------------------------------------------------


def test_each_exec_begins_a_space_and_a_thread_is_in_its_parents(tmp_path):
    rows = [
        record(9),  # the launcher's child
        record(0, 1, EXEC), record(10, 2), record(100, 3, TASK, tid=101), record(10, 4, tid=101),
        record(0, 5, EXEC, tid=101), record(10, 6, tid=101), record(10, 7), record(101, 8, TASK, tid=102),
        record(11, 9, tid=102), record(12, 10, flags=KERNEL),
    ]  # fmt: skip
    trace = Trace(write_trace(tmp_path / "trace", words_of(rows)))
    spaces = Spaces(trace)
    (records,) = spaces.chunks()
    visits = records.where(records.type == 0)
    assert [(int(page) >> PAGE_BITS, int(page) & 0xFF) for page in visits.page] == [
        *((0, 10), (0, 10), (1, 10), (0, 10), (1, 11), (0, 12)),
    ]
    assert [int(ip) >> IP_BITS for ip in visits.ip] == [0, 0, 1, 0, 1, 0]
    assert visits.ip[-1] == 0
    assert (spaces.count, spaces.main, spaces.threads) == (2, 0, {100: [0], 101: [0, 1], 102: [1]})


# -- names -------------------------------------------------------------------------------------------------

SOURCE = """\
static double b[2048];
char zeros[3 * 4096];
int walk(int n)
{
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum += b[i * 512];
	return sum;
}
int main(void)
{
	return walk(4) + zeros[5];
}
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "walk.c").write_text(SOURCE)
    run("gcc", "-g", "-O0", "-no-pie", "-o", tmp_path / "walk", tmp_path / "walk.c")
    return tmp_path / "walk"


@needs_guest_packages
def test_functions_lines_and_objects_of_a_program(program, tmp_path):
    binary = Binary(program)
    (walk,) = [one for one in binary.functions if one.name == "walk"]
    (b,) = [one for one in binary.objects if one.name == "b"]
    assert binary.function(walk.first + 5) == "walk"
    assert b.last - b.first == 2048 * 8
    lines = binary.lines(range(walk.first, walk.last))
    assert set(lines.values()) >= {"walk.c:4", "walk.c:6", "walk.c:7", "walk.c:9"}
    run("strip", program)
    stripped = Binary(program)
    assert stripped.function(walk.first + 5) == f"function {walk.first:#x}"
    assert stripped.lines([walk.first]) == {}
    assert Binary(tmp_path / "absent").function(1) is None
    assert Binary(tmp_path / "walk.c").functions == []


@needs_guest_packages
def test_zeroed_data_is_told_from_the_heap_behind_it(program, tmp_path):
    binary = Binary(program)
    data = next(one for one in binary.objects if one.name == "b").first >> 12
    begin = data & -16
    end = -(-binary.end >> 12)
    maps = Maps(
        [
            Mapping(begin, data, False, True, "/walk", begin - (binary.address_of(0) >> 12)),
            Mapping(data, end + 30, False, True, "[heap]"),
            Mapping(0x7000, 0x7010, False, True, ""),
        ]
    )
    names = Names({0: maps, 1: maps}, 0, tmp_path, "/walk")
    pages = np.array([data, data + 1, end, end + 29, 0x7001, 0x9000, 0x9001], dtype=np.uint64)
    assert rows_of(names.regions(pages), pages) == [
        (0, 2, "walk: zeroed data"),
        (2, 2, "[heap]"),
        (4, 1, "anonymous memory 1"),
        (5, 2, "given back before the end 1"),
    ]
    assert names.objects(pages)[data + 1][0] == "b"
    assert not any(names.library(int(page)) for page in pages)
    of_another = Names({0: maps}, 0, tmp_path, "/another")
    assert [of_another.library(int(page)) for page in pages] == [True, True, False, False, False, False, False]
    child = pages | np.uint64(1 << PAGE_BITS)
    assert [name for _, _, name in rows_of(names.regions(child), child)] == [
        "program 2: walk: zeroed data",
        "program 2: [heap]",
        "program 2: anonymous memory",
        "program 2: given back before the end",
    ]
    assert names.objects(child)[int(child[1])][0] == "b"
    unknown = pages | np.uint64(2 << PAGE_BITS)
    assert names.regions(unknown)[0].name == "program 3: memory"
    assert names.objects(unknown) == {}
