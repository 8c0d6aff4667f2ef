"""Raw folders of page-trace's trials into tables; see `analysis.tables`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from harness.errors import RunError
from harness.oracle.reader import Oracle, OracleAbsent

from .known import read_known
from .trace.accessmap import AccessMap
from .trace.comparison import Comparison, compare
from .trace.pages import PageTable
from .trace.records import EXEC, VISIT, Records, Trace, code_pages
from .trace.reuse import ReuseDistances
from .trace.stats import TraceStats, read_stats
from .trace.streams import Streams
from .trace.tables import fill
from .trace.transitions import Transitions
from .trace.visits import visit_table, visits
from .trace.workingset import WorkingSet, WorkingSetCurve

METHODS = {"plain": "plain.json", "trace": "trace.json", "lackey": "lackey.json", "damon": "damon.json"}
#: What `runs` has even where no trial gives it.
RUN_COLUMNS = (
    *("arm", "trial", "workload", "method", "clock", "seconds", "bytes", "exit_status", "output"),
    *("oracle", "missing", "extra", "unexplained", "explained", "lost", "unaccounted", "steps", "visits"),
)
INTERVALS = 200
TOP = 200
SHOWN_VISITS = 20_000
#: Of a segment's chunks of work, the quantile that is the speed undisturbed by the host.
UNDISTURBED = 0.1


class Trial(Protocol):
    """What this analysis reads of a trial; `path` is its raw folder, with one folder per workload."""

    arm: str
    repetition: int
    path: Path
    workloads: tuple[str, ...]
    params: dict[str, Any]
    clock: str


def _folders(trials: Sequence[Trial]) -> Iterator[tuple[Trial, dict[str, Any], Path]]:
    for trial in trials:
        for workload in trial.workloads:
            key = {"arm": trial.arm, "trial": trial.repetition, "workload": workload}
            yield trial, key, trial.path / workload


# -- each method's time, bytes and counts -------------------------------------------------------------------


def runs(trials: Sequence[Trial]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables runs and differences."""
    rows: list[dict[str, Any]] = []
    differences: list[pd.DataFrame] = []
    for trial, key, folder in _folders(trials):
        method = str(trial.params.get("method", ""))
        if method not in METHODS:
            continue
        answer = json.loads((folder / METHODS[method]).read_text())
        row = key | {
            "method": method,
            "clock": trial.clock,
            "seconds": answer["elapsed_ns"] / 1e9,
            "bytes": answer.get("bytes"),
            "exit_status": answer["exit_status"],
            "output": hashlib.sha256((folder / "stdout").read_bytes()).hexdigest(),
        }
        if method == "trace":
            stats = read_stats(folder / "trace.json")
            row |= _counts(stats)
            # One program is selected per workload, in order.
            span = trial.workloads.index(key["workload"])
            row, by_class = _compare(row, trial.path, folder / "trace", span)
            if by_class is not None:
                differences.append(by_class.assign(**key))
        rows.append(row)
    frame = pd.DataFrame(rows)
    for name in RUN_COLUMNS:
        if name not in frame:
            frame[name] = pd.Series(dtype="float64")
    return frame, pd.concat(differences, ignore_index=True) if differences else pd.DataFrame()


def _counts(stats: TraceStats) -> dict[str, Any]:
    names = ("faults", "records", "lost", "code", "slow", "upgrades", "spurious", "steps", "kept", "drops", "recycled")
    counts = {name: getattr(stats, name) for name in names}
    return counts | {"visits": stats.records, "unaccounted": stats.unaccounted, "window": stats.window}


def _compare(row: dict[str, Any], trial: Path, trace: Path, span: int) -> tuple[dict[str, Any], pd.DataFrame | None]:
    """`row` with the comparison of a trace with the oracle's selection number `span`; without one, why."""
    try:
        exact = Oracle(trial).pages(span)
    except OracleAbsent as error:
        absent = dict.fromkeys(("oracle", "missing", "extra", "unexplained", "explained", "missing_share"), np.nan)
        return row | absent | {f"{name}_reason": error.message for name in absent}, None
    found = compare(_since_exec(trace), exact.chunks(), code_pages(Trace(trace).chunks()))
    return row | _differences(found), found.differences


def _differences(found: Comparison) -> dict[str, Any]:
    by_class = found.differences.set_index("class")
    unexplained = int(by_class.loc["unknown", ["missing", "extra"]].sum())
    return {
        "oracle": found.oracle,
        "missing": found.missing,
        "extra": found.extra,
        "unexplained": unexplained,
        "explained": found.missing + found.extra - unexplained,
    }


def _since_exec(path: Path) -> Iterator[Records]:
    """The records from the last exec on: before it ran the launcher's child, and what it started the program with."""
    last, at = -1, 0
    for records in Trace(path).chunks():
        execs = np.flatnonzero(records.type == EXEC)
        if execs.size:
            last = at + int(execs[-1])
        at += len(records)
    at = 0
    for records in Trace(path).chunks():
        place = np.arange(at, at + len(records))
        at += len(records)
        yield records.where(place > last)


