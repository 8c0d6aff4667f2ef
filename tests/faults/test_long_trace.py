# SPDX-License-Identifier: MIT
"""A hundred million records of a page trace: decoded fast, turned into tables in bounded memory, and looked at."""

from __future__ import annotations

import multiprocessing
import resource
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from experiments.page_trace.report.habits import Instructions, Sharing
from experiments.page_trace.report.page import TILES
from experiments.page_trace.report.program import report
from experiments.page_trace.trace.accessmap import AccessMap
from experiments.page_trace.trace.comparison import compare
from experiments.page_trace.trace.pages import PageTable
from experiments.page_trace.trace.records import EXEC, Trace
from experiments.page_trace.trace.reuse import ReuseDistances
from experiments.page_trace.trace.streams import Streams
from experiments.page_trace.trace.tables import Table, fill
from experiments.page_trace.trace.totals import code_pages, totals
from experiments.page_trace.trace.transitions import Transitions
from experiments.page_trace.trace.visits import visits
from experiments.page_trace.trace.workingset import WorkingSet, WorkingSetCurve

from harness.measure.tracer import REPORT, Traced
from tests.chromium import Chromium
from tests.experiments.page_trace.pictures import drawn
from tests.experiments.page_trace.traces import header, oracle_frame, record, words_of, write_stats

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

RECORDS = 100_000_000
PIECE = 1 << 20
STEP_NS = 500
#: The target is the decoder's. The tables' floor is half of what the slowest of them reaches.
DECODER_RATE, TABLE_RATE = 10e6, 3e6
MOST_MIB, MOST_REPORT_MIB = 1024, 3072


def program(first: int, n: int) -> np.ndarray:
    """Pages of records `first` to `first + n`: a stack, a stream, a stride and random probes of 100,000 pages."""
    i = np.arange(first, first + n, dtype=np.uint64)
    random = (i * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)) % np.uint64(100_000)
    page = np.full(n, 0x7FFFFFFDE, dtype=np.uint64)
    page[1::4] = 0x555555560 + (i[1::4] >> np.uint64(8)) % np.uint64(50_000)
    page[2::4] = 0x600000000 + random[2::4]
    page[3::4] = 0x700000000 + i[3::4] * np.uint64(5) % np.uint64(20_000)
    return page


def write(path: Path, before: bytes = b"") -> Path:
    """The trace of `program`, with these records before it."""
    with path.open("wb") as file:
        file.write(header())
        file.write(before)
        for first in range(0, RECORDS, PIECE):
            n = min(PIECE, RECORDS - first)
            i = np.arange(first, first + n, dtype=np.uint64)
            words = np.empty((n, 3), dtype="<u8")
            words[:, 0] = i * np.uint64(STEP_NS) << np.uint64(12) | i & np.uint64(1)
            words[:, 1] = program(first, n) << np.uint64(12) | np.uint64(100)
            words[:, 2] = 0x401000 + (i & np.uint64(3)) * np.uint64(8)
            file.write(words.tobytes())
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("trace") / "trace")


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
        "instructions": Instructions,
        "threads": Sharing,
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
        "transitions", "streams", "access map", "instructions", "threads",
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


#: Where `program` has its pages.
MAPS = """\
00401000-00402000 r-xp 00000000 00:02 100 /bin/x
555555560000-56155b560000 rw-p 00000000 00:00 0 [heap]
600000000000-6186a0000000 rw-p 00000000 00:00 0
700000000000-704e20000000 rw-p 00000000 00:00 0
7fffffe00000-7ffffffff000 rw-p 00000000 00:00 0 [stack]
"""
#: To open the page, and to look closer by one level.
MOST_LOOK_S = 10


def reported(path: Path, folder: Path, out: multiprocessing.Queue[tuple[float, int]]) -> None:
    left = folder / "left"
    left.mkdir()
    write_stats(left / "trace.json", records=RECORDS)
    (left / "maps").write_text(MAPS)
    traced = Traced(raw=folder, left=left, root=folder / "root", words=("x",), folder="/", system_map=folder / "map")
    begin = time.monotonic()
    report(traced, path, folder / "out")
    out.put((time.monotonic() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium here; ./inv test installs it")
def test_its_page_is_looked_at(tmp_path: Path):
    path = write(tmp_path / "trace", words_of([record(0, 0, kind=EXEC)]).tobytes())
    for name in ("root", "out"):
        (tmp_path / name).mkdir()
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    process = context.Process(target=reported, args=(path, tmp_path, out))
    process.start()
    process.join(3000)
    assert process.exitcode == 0
    seconds, kib = out.get()
    size = sum(one.stat().st_size for one in (tmp_path / "out").rglob("*") if one.is_file())
    print(f"written in {seconds:.0f} s, at most {kib / 1024:.0f} MiB; {size / 1e6:.0f} MB")
    assert kib / 1024 < MOST_REPORT_MIB
    deepest = max(int(one.name.partition("-")[0]) for one in (tmp_path / "out" / TILES).iterdir())
    with Chromium() as browser:
        seen = []
        for look in range(deepest + 2):
            begin = time.monotonic()
            if look:
                browser.click("#in")
            else:
                browser.open(tmp_path / "out" / REPORT)
            seen.append((drawn(browser), time.monotonic() - begin))
        assert not [text for text in browser.problems if "willReadFrequently" not in text]
    print([(one.level, one.inked, round(took, 1)) for one, took in seen])
    assert int(seen[-1][0].level) == deepest
    assert all(one.inked > 100 and took < MOST_LOOK_S for one, took in seen)
