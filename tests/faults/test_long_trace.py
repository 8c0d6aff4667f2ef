# SPDX-License-Identifier: MIT
"""A hundred million records of a page trace: decoded fast, and turned into tables in bounded memory."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from experiments.page_trace.trace.accessmap import AccessMap
from experiments.page_trace.trace.comparison import compare
from experiments.page_trace.trace.pages import PageTable
from experiments.page_trace.trace.records import Trace, code_pages, totals
from experiments.page_trace.trace.reuse import ReuseDistances
from experiments.page_trace.trace.streams import Streams
from experiments.page_trace.trace.tables import Table, fill
from experiments.page_trace.trace.transitions import Transitions
from experiments.page_trace.trace.visits import visits
from experiments.page_trace.trace.workingset import WorkingSet, WorkingSetCurve

from tests.experiments.page_trace.traces import header, oracle_frame

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

RECORDS = 100_000_000
PIECE = 1 << 20
STEP_NS = 500
#: The target is the decoder's; the tables have floors far below what was measured, to notice a collapse.
DECODER_RATE, TABLE_RATE = 10e6, 0.5e6
MOST_MIB = 1024


def program(first: int, n: int) -> np.ndarray:
    """Pages of records `first` to `first + n`: a stack, a stream, a stride and random probes of 100,000 pages."""
    i = np.arange(first, first + n, dtype=np.uint64)
    random = (i * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)) % np.uint64(100_000)
    page = np.full(n, 0x7FFFFFFDE, dtype=np.uint64)
    page[1::4] = 0x555555560 + (i[1::4] >> np.uint64(8)) % np.uint64(50_000)
    page[2::4] = 0x600000000 + random[2::4]
    page[3::4] = 0x700000000 + i[3::4] * np.uint64(5) % np.uint64(20_000)
    return page


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace"
    with path.open("wb") as file:
        file.write(header())
        for first in range(0, RECORDS, PIECE):
            n = min(PIECE, RECORDS - first)
            i = np.arange(first, first + n, dtype=np.uint64)
            words = np.empty((n, 3), dtype="<u8")
            words[:, 0] = i * np.uint64(STEP_NS) << np.uint64(12) | i & np.uint64(1)
            words[:, 1] = program(first, n) << np.uint64(12) | np.uint64(100)
            words[:, 2] = 0x401000 + (i & np.uint64(3)) * np.uint64(8)
            file.write(words.tobytes())
    return path


def exact(n: int) -> Sequence[object]:
    """The generator's sequence as the oracle's frames, made when asked for."""
    return (oracle_frame(program(first, min(PIECE, n - first))) for first in range(0, n, PIECE))  # type: ignore


def tables(path: Path) -> dict[str, Callable[[], Table]]:
    interval = Trace(path).last_ns() // 500 + 1
    return {
        "pages": PageTable,
        "working set": lambda: WorkingSet(interval, 500, [interval]),
        "working set curve": WorkingSetCurve,
        "reuse distances": ReuseDistances,
        "transitions": Transitions,
        "streams": Streams,
        "access map": lambda: AccessMap(interval, 500),
    }


def work(path: Path, name: str) -> int:
    """Visits or records that were seen."""
    trace = Trace(path)
    if name == "decoder":
        return sum(len(records) for records in trace.chunks())
    if name == "totals":
        return totals(trace.chunks()).visits
    if name == "visits":
        return sum(len(part) for part in visits(trace.chunks()))
    if name == "comparison":
        result = compare(trace.chunks(), exact(trace.records), code_pages(trace.chunks()))  # type: ignore
        assert result.missing == result.extra == 0
        return result.equal
    table = tables(path)[name]()
    fill(trace.chunks(), [table])
    assert len(table.frame())
    return trace.records


def measured(path: Path, name: str, out: multiprocessing.Queue[tuple[int, float, int]]) -> None:
    begin = time.process_time()
    seen = work(path, name)
    out.put((seen, time.process_time() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


@pytest.mark.parametrize(
    "name",
    [
        "decoder", "totals", "visits", "comparison", "pages", "working set", "working set curve", "reuse distances",
        "transitions", "streams", "access map",
    ],
)  # fmt: skip
def test_rate_and_memory(path: Path, name: str):
    # A process of its own: the highest memory of a process never falls.
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    process = context.Process(target=measured, args=(path, name, out))
    process.start()
    process.join(1800)
    assert process.exitcode == 0
    seen, seconds, kib = out.get()
    print(f"{name}: {RECORDS / seconds / 1e6:.1f} M records/s, at most {kib / 1024:.0f} MiB")
    assert seen == RECORDS
    assert RECORDS / seconds >= (DECODER_RATE if name == "decoder" else TABLE_RATE)
    assert kib / 1024 < MOST_MIB
