# SPDX-License-Identifier: MIT
"""Readers of what others wrote, and mutations of true files for them: an error of krepro or a value, nothing else.

A reader is given one mutated file. It may raise KreproError. It may not raise anything else, take longer than MOST_S,
or make this process grow by more than MOST_GROWTH over all mutations.
"""

from __future__ import annotations

import functools
import json
import random
import re
import resource
import shutil
import signal
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import pandas as pd
from experiments.irq_hotspot.decoding import read_bracket
from experiments.irq_hotspot.profile.buffer import decode as decode_profile
from experiments.irq_hotspot.profile.buffer import decode_as_printed, decode_as_readprofile
from experiments.lock_trace.locks.events import read_events
from experiments.lock_trace.locks.kerneltables import read_locks, read_sites
from experiments.lock_trace.locks.lockstat import read_lock_stat
from experiments.lock_trace.locks.status import read_status
from experiments.page_trace.trace.records import Trace
from experiments.page_trace.trace.stats import TraceStats
from experiments.page_trace.trace.visits import visit_table, visits
from experiments.probe_cost.runs import read_runs

from experiments.shim.observer.answers import Load, Observed, read_names
from experiments.shim.observer.periods import read_periods
from experiments.shim.observer.pieces import read_pieces
from harness.errors import KreproError, RunError
from harness.experiment.model import load_experiment
from harness.guest.bulk import Bulk
from harness.guest.session import collect
from harness.machine.vitals import Vitals, read_cpus
from harness.measure.hostsched import host_waited
from harness.measure.interrupts import read_interrupts
from harness.measure.raw import read_answer, read_csv, read_json_lines, read_last_json_line, read_tsv
from harness.measure.symbols import read_system_map, with_kallsyms
from harness.oracle.reader import Oracle
from harness.sets.listing import describe
from harness.sets.manifest import load_manifest
from harness.sets.resultset import read_metrics, read_tables
from harness.sets.shown import read_shown
from tests.conftest import EXPERIMENT
from tests.golden import GOLDEN

MOST_S = 10.0
MOST_GROWTH = 1 << 29
#: Of a true file, for readers that take any length: so that most mutations are of something that is looked at.
TRIMMED, WHOLE = 6000, 1 << 30
NUMBERS = (
    *(b"-1", b"0", b"1", b"4294967296", b"18446744073709551615", b"18446744073709551616", b"9" * 400, b"1e309", b"nan"),
    *(b"0x", b"0xffffffffffffffff", b"-0", b"1.5", b"inf", b"1_0", b"true", b"null", b"\xd9\xa1"),
)
PIECES = (
    *(b"\n", b"\r\n", b"\t", b" ", b'"', b"{", b"}", b"[", b"]", b",", b":", b"=", b"\0", b"\xff\xfe", b"\xed\xa0\x80"),
    *(b"../", b"/", b"\\u0000", b"\\ud800", b"&a [*a,*a]", b"'", b"#", b"!!python/object", b"\x1b[2J", b"\xe2\x80\xae"),
)


@dataclass(frozen=True)
class Reader:
    """`read` gets a folder in which `name` is a mutated one of `corpus`; `beside`: other files there, as they are.

    `takes_all`: it finds in any text what there is of something, and refuses none.
    """

    name: str
    corpus: tuple[bytes, ...]
    read: Callable[[Path], object]
    beside: dict[str, bytes] = field(default_factory=dict)
    takes_all: bool = False


