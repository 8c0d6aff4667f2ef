# SPDX-License-Identifier: MIT
"""What the tracer takes for a visit, times without it, and durations beside an undisturbed program; mappings."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from experiments.page_trace.trace.cost import NOTHING, Cost, measured, own_time
from experiments.page_trace.trace.dwell import dwells, errors
from experiments.page_trace.trace.maps import Maps, read_maps
from experiments.page_trace.trace.program import Program
from experiments.page_trace.trace.records import CODE, EXEC, SAME, Trace, decode

from harness.errors import RunError
from tests.experiments.page_trace.traces import record, words_of, write_trace

COST = Cost(plain_ns=1000.0, again_ns=1500.0, second_ns=1200.0, stepped_ns=3000.0, access_ns=10.0)
MAPS = """\
00400000-00401000 r--p 00000000 00:02 100                                /bin/a
00401000-00403000 r-xp 00001000 00:02 100                                /bin/a
7ffff7ffe000-7ffff7fff000 r-xp 00000000 00:00 0                          [vdso]
7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0                          [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
"""


def turns(first: int, n: int = 200) -> list[tuple]:
    """A trace of pagework turns, as the tracer of `COST` would make it of accesses of 10 ns."""
    rows, now = [], 5_000

    def visit(page: int, took: float, ip: int, flags: int = 0) -> None:
        nonlocal now
        rows.append(record(first + page, now, ip=ip, flags=flags))
        now += int(took)

    for _ in range(n):
        visit(0, 1010, 0x100)
        visit(1, 1010, 0x200)
    for pages, accesses in (((2, 3), 1), ((4, 5), 100)):
        for i in range(n):
            visit(pages[i % 2], 1500 + 10 * accesses, 0x300 + accesses)
    for _ in range(n):
        visit(6, 1200, 0x400)
        visit(7, 3010, 0x400, SAME)
        visit(8, 1010, 0x500)
    return rows


def test_the_tracers_own_time_comes_out_of_a_program_of_known_visits(tmp_path):
    trace = write_trace(tmp_path / "trace", words_of(turns(0x7000)))
    answer = tmp_path / "stdout"
    answer.write_text(json.dumps({"workload": "turns", "page": 0x7000}) + "\n")
    assert measured(trace, answer) == COST
    answer.write_text(json.dumps({"page": 0x7001}) + "\n")
    with pytest.raises(RunError, match="visits of a known kind"):
        measured(trace, answer)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_own_time_is_that_of_the_records_less_what_the_tracer_took(size):
    rows = [record(1, 0, ip=0x10), record(2, 1100, ip=0x20), record(77, 1200, kind=CODE, ip=0x20)]
    rows += [record(3, 4300, ip=0x20), record(4, 5500, ip=0x20, flags=SAME), record(5, 8700, ip=0x30)]
    words = words_of(rows)
    parts = [decode(words[i : i + size]) for i in range(0, len(words), size)]
    # 1000 before each visit but the first and for the code page; 1500: the same instruction; 1200, 3000: the step.
    times = np.concatenate([part.time_ns for part in own_time(parts, COST)])
    assert times.tolist() == [0, 100, 100, 800, 800, 1000]
    parts = [decode(words[i : i + size]) for i in range(0, len(words), size)]
    slower = np.concatenate([part.time_ns for part in own_time(parts, Cost(100, 150, 120, 300, 10))])
    assert slower.tolist() == [0, 1000, 1000, 3950, 5030, 7930]


def test_where_nothing_is_known_times_stay():
    parts = [decode(words_of([record(1, 5), record(2, 9)]))]
    assert next(own_time(parts, NOTHING)).time_ns.tolist() == [5, 9]


def runs(pages: list[int], step_ns: float, counts: list[int]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "page": np.array(pages, dtype=np.uint64),
            "ns": np.cumsum([0.0, *[step_ns * count for count in counts[:-1]]]),
            "count": np.array(counts, dtype=np.int64),
        }
    )


def test_durations_and_accesses_are_those_of_the_undisturbed_program():
    pages = [0x10 + i % 7 for i in range(60)]
    counts = [200 if i % 2 else 3 for i in range(60)]
    exact = runs(pages, 20.0, counts)
    now = np.cumsum([0, *[1000 + 20 * count for count in counts[:-1]]])
    trace = [decode(words_of(record(p, int(t), ip=i) for i, (p, t) in enumerate(zip(pages, now, strict=True))))]
    told = dwells(trace, [exact], Maps([]), COST)
    assert np.allclose(told.corrected, told.exact)
    assert (told.exact.size, told.visits) == (59, 60)
    values = errors(told, COST)
    assert values["dwell_error"] == pytest.approx(0)
    # An access takes 20 ns here, and 10 in the known program.
    assert values["count_error"] == pytest.approx(1.0)
    assert values["count_error_own"] < 0.05
    assert values["traced_error"] == pytest.approx(1000 / 4000)
    assert (values["long"], values["time_error"]) == (29, pytest.approx(0))


def test_few_long_visits_tell_nothing():
    exact = runs([1, 2, 3], 20.0, [200, 200, 200])
    trace = [decode(words_of(record(p, 5000 * p) for p in (1, 2, 3)))]
    assert np.isnan(errors(dwells(trace, [exact], Maps([]), COST), COST)["dwell_error"])


def test_a_program_lasts_as_long_as_its_own_time_says(tmp_path):
    rows = [record(9, 1), record(0, 10, kind=EXEC), record(1, 100, ip=1), record(2, 2100, ip=2)]
    trace = Trace(write_trace(tmp_path / "trace", words_of(rows)))
    assert Program(trace).lasted == 2000
    assert Program(trace, COST).lasted == 1000


def test_mappings_tell_code(tmp_path):
    (tmp_path / "maps").write_text(MAPS)
    maps = read_maps(tmp_path / "maps")
    assert [mapping.name for mapping in maps.mappings] == ["/bin/a", "/bin/a", "[vdso]", "[stack]"]
    pages = np.array([0x400, 0x401, 0x402, 0x403, 0x7FFFF7FFE, 0x7FFFFFFDE, 1], dtype=np.uint64)
    assert maps.code(pages).tolist() == [False, True, True, False, True, False, False]
    assert maps.code_pages().tolist() == [0x401, 0x402, 0x7FFFF7FFE]
    assert not Maps([]).code(pages).any()


@pytest.mark.parametrize(("text", "said"), [("", "has no mappings"), (MAPS + "x\n", "maps:6.*no line of")])
def test_what_are_no_mappings_is_said(tmp_path, text, said):
    (tmp_path / "maps").write_text(text)
    with pytest.raises(RunError, match=said):
        read_maps(tmp_path / "maps")
