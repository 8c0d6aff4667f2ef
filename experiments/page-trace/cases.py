# SPDX-License-Identifier: MIT
"""Known sequences, by the trace and by lackey, and a neighbour's speed: arms known*, lackey-known and neighbour."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import RunError
from harness.measure.raw import Trial, read_answer, read_json, read_json_lines, read_text
from harness.measure.rows import TableRows
from harness.measure.statistics import median_estimate

from .hand import BY_HAND, OUTSIDE, reads_into_buffer
from .known import known_of
from .programs import counts
from .trace.records import PAGE_SHIFT, VISIT, Trace
from .trace.stats import TraceStats

#: Names of parts, as the table problems has them.
KNOWN, NEIGHBOUR, LACKEY = "known sequence", "neighbour", "sequence by lackey"
#: Of a segment's chunks of work, the quantile that is the speed undisturbed by the host.
UNDISTURBED = 0.1
_COLUMNS = ("page", "write", "kernel")
#: A line of lackey's on data: load, store or both; address; bytes.
_ACCESS = re.compile(r" ([LSM]) ([0-9a-f]+),(\d+)")


def decode_known(rows: TableRows, trial: Trial) -> None:
    """The table known of one trial; each case has three files: .json, .stats, .trace."""
    for workload in trial.workloads:
        folder = trial.path / workload / "known"
        names = sorted({path.stem for path in folder.glob("*.*")})
        if not names:
            with rows.part(trial, KNOWN, workload):
                raise RunError("has no known sequence", where=str(folder))
        for name in names:
            with rows.part(trial, f"{KNOWN} {name}", workload):
                rows.put("known", _case(folder / name), trial, workload)


def _case(path: Path) -> dict[str, Any]:
    stats, trace = read_answer(path.with_suffix(".stats"), TraceStats), Trace(path.with_suffix(".trace"))
    visits = [records.where(records.type == VISIT) for records in trace.chunks()]
    if not visits:
        raise RunError("has no records", where=str(trace.path))
    pages, writes, kernel = (np.concatenate([getattr(one, name) for one in visits]) for name in _COLUMNS)
    if path.name == OUTSIDE:
        seen, wrong = reads_into_buffer(pages.astype(np.int64), writes & kernel)
        row: dict[str, Any] = {"case": OUTSIDE, "visits": BY_HAND[OUTSIDE].visits}
    else:
        case = known_of(read_json(path.with_suffix(".json")))
        seen, wrong = case.visits(pages), case.wrong(pages, writes)
        if case.failed:
            wrong = f"{case.failed} of its own checks failed" + (f"; {wrong}" if wrong else "")
        row = {"case": case.name, "visits": len(case.expected)}
    row |= {"seen": seen, "by_hand": _by_hand(path.name), "exact": wrong is None, "wrong": wrong}
    row["said_exact"] = stats.exact
    return row | counts(stats, trace)


def _by_hand(name: str) -> float:
    return float(BY_HAND[name].visits) if name in BY_HAND else np.nan


def decode_lackey(rows: TableRows, trial: Trial) -> None:
    """The table second of one trial; each case has two files: .json, and .lackey with lines as " L 10000000000,8"."""
    for workload in trial.workloads:
        for path in sorted((trial.path / workload / "known").glob("*.lackey")):
            with rows.part(trial, f"{LACKEY} {path.stem}", workload):
                rows.put("second", _by_lackey(path), trial, workload)


def _by_lackey(path: Path) -> dict[str, Any]:
    case = known_of(read_json(path.with_suffix(".json")))
    pages: list[int] = []
    writes: list[bool] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        access = _ACCESS.fullmatch(line)
        if access is None:
            raise RunError("is no access of lackey's", where=f"{path}:{number}")
        first, size = int(access[2], 16), int(access[3])
        touched = range(first >> PAGE_SHIFT, (first + size - 1 >> PAGE_SHIFT) + 1)
        pages += touched
        writes += [access[1] == "S"] * len(touched)
    wrong = case.wrong(pages, writes)
    return {"case": case.name, "visits": case.visits(pages), "by_hand": _by_hand(case.name), "exact": wrong is None,
            "wrong": wrong}  # fmt: skip


def decode_neighbour(rows: TableRows, trial: Trial) -> None:
    """The table neighbour of one trial."""
    for workload in trial.workloads:
        with rows.part(trial, NEIGHBOUR, workload):
            rows.put("neighbour", _speeds(trial.path / workload / "stdout"), trial, workload)


def _speeds(path: Path) -> dict[str, Any]:
    segments = [line for line in read_json_lines(path) if "segment" in line]
    chunks, times = [], []
    for one, two in zip(segments[::2], segments[1::2], strict=True):
        alone, beside = (one, two) if one["arm"] == "a" else (two, one)
        if alone["ran_through"] and beside["ran_through"]:
            times.append([value for side in (alone, beside) for value in (_undisturbed(side), side["wall_ns"])])
            chunks.append(len(alone["chunk_ns"]))
    if not times:
        raise RunError("no pair of segments in which both commands ran through", where=str(path))
    pairs = np.array(times, dtype=np.float64)
    if not (pairs > 0).all():
        raise RunError("a segment took no time: the guest's clock stood still", where=str(path))
    slowdown = median_estimate(pairs[:, 3] / pairs[:, 1] - 1)
    return {
        "pairs": len(pairs),
        "alone": 1e9 * float(np.median(np.array(chunks) / pairs[:, 1])),
        "beside": 1e9 * float(np.median(np.array(chunks) / pairs[:, 3])),
        "slowdown": slowdown.value,
        "slowdown_low": slowdown.low,
        "slowdown_high": slowdown.high,
        "slowdown_fastest": float(np.median(pairs[:, 2] / pairs[:, 0])) - 1,
    }


def _undisturbed(segment: dict[str, Any]) -> float:
    return float(np.quantile(np.array(segment["chunk_ns"], dtype=np.float64), UNDISTURBED))
