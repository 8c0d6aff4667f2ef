# SPDX-License-Identifier: MIT
"""The programs of page-trace on this host: they end well, say the same each time, and compute what they claim to."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from harness.image.programs import build_programs, program_sources
from tests.conftest import needs_guest_packages
from tests.experiments.page_trace.known import CASES, GUEST, Known, known_of

pytestmark = needs_guest_packages
#: The kernel of this host may differ in what the case needs: huge pages may be switched off.
HERE = [name for name in CASES if name != "huge"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("programs")
    sources = program_sources([GUEST])
    build_programs(
        "x86_64", {name: sources[name] for name in ("graphwork", "pageknown", "pagework")}, folder, folder / "log"
    )
    return folder


def work(programs: Path, *words: str) -> dict[str, object]:
    done = subprocess.run([programs / "pagework", *words], capture_output=True, text=True, check=True)
    assert json.loads(done.stderr)["elapsed_ns"] > 0
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("name", HERE)
def test_each_known_case_ends_well_and_states_a_sequence(programs, name):
    done = subprocess.run([programs / "pageknown", name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    known = known_of(json.loads(done.stdout))
    assert known.name == name
    assert known.failed == 0
    assert known.wrong(np.array(known.expected) + known.first, [bool(write) for write in known.writes]) is None


def test_wrong_arguments_are_a_line_of_usage(programs):
    for words in (
        ["pageknown"],
        ["pageknown", "no"],
        ["pagework"],
        ["pagework", "no"],
        ["pagework", "sort", "--n", "x"],
        ["graphwork", "--threads", "0"],
        ["graphwork", "x"],
    ):
        done = subprocess.run([programs / words[0], *words[1:]], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["stream", "stride", "random", "chase", "matmul", "sort", "hashjoin", "btree"])
def test_a_workload_is_decided_by_its_options(programs, name):
    assert work(programs, name) == work(programs, name, "--seed", "1", "--touch")
    assert work(programs, name)["checksum"] != work(programs, name, "--seed", "2")["checksum"]


def test_two_ways_to_the_same_result(programs):
    assert work(programs, "matmul") == work(programs, "matmul", "--order", "ikj")
    assert work(programs, "sort")["checksum"] == work(programs, "sort", "--algorithm", "qsort")["checksum"]


def levels(vertices: int, degree: int, seed: int) -> list[int]:
    """The level of each vertex of graphwork's graph, -1 where there is none; searched here."""
    mask, state, edges = (1 << 64) - 1, seed, []
    for _ in range(vertices * degree):  # splitmix64, as krepro.h has it
        state = z = (state + 0x9E3779B97F4A7C15) & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        edges.append(((z ^ z >> 31) >> 32) * vertices >> 32)
    found, now = {0: 0}, [0]
    while now:
        reached = {to: None for vertex in now for to in edges[degree * vertex : degree * (vertex + 1)]}
        now = [to for to in reached if to not in found]
        found |= dict.fromkeys(now, max(found.values()) + 1)
    return [found.get(vertex, -1) for vertex in range(vertices)]


@pytest.mark.parametrize(("vertices", "degree"), [(1, 1), (300, 1), (300, 2), (5000, 8)])
def test_a_search_reaches_what_it_reaches_by_any_number_of_threads(programs, vertices, degree):
    told = levels(vertices, degree, 3)
    checksum = 0
    for level in told:
        checksum = (checksum ^ level & 0xFFFFFFFF) * 0x9E3779B97F4A7C15 & (1 << 64) - 1
    expected = {
        "workload": "graph", "reached": sum(level >= 0 for level in told), "levels": max(told) + 1,
        "checksum": f"{checksum:016x}",
    }  # fmt: skip
    for threads in (1, 3, 64):
        words = ["--vertices", str(vertices), "--degree", str(degree), "--threads", str(threads)]
        done = subprocess.run(
            [programs / "graphwork", *words], capture_output=True, text=True, check=True, env={"KREPRO_SEED": "3"}
        )
        assert json.loads(done.stdout) == expected


KNOWN = Known("x", 100, 4, [0, 1, 0], [False, None, True], False, None, 0)


@pytest.mark.parametrize(
    ("pages", "writes", "says"),
    [
        ([100, 100, 7, 100, 101, 104, 101, 100], [0, 1, 1, 0, 1, 0, 0, 1], None),
        ([100, 101, 100], [0, 0, 0], "begins with a read"),
        ([100, 101], [0, 0], "2 visits, not 3"),
        ([100, 101, 102, 100], [0, 0, 0, 1], "from visit 2"),
    ],
)
def test_comparing_a_recording_with_a_case(pages, writes, says):
    found = KNOWN.wrong(pages, writes)
    assert found is None if says is None else says in str(found)


def test_a_subsequence_may_have_more_visits_but_no_other_pages():
    known = Known("x", 100, 4, [0, 1], [False, False], True, None, 0)
    assert known.wrong([100, 101, 100, 101], [0] * 4) is None
    assert known.wrong([101, 100], [0] * 2) is not None
    assert known.wrong([100, 102, 101], [0] * 3) is not None
