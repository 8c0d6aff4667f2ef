# SPDX-License-Identifier: MIT
"""Tables of page traces against naive implementations, and against themselves in other pieces."""

from __future__ import annotations

import bisect
import itertools
from collections import Counter, OrderedDict

import numpy as np
import pandas as pd
import pytest
from experiments.page_trace.trace import reuse
from experiments.page_trace.trace.accessmap import AccessMap
from experiments.page_trace.trace.index import stable_order
from experiments.page_trace.trace.pages import PageTable
from experiments.page_trace.trace.records import EXIT, LOST, decode
from experiments.page_trace.trace.reuse import ReuseDistances, less_smaller_before
from experiments.page_trace.trace.streams import Streams
from experiments.page_trace.trace.tables import fill
from experiments.page_trace.trace.timeline import page_slices, regions
from experiments.page_trace.trace.transitions import Transitions
from experiments.page_trace.trace.visits import visit_table, visits
from experiments.page_trace.trace.workingset import TAUS, WorkingSet, WorkingSetCurve
from hypothesis import example, given
from hypothesis import strategies as st

from harness.measure.views import TIMELINE_COLUMNS
from tests.experiments.page_trace.traces import record, visits_of, words_of

PAGES = st.lists(st.integers(0, 7), max_size=80)
SIZES = st.integers(1, 90)


def filled(table, words, size=1 << 20):
    fill((decode(words[i : i + size]) for i in range(0, len(words), size)), [table])
    return table


def collapsed(pages):
    return [page for i, page in enumerate(pages) if i == 0 or page != pages[i - 1]]


# -- by page -----------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=60), SIZES)
def test_pages(rows, size):
    words = words_of(record(page, 10 * i * i, flags=flags) for i, (page, flags) in enumerate(rows))
    frame = filled(PageTable(), words, size).frame().set_index("page")
    table = visit_table(visits([decode(words)]))
    end = 10 * (len(rows) - 1) ** 2
    table["dwell_ns"] = table["dwell_ns"].fillna(end - table["start_ns"])
    groups = table.groupby("page")
    for column, expected in (
        ("visits", groups.size()),
        ("writes", groups["write"].sum()),
        ("kernel", groups["kernel"].sum()),
        ("dwell_ns", groups["dwell_ns"].sum()),
        ("dwell_mean_ns", groups["dwell_ns"].mean()),
        ("dwell_max_ns", groups["dwell_ns"].max()),
        ("first_ns", groups["start_ns"].min()),
        ("last_ns", groups["start_ns"].max()),
    ):
        assert frame[column].tolist() == pytest.approx(expected.tolist()), column
    assert frame.index.tolist() == sorted({page for page, _ in rows})


def test_a_visit_cut_off_by_a_loss_has_no_length():
    frame = filled(
        PageTable(), words_of([record(1, 0), record(5, 10, LOST), record(2, 20), record(0, 25, EXIT)])
    ).frame()
    assert frame["dwell_ns"].tolist() == [0, 5]
    assert np.isnan(frame["dwell_mean_ns"][0])


# -- working set -------------------------------------------------------------------------------------------


def in_use(pages, times, end):
    return [(page, begin, stop) for page, begin, stop in zip(pages, times, [*times[1:], end], strict=True)]


@given(
    PAGES.filter(bool), st.lists(st.integers(1, 30), min_size=80, max_size=80), st.sampled_from([1, 7, 20, 100]), SIZES
)
def test_working_set(pages, steps, tau, size):
    times = np.cumsum(steps)[: len(pages)].tolist()
    words = words_of(record(page, time) for page, time in zip(pages, times, strict=True))
    interval, intervals = 13, times[-1] // 13 + 1
    frame = filled(WorkingSet(interval, intervals, [tau, 1000]), words, size).frame()
    uses = in_use(pages, times, times[-1])
    for row in frame.itertuples():
        t = row.end_ns
        # Behind the trace's end nothing is used any more.
        inside = {page for page, begin, stop in uses if (begin <= t and stop > t - row.tau_ns) or begin == stop == t}
        assert row.pages == len(inside), row