def mutated(data: bytes, chance: random.Random, others: tuple[bytes, ...]) -> bytes:
    """One to four changes of `data`."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        data = _changed(data, chance, others)
    return data


def _changed(data: bytes, chance: random.Random, others: tuple[bytes, ...]) -> bytes:
    size = len(data)
    at = chance.randrange(size + 1)
    end = min(size, at + chance.choice((1, 2, 4, 8, 16, 64, 512)))
    kind = chance.randrange(10)
    if kind == 0 and size:
        place = chance.randrange(size)
        return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]
    if kind == 1:
        return data[:at] + data[end:]
    if kind == 2:
        return data[:end] + data[at:end] * chance.choice((1, 2, 20)) + data[end:]
    if kind == 3:
        return data[:at] + chance.randbytes(end - at) + data[end:]
    if kind == 4:
        return data[:at]
    if kind == 5:
        return data[:at] + chance.choice(PIECES) + data[at:]
    if kind in (6, 7):
        found = [match.span() for match in re.finditer(rb"-?[0-9][0-9a-fx.]*", data[:20000])]
        if found:
            first, last = chance.choice(found)
            return data[:first] + chance.choice(NUMBERS) + data[last:]
    if kind == 8:
        other = chance.choice(others)
        start = chance.randrange(len(other) + 1)
        return data[:at] + other[start : start + 200] + data[end:]
    if kind == 9:
        lines = data.split(b"\n")
        chance.shuffle(lines)
        return b"\n".join(lines)
    return data[:at] + b"\xff" * 8 + data[at + 8 :]


@dataclass
class Outcome:
    """What became of many mutations."""

    tried: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)
    grown: int = 0


def fuzz(reader: Reader, folder: Path, count: int, seed: int = 1, most_failures: int = 5) -> Outcome:
    """Give a reader so many mutations; whether each ended as it must."""
    chance, outcome = random.Random(seed), Outcome()
    target = folder / reader.name
    target.parent.mkdir(parents=True, exist_ok=True)
    for name, data in reader.beside.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    before = _peak()
    for number in range(count):
        data = mutated(chance.choice(reader.corpus), chance, reader.corpus)
        target.write_bytes(data)
        outcome.tried += 1
        try:
            with limited(MOST_S):
                reader.read(folder)
        except KreproError as error:
            outcome.refused += 1
            if any("\n" in line for line in error.lines):
                outcome.failures.append(f"{number}: an error of several lines: {str(error)!r}")
        except Exception as error:
            shown = data if len(data) < 300 else data[:300] + b"..."
            outcome.failures.append(f"{number}: {type(error).__name__}: {error} of {shown!r}"[:1000])
        if len(outcome.failures) >= most_failures:
            break
    outcome.grown = _peak() - before
    if outcome.grown > MOST_GROWTH:
        outcome.failures.append(f"memory grew by {outcome.grown >> 20} MiB")
    return outcome


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


class limited:
    """TimeoutError in a block that takes more time of a CPU."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        def over(_signal: int, _frame: FrameType | None) -> None:
            raise TimeoutError(f"took longer than {self._seconds:.0f} s")

        self._before = signal.signal(signal.SIGPROF, over)
        signal.setitimer(signal.ITIMER_PROF, self._seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._before)


# -- the readers ------------------------------------------------------------------------------------------------


@functools.cache
def _golden(experiment: str, pattern: str, most: int = 4, trimmed: int = TRIMMED) -> tuple[bytes, ...]:
    """Up to `most` true files whose names fit, cut at `trimmed` bytes: text at a line's end, records at one of 64."""
    found: list[bytes] = []
    with tarfile.open(GOLDEN / experiment / "raw.tar.xz") as archive:
        for member in archive:
            if not member.isfile() or not member.size or not re.search(pattern, member.name):
                continue
            file = archive.extractfile(member)
            assert file is not None
            data = file.read()
            if len(data) > trimmed:
                text = b"\0" not in data[:1000]
                data = data[: data.rindex(b"\n", 0, trimmed) + 1] if text else data[: trimmed // 64 * 64]
            found.append(data)
            if len(found) == most:
                break
    assert found, (experiment, pattern)
    return tuple(found)


@functools.cache
def _symbols() -> object:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "System.map").write_bytes(_golden("irq-hotspot", r"System\.map$", 1, WHOLE)[0])
        return read_system_map(Path(folder) / "System.map")


def _tar(folder: Path) -> object:
    shutil.rmtree(folder / "out", ignore_errors=True)
    return collect(Bulk(folder / "bulk"), folder / "out")


def _tars() -> Iterator[bytes]:
    import io

    for names in (("job.exit", "add/stdout"), ("job.exit", "a/b/c", "pmu")):
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size = 2
                archive.addfile(member, io.BytesIO(b"0\n"))
        data = made.getvalue().rstrip(b"\0")
        data += bytes(-len(data) % 512 + 1024)
        yield b"krepro-bulk 1 %d\n" % len(data) + data


