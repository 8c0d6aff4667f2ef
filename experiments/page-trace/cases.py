# SPDX-License-Identifier: MIT
"""Known sequences, and a neighbour's speed: what the arms known* and neighbour say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import RunError
from harness.measure.raw import Trial, read_answer, read_json, read_json_lines
from harness.measure.rows import TableRows
from harness.measure.statistics import median_estimate

from .known import known_of
from .programs import counts
from .trace.records import VISIT, Trace
from .trace.stats import TraceStats

#: Names of parts, as the table problems has them.
KNOWN, NEIGHBOUR = "known sequence", "neighbour"
#: Of a segment's chunks of work, the quantile that is the speed undisturbed by the host.
UNDISTURBED = 0.1


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
    case, stats = known_of(read_json(path.with_suffix(".json"))), read_answer(path.with_suffix(".stats"), TraceStats)
    trace = Trace(path.with_suffix(".trace"))
    pages, writes = [], []
    for records in trace.chunks():
        visits = records.where(records.type == VISIT)
        pages.append(visits.page)
        writes.append(visits.write)
    if not pages:
        raise RunError("has no records", where=str(trace.path))
    wrong = case.wrong(np.concatenate(pages), np.concatenate(writes))
    if case.failed:
        wrong = f"{case.failed} of its own checks failed" + (f"; {wrong}" if wrong else "")
    row = {"case": case.name, "visits": len(case.expected), "exact": wrong is None, "wrong": wrong}
    return row | counts(stats, trace)


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