def test_distinct_pages_in_each_interval():
    words = words_of(record(page, time) for time, page in [(1, 1), (5, 2), (12, 3), (18, 1), (25, 9), (30, 0)])
    frame = filled(WorkingSet(10, 3, [10]), words).frame()
    assert frame["end_ns"].tolist() == [10, 20, 30]
    # Page 2 was in use up to 12, page 1 up to 25.
    assert frame["pages"].tolist() == [2, 3, 3]


@given(PAGES, st.lists(st.integers(1, 5000), min_size=80, max_size=80), SIZES)
def test_working_set_curve(pages, steps, size):
    times = np.cumsum(steps)[: len(pages)].tolist()
    words = words_of(record(page, time) for page, time in zip(pages, times, strict=True))
    frame = filled(WorkingSetCurve(), words, size).frame()
    if len(collapsed(pages)) < 2:
        return
    uses = in_use(pages, times, times[-1])
    span = times[-1] - times[0]
    for tau, mean, missed in frame.iloc[[0, 3, 9, 20, 119]].itertuples(index=False):
        covered, misses = 0, 0
        for page in set(pages):
            mine = [(b, e) for p, b, e in uses if p == page]
            covered += sum(
                min(e + tau, nb) - b for (b, e), (nb, _) in zip(mine, [*mine[1:], (times[-1], 0)], strict=True)
            )
        seen = {}
        starts = [i for i, page in enumerate(pages) if i == 0 or pages[i - 1] != page]
        for i in starts:
            misses += pages[i] not in seen or times[i] - seen[pages[i]] > tau
            after = next((j for j in starts if j > i), None)
            seen[pages[i]] = times[after] if after else times[-1]
        assert mean == pytest.approx(covered / span)
        assert missed == pytest.approx(misses / len(starts))
    assert (np.diff(TAUS) > 0).all()


def test_a_working_set_of_nothing():
    assert filled(WorkingSetCurve(), words_of([])).frame()["mean_pages"].isna().all()
    assert filled(WorkingSet(10, 2, [10]), words_of([])).frame()["pages"].tolist() == [0, 0]


# -- reuse distance ----------------------------------------------------------------------------------------


def shuffled(random):
    """Of one, two and three digits."""
    values = list(range(random.choice([1, 31, 32, 33, 1000, 1024, 1025])))
    random.shuffle(values)
    return values


def naive_distances(pages):
    """By an LRU stack."""
    stack, counts, cold = OrderedDict(), Counter(), 0
    for page in collapsed(pages):
        if page in stack:
            counts[list(reversed(stack)).index(page)] += 1
            stack.move_to_end(page)
        else:
            cold += 1
            stack[page] = None
    return counts, cold


def smaller_before(rank):
    before: list[int] = []
    found = []
    for value in rank:
        smaller = bisect.bisect(before, value)
        before.insert(smaller, value)
        found.append(smaller)
    return found


@given(st.one_of(st.permutations(range(70)), st.randoms(use_true_random=False).map(shuffled)))
@example(list(range(70))[::-1])
@example([*range(69, 1, -1), 0, 1])
def test_smaller_values_before(rank):
    """Of each place, known by where it starts."""
    n = len(rank)
    start = np.arange(n, dtype=np.int32) * n + n
    expected = [int(start[place]) - smaller for place, smaller in enumerate(smaller_before(rank))]
    assert sorted(less_smaller_before(np.array(rank, dtype=np.uint32), start).tolist()) == expected


@pytest.mark.parametrize("parts", [1, 8])
def test_smaller_values_before_in_long_pieces(monkeypatch, parts):
    """Of four digits, in one part and in several."""
    monkeypatch.setattr(reuse, "_PARTS", parts)
    rank = np.random.default_rng(2).permutation(70_000)
    counts = less_smaller_before(rank.astype(np.uint32), np.zeros(rank.size, dtype=np.int32))
    assert sorted((-counts).tolist()) == sorted(smaller_before(rank.tolist()))