def _oracle(mode: str) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        oracle = Oracle(folder)
        if mode == "pages":
            return oracle.pages().runs()
        return {"functions": oracle.functions, "sampler": oracle.samples, "locks": oracle.locks}[mode](_symbols())

    return read


def _trial(experiment: str, arm: str, names: tuple[str, ...]) -> dict[str, bytes]:
    """Whole files of one trial's oracle."""
    folder = f"raw/{arm}/0/oracle"
    return {f"oracle/{name}": _golden(experiment, rf"{folder}/{re.escape(name)}$", 1, WHOLE)[0] for name in names}


def _parquets() -> tuple[bytes, ...]:
    with tempfile.TemporaryDirectory() as folder:
        frame = pd.DataFrame({"arm": ["a", "b"], "trial": [0, 1], "metric": ["m", None], "value": [1.5, 2.5]})
        frame.assign(unit="1", reason=None).to_parquet(Path(folder) / "x")
        return ((Path(folder) / "x").read_bytes(),)


def _manifests() -> tuple[bytes, ...]:
    found = (GOLDEN.parent / "fixtures").glob("2*/manifest.json")
    return tuple(path.read_bytes() for path in sorted(found))


REGISTERS = (
    b"\r\nCPU#0\r\nEAX=00000000 EBX=c1a80000\r\nEIP=c15d8e66 EFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1\r\n",
    b"\r\nCPU#0\r\nRIP=ffffffff81a1b4bf RFL=00000046 [---Z-P-] HLT=0\r\n\r\nCPU#1\r\nRIP=0 RFL=00000246 [] HLT=1\r\n",
)


def readers() -> dict[str, Reader]:
    """All of them, by name."""
    functions = _trial("irq-hotspot", "handler-only", ("functions.bin", "oracle.json", "samples.bin"))
    paged = _trial("page-trace", "window-16", ("oracle.json", "pages.bin", "pages.clk", "pages.idx"))
    locks = _trial("lock-trace", "all", ("locks.bin", "oracle.json"))
    said = {"observer.shim.json": _golden("shim", r"fast/0/pattern/observer\.shim\.json$")[0]}
    symbols = _golden("lock-trace", r"System\.map$", 1, WHOLE)
    profiles = _golden("irq-hotspot", r"profile$", 2, WHOLE)
    traces = _golden("page-trace", r"window-16/0/sort/trace$", 1, WHOLE)
    runs = _golden("probe-cost", r"fit/stdout$")
    table = {"names": b"address attempts inits"}

    def of(corpus: tuple[bytes, ...], read: Callable[[Path], object], **beside: bytes) -> Reader:
        return Reader("x", corpus, lambda at: read(at / "x"), beside)

    found = {
        "tar": Reader("bulk", tuple(_tars()), _tar),
        "registers": Reader("x", REGISTERS, _seen, takes_all=True),
        "interrupts": of(_golden("irq-hotspot", r"interrupts\.(before|after)$"), read_interrupts),
        "System.map": of(symbols, read_system_map),
        "kallsyms": Reader("x", _golden("lock-trace", r"kallsyms$"), _with_modules, {"System.map": symbols[0]}),
        "host-sched.json": Reader("host-sched.json", _golden("irq-hotspot", r"host-sched\.json$"), host_waited),
        "profile": of(profiles, lambda x: decode_profile(x.read_bytes(), _symbols())),
        "profile as readprofile": of(profiles, lambda x: decode_as_readprofile(x.read_bytes(), _symbols())),
        "profile as printed": of(profiles, lambda x: decode_as_printed(x.read_bytes(), _symbols())),
        "bracket": of(_golden("irq-hotspot", r"bracket$"), read_bracket),
        "page trace": of(traces, lambda x: visit_table(visits(Trace(x).chunks()))),
        "page trace totals": of(traces, lambda x: (Trace(x).replaced, Trace(x).written_visits)),
        "trace.json": of(_golden("page-trace", r"trace\.json$"), lambda x: read_answer(x, TraceStats)),
        "locks.tsv": of(_golden("lock-trace", r"locks\.tsv$"), read_locks),
        "sites.tsv": of(_golden("lock-trace", r"sites\.tsv$"), read_sites),
        "lock status": of(_golden("lock-trace", r"status\.json$"), read_status),
        "lock events": of(_golden("lock-trace", r"events\.bin$"), read_events),
        "lock_stat": of((LOCK_STAT,), read_lock_stat),
        "tsv": Reader("x", _golden("lock-trace", r"known\.tsv$"), _table, table),
        "thread names": of(_golden("shim", r"comms\.csv$"), read_names),
        "periods": of(_golden("shim", r"periods\.csv$"), read_periods),
        "csv": of(_golden("shim", r"ids\.csv$"), lambda x: read_csv(x, ["pid", "tgid"])),
        "shim.json": of(_golden("shim", r"observer\.shim\.json$"), lambda x: read_answer(x, Observed)),
        "load.json": of(_golden("shim", r"load\.json$"), lambda x: read_answer(x, Load)),
        "pieces": Reader("observer.host.csv", _golden("shim", r"pattern/observer\.host\.csv$"), _sound, said),
        "runs": of(runs, read_runs),
        "JSON lines": of(runs, read_json_lines),
        "last JSON line": of(_golden("irq-hotspot", r"/stdout$"), read_last_json_line),
        "experiment.yaml": Reader(
            "experiment.yaml", (EXPERIMENT.encode(), MATRIX), load_experiment, {"analysis.py": b""}
        ),
        "manifest": of(_manifests(), load_manifest),
        "manifest, listed": Reader(f"{SET}/manifest.json", _manifests(), _described, {f"{SET}/claims.json": b"[]"}),
        "tables to show": of((SHOWN,), lambda x: read_shown(x.read_bytes(), "x")),
        "Parquet, metrics": Reader("metrics.parquet", _parquets(), read_metrics),
        "Parquet, table": Reader("tables/x.parquet", _parquets(), read_tables),
        "oracle of locks": Reader("oracle/locks.bin", (locks["oracle/locks.bin"],), _oracle("locks"), locks),
    }
    for name, data in functions.items():
        mode = "sampler" if name == "oracle/samples.bin" else "functions"
        found[f"oracle of functions, {name}"] = Reader(name, (data,), _oracle(mode), functions)
    for name, data in paged.items():
        found[f"oracle of pages, {name}"] = Reader(name, (data,), _oracle("pages"), paged)
    return found