# -- the access model ------------------------------------------------------------------------------------------


def model(trials: Sequence[Trial]) -> dict[str, pd.DataFrame]:
    """What the traces say of the programs: see `analysis.tables`."""
    parts: dict[str, list[pd.DataFrame]] = {}
    first: set[str] = set()
    for _, key, folder in _folders(trials):
        path = folder / "trace"
        begin, end = _times(path)
        step = max(1, (end - begin) // INTERVALS + 1)
        tables = {
            "pages": PageTable(),
            "curve": WorkingSetCurve(),
            "workingset": WorkingSet(step, INTERVALS, [step, 10 * step]),
            "reuse": ReuseDistances(),
        }
        streams, transitions, cells = Streams(), Transitions(), AccessMap(step, INTERVALS)
        fill(_from(path, begin), [*tables.values(), streams, transitions, cells])
        frames = {name: table.frame() for name, table in tables.items()}
        frames |= {"kinds": streams.kinds(), "advice": streams.advice(), "streams": streams.frame().head(TOP)}
        frames["transitions"] = transitions.frame(TOP)
        if key["workload"] not in first:
            first.add(key["workload"])
            frames |= {"map": cells.frame(), "visits": visit_table(visits(_from(path, begin)), SHOWN_VISITS)}
        for name, frame in frames.items():
            parts.setdefault(name, []).append(frame.assign(**key))
    return {name: pd.concat(frames, ignore_index=True) for name, frames in parts.items()}


def _times(path: Path) -> tuple[int, int]:
    """Begin and end of the program's own part of a trace, in ns since the trace's start."""
    times = [records.time_ns[[0, -1]] for records in _since_exec(path) if len(records)]
    if not times:
        raise RunError("has no record after an exec", where=str(path))
    return int(times[0][0]), int(times[-1][1])


def _from(path: Path, begin: int) -> Iterator[Records]:
    """The same records, their time counted from `begin` on."""
    for records in _since_exec(path):
        records.time_ns[:] -= begin
        yield records


# -- known sequences, the neighbour -----------------------------------------------------------------------------


def known_cases(trials: Sequence[Trial]) -> pd.DataFrame:
    """The table known."""
    rows = []
    for _, key, folder in _folders(trials):
        for path in sorted((folder / "known").glob("*.json")):
            case, stats = read_known(path.read_text()), read_stats(path.with_suffix(".stats"))
            pages, writes = [], []
            for records in Trace(path.with_suffix(".trace")).chunks():
                mine = records.where(records.type == VISIT)
                pages.append(mine.page)
                writes.append(mine.write)
            if not pages:
                raise RunError("has no records", where=str(path.with_suffix(".trace")))
            wrong = case.wrong(np.concatenate(pages), np.concatenate(writes))
            if case.failed:
                wrong = f"{case.failed} of its own checks failed" + (f"; {wrong}" if wrong else "")
            row = key | {"case": case.name, "visits": len(case.expected), "wrong": wrong or ""}
            rows.append(row | _counts(stats) | {"visits": len(case.expected)})
    return pd.DataFrame(rows)


def neighbours(trials: Sequence[Trial]) -> pd.DataFrame:
    """The table neighbour: arm, trial, workload, alone and beside (chunks of work a second), slowdown (1 less the ratio
    of speeds, median over pairs of segments, of each the fastest tenth of its chunks), slowdown_median (the same of
    whole segments), pairs.
    """
    rows = []
    for trial, key, folder in _folders(trials):
        if trial.params.get("method") != "neighbour":
            continue
        lines = [json.loads(line) for line in (folder / "stdout").read_text().splitlines()]
        segments = [line for line in lines if "segment" in line]
        found = []
        for one, two in zip(segments[::2], segments[1::2], strict=True):
            alone, beside = (one, two) if one["arm"] == "a" else (two, one)
            if alone["ran_through"] and beside["ran_through"]:
                found.append([value for side in (alone, beside) for value in (_undisturbed(side), side["wall_ns"])])
        if not found:
            raise RunError("no pair of segments in which both commands ran through", where=str(folder / "stdout"))
        pairs = np.array(found, dtype=np.float64)
        rows.append(
            key
            | {
                "pairs": len(pairs),
                "alone": 1e9 / float(np.median(pairs[:, 0])),
                "beside": 1e9 / float(np.median(pairs[:, 2])),
                "slowdown": float(np.median(pairs[:, 2] / pairs[:, 0])) - 1,
                "slowdown_median": float(np.median(pairs[:, 3] / pairs[:, 1])) - 1,
            }
        )
    return pd.DataFrame(rows)


def _undisturbed(segment: dict[str, Any]) -> float:
    return float(np.quantile(np.array(segment["chunk_ns"], dtype=np.float64), UNDISTURBED))