@given(st.one_of(PAGES, st.lists(st.integers(0, 2), max_size=80), st.lists(st.integers(0, 60), max_size=150)), SIZES)
@example(list(range(20)) * 4, 7)
@example([page for n in range(60) for page in (n % 20, 99)], 50)
def test_reuse_distances(pages, size):
    table = filled(ReuseDistances(), visits_of(pages), size)
    counts, cold = naive_distances(pages)
    distances = table.distances()
    assert {i: n for i, n in enumerate(distances.tolist()) if n} == dict(counts)
    assert table.cold == cold
    frame = table.frame()
    assert frame["visits"].sum() == len(collapsed(pages))
    for low, high, n, missed in frame.iloc[:-1].itertuples(index=False):
        assert n == sum(count for distance, count in counts.items() if low <= distance < high)
        if pages:
            misses = cold + sum(count for distance, count in counts.items() if distance >= low)
            assert missed == pytest.approx(misses / len(collapsed(pages)))


def test_reuse_distances_of_a_long_trace():
    random = np.random.default_rng(3)
    pages = np.where(random.random(100_000) < 0.5, 7, random.zipf(1.3, 100_000) % 600)
    counts, cold = naive_distances(pages.tolist())
    for size in (100_000, 33_333):
        table = filled(ReuseDistances(), visits_of(pages.tolist()), size)
        assert {i: n for i, n in enumerate(table.distances().tolist()) if n} == dict(counts)
        assert table.cold == cold


def test_bins_are_two_an_octave():
    frame = filled(ReuseDistances(), visits_of(list(range(100)) * 2)).frame()
    assert frame["low"].tolist() == [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, -1]
    assert frame["high"].tolist()[:-1] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]
    assert frame.set_index("low")["visits"][[96, -1]].tolist() == [100, 100]


# -- transitions -------------------------------------------------------------------------------------------


@given(PAGES, SIZES)
def test_transitions(pages, size):
    table = filled(Transitions(), visits_of(pages), size)
    path = collapsed(pages)
    expected = Counter(itertools.pairwise(path))
    frame = table.frame()
    assert {(a, b): n for a, b, n, _ in frame.itertuples(index=False)} == dict(expected)
    assert (table.total, table.error) == (max(0, len(path) - 1), 0)
    assert frame["count"].is_monotonic_decreasing
    for page, _, n, share in frame.itertuples(index=False):
        assert share == pytest.approx(n / sum(count for (left, _), count in expected.items() if left == page))


def test_rare_transitions_go_first_and_that_is_said():
    random = np.random.default_rng(4)
    pages = np.where(np.arange(20_000) % 3 == 0, random.integers(100, 10_000, 20_000), np.arange(20_000) % 3)
    path = collapsed(pages.tolist())
    exact = Counter(itertools.pairwise(path))
    table = filled(Transitions(most=1000), visits_of(path), 2000)
    frame = table.frame(top=1)
    assert frame[["page", "next"]].values.tolist() == [[1, 2]]
    assert 0 < table.error <= 20
    assert exact[1, 2] - table.error <= frame["count"][0] <= exact[1, 2]
    assert len(table.frame()) <= 1000


@pytest.mark.parametrize("size", [0, 1, 2, 5000])
@pytest.mark.parametrize("known", [1, 300, 1 << 16, 1 << 19, (1 << 19) + 1, 1 << 21, 1 << 32])
def test_places_are_sorted_by_code_and_keep_their_order(known, size):
    codes = np.random.default_rng(7).integers(max(0, known - 40), known, size)
    assert stable_order(codes, known).tolist() == sorted(range(size), key=codes.__getitem__)


def test_places_are_sorted_by_all_bits_of_the_codes():
    codes = np.random.default_rng(7).integers(0, 9, 500) << 33
    assert stable_order(codes, 1 << 40).tolist() == sorted(range(500), key=codes.__getitem__)


@pytest.mark.parametrize("pages", [50, 3000, 70_000])
def test_pairs_of_few_and_of_many_pages(pages):
    walk = np.random.default_rng(8).integers(0, pages, 20_000)
    path = collapsed([*range(pages), *walk.tolist()])
    frame = filled(Transitions(), visits_of(path), 1 << 16).frame()
    both = zip(frame["page"].tolist(), frame["next"].tolist(), strict=True)
    assert dict(zip(both, frame["count"].tolist(), strict=True)) == Counter(itertools.pairwise(path))