def _with_modules(at: Path) -> object:
    return with_kallsyms(read_system_map(at / "System.map"), (at / "x").read_text(errors="replace"), where="x")


def _table(at: Path) -> object:
    return read_tsv(at / "x", dict.fromkeys((at / "names").read_text().split(), "uint64"))


def _sound(at: Path) -> object:
    return read_pieces(at, "observer", read_answer(at / "observer.shim.json", Observed))


def _seen(at: Path) -> object:
    return Vitals(virtual=True).look(read_cpus((at / "x").read_text(errors="replace")), 0.0, 0.0)


def _described(at: Path) -> object:
    listed = describe(next(at.glob("2*")))
    if listed.broken:  # a list goes on past it, and says so in its line
        raise RunError(listed.broken)
    return listed


SET = "20240101T000000.00Z-00000000"
MATRIX = b"""\
name: many
paper: {authors: [Nobody], year: 2024, title: A matrix}
workloads: {add: {command: "echo 42", timeout_s: 5}}
arms:
  each: {kernel: classic, clock: virtual, matrix: {size: [1, 2, 4]}, params: {size: 1}}
repetitions: {quick: 1}
"""
_SHOWN_TABLE = {"title": "Times", "columns": ["a", "b"], "rows": [[1, "x"], [2.5, None]]}
SHOWN = json.dumps({"paper": [_SHOWN_TABLE], "summary": [_SHOWN_TABLE]}, indent=1).encode()
LOCK_STAT = b"""lock_stat version 0.4
-----------------------------------------------------------------------------------------------------------------
                              class name    con-bounces    contentions   waittime-min   waittime-max waittime-total
-----------------------------------------------------------------------------------------------------------------

                          &mm->mmap_lock-W:            46             84           0.26         939.10       16371.53
                          &mm->mmap_lock-R:            37            100           1.31      299502.61      325629.52
                          ---------------
                           &mm->mmap_lock              1   [<ffffffff811502a7>] khugepaged_scan_mm_slot+0x57/0x280
                           &mm->mmap_lock             96   [<ffffffff815351c4>] __do_page_fault+0x1d4/0x510
"""