# -- streams -----------------------------------------------------------------------------------------------


def naive_streams(rows, ahead):
    """(kinds, given, right, streams) of (page, ip), visit by visit."""
    kinds, given_, right, streams = Counter(), 0, 0, []
    by_ip = {}
    for i, (page, ip) in enumerate(rows):
        if i and rows[i - 1][0] == page:
            continue
        mine = by_ip.setdefault(ip, [])
        mine.append(page)
        stride = mine[-1] - mine[-2] if len(mine) > 1 else None
        expected = len(mine) > 2 and stride == mine[-2] - mine[-3]
        kind = (
            ("fixed" if stride == 0 else "sequential" if abs(stride) == 1 else "strided") if expected else "irregular"
        )
        kinds[kind] += 1
    for ip, mine in by_ip.items():
        steps = np.diff(mine).tolist()
        streaming = [i >= 2 and steps[i - 1] == steps[i - 2] != 0 for i in range(len(mine))]
        given_ += sum(streaming)
        for i in range(len(mine) - ahead):
            right += streaming[i] and mine[i + ahead] == mine[i] + ahead * steps[i - 1]
        i = 0
        while i < len(mine):
            if streaming[i]:
                j = i
                while j + 1 < len(mine) and streaming[j + 1]:
                    j += 1
                streams.append((ip, mine[i - 2], steps[i - 1], j - i + 3))
                i = j
            i += 1
    return kinds, given_, right, sorted(streams)


STREAMY = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 3), st.integers(-2, 3), st.integers(1, 12)), max_size=8)


@given(STREAMY, st.sampled_from([1, 2, 4]), SIZES)
def test_streams(parts, ahead, size):
    rows = [(100 + base + i * stride, 0x400000 + ip) for base, ip, stride, n in parts for i in range(n)]
    rows = [row for pair in zip(rows, reversed(rows), strict=True) for row in pair]
    words = words_of(record(page, i, ip=ip) for i, (page, ip) in enumerate(rows))
    table = filled(Streams([ahead]), words, size)
    kinds, given_, right, streams = naive_streams(rows, ahead)
    found = table.kinds().set_index("kind")["visits"]
    assert {name: n for name, n in found.items() if n} == dict(kinds)
    advice = table.advice().iloc[0]
    assert (advice["given"], advice["right"]) == (given_, right)
    columns = ["ip", "base", "stride", "length"]
    assert sorted(map(tuple, table.frame()[columns].to_numpy().tolist())) == [tuple(map(float, row)) for row in streams]
    assert table.frame()["length"].is_monotonic_decreasing


def test_advice_of_one_stream():
    """Pages 0, 2, 4, … with the stack in between, as a loop over a large array does."""
    rows = [row for i in range(50) for row in ((1000 + 2 * i, 0x401000), (7, 0x401010))]
    words = words_of(record(page, 100 * i, ip=ip) for i, (page, ip) in enumerate(rows))
    table = filled(Streams([1, 4]), words, 30)
    kinds = table.kinds().set_index("kind")["visits"]
    assert kinds.to_dict() == {"irregular": 4, "fixed": 48, "sequential": 0, "strided": 48}
    one, four = table.advice().to_dict("records")
    assert (one["given"], one["right"]) == (48, 47)
    assert one["coverage"] == pytest.approx(0.47)
    assert one["cold_coverage"] == pytest.approx(47 / 51)
    assert (one["lead_visits"], one["lead_ns"], four["lead_visits"]) == (2, 200, 8)
    assert four["right"] == 44
    (stream,) = table.frame().to_dict("records")
    assert (stream["base"], stream["stride"], stream["length"], stream["end_ns"]) == (1000, 2, 50, 9800)


def test_advice_is_for_the_instruction_that_gave_it():
    words = words_of(record(page, page, ip=0x401000 + page // 4) for page in (1, 2, 3, 4))
    assert filled(Streams([1]), words).advice()[["given", "right"]].to_numpy().tolist() == [[1, 0]]


def test_threads_have_streams_of_their_own():
    words = words_of(record(100 + i // 2, i, tid=5 + i % 2, ip=0x401000) for i in range(20))
    table = filled(Streams([1]), words)
    assert table.kinds().set_index("kind")["visits"]["sequential"] == 16
    assert table.frame()["length"].tolist() == [10, 10]


def test_streams_of_nothing():
    table = filled(Streams(), words_of([]))
    assert len(table.frame()) == 0
    assert table.advice()["accuracy"].isna().all()
    assert table.kinds()["share"].isna().all()


# -- access map --------------------------------------------------------------------------------------------


@given(PAGES, SIZES)
@example([1, 2] * 20, 7)
def test_access_map(pages, size):
    frame = filled(AccessMap(20, 4), visits_of(pages), size).frame()
    path = [(10 * (i + 1), page) for i, page in enumerate(pages) if i == 0 or pages[i - 1] != page]
    expected = Counter((min(time // 20, 3) * 20, page) for time, page in path)
    assert {(row.start_ns, row.page): row.visits for row in frame.itertuples()} == dict(expected)
    assert (frame["pages"] == 1).all()


def test_an_access_map_stays_in_bounds():
    random = np.random.default_rng(5)
    pages = random.integers(0, 1 << 20, 50_000).tolist()
    frame = filled(AccessMap(10_000, 50, most=2000), visits_of(pages), 7000).frame()
    assert len(frame) <= 2000
    assert frame["visits"].sum() == len(collapsed(pages))
    assert (frame["page"] % frame["pages"] == 0).all()
    with pytest.raises(ValueError):
        AccessMap(1, 1 << 16)


# -- timeline ----------------------------------------------------------------------------------------------


def test_regions():
    assert regions(np.array([5, 9000, 6, 5000, 1030, 5], dtype=np.uint64)).tolist() == [0, 2, 0, 1, 0, 0]
    assert regions(np.array([], dtype=np.uint64)).size == 0


def overlaps(frame):
    for _, track in frame.groupby("track"):
        ordered = track.sort_values("start_s")
        end = ordered["start_s"] + ordered["duration_s"]
        if (ordered["start_s"].to_numpy()[1:] < end.to_numpy()[:-1] - 1e-12).any():
            return True
    return False


def test_slices_of_few_visits():
    words = words_of([record(0x400, 0), record(0x7F0000, 1000, flags=1), record(0x400, 3000), record(0, 4000, EXIT)])
    frame = page_slices(visit_table(visits([decode(words)])), "traced 0")
    assert frame.columns.tolist() == list(TIMELINE_COLUMNS)
    rows = frame.sort_values("start_s")[["track", "name", "start_s", "duration_s"]].to_numpy().tolist()
    assert rows == [
        ["region 0x400000", "0x400000 read", 0.0, 1e-6],
        ["region 0x7f0000000", "0x7f0000000 write", 1e-6, 2e-6],
        ["region 0x400000", "0x400000 read", 3e-6, pytest.approx(1e-6)],
    ]
    assert page_slices(visit_table([]), "x").empty


@pytest.mark.parametrize("most", [10, 100, 999])
def test_slices_are_bounded_and_do_not_overlap(most):
    random = np.random.default_rng(6)
    words = words_of(
        record(int(page), 10 * i, tid=1 + i % 3)
        for i, page in enumerate(random.choice([1, 2, 3, 90_000, 90_005], 3000))
    )
    table = visit_table(visits([decode(words)]))
    frame = page_slices(table, "p", most)
    assert most - 1 <= len(frame) <= most
    assert not overlaps(frame)
    assert not overlaps(page_slices(table, "p"))
    told = frame["name"].str.extract(r"^(\d+) visits")[0].fillna("1").astype(int).sum()
    assert told == len(table)


def test_everything_in_one_pass():
    tables = [PageTable(), ReuseDistances(), Transitions(), Streams(), AccessMap(100, 10), WorkingSetCurve()]
    words = visits_of([1, 2, 3, 1, 2, 3] * 50)
    fill([decode(words[:100]), decode(words[100:100]), decode(words[100:])], tables)
    assert all(isinstance(table.frame(), pd.DataFrame) and len(table.frame()) for table in tables[:-3])
