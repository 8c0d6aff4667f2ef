# SPDX-License-Identifier: MIT
"""Programs that a trial ran by the arm's method: their time and data, the kernel's counts, the oracle beside them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from harness.measure.raw import Answer, Trial, read_answer, read_bytes
from harness.measure.rows import TableRows
from harness.oracle.reader import Oracle, asked_for
from harness.yamlfile import about

from .dwells import programs_of
from .trace.comparison import compare
from .trace.maps import read_maps
from .trace.program import Own, Program
from .trace.records import Trace
from .trace.stats import TraceStats

#: What each method says lies in METHOD.json.
METHODS = ("plain", "stock", "trace", "packed", "stream", "lackey", "lackey-data", "faults", "soft-dirty", "damon")
#: Those that trace pages.
TRACES = ("trace", "packed", "stream")
#: Names of parts, as the table problems has them: what a metric over all programs of a trial needs.
RUN, OUTPUT, TRACE, COMPARISON = "run", "output", "trace", "comparison"


class Run(Answer):
    """What every method's launcher says; `bytes` is absent where it gave no data, and what lackey alone counts, its
    lines by kind, by every other.
    """

    elapsed_ns: int
    exit_status: Annotated[int | None, about("the program's, as a shell has it", "1")]
    bytes: int | None = None
    records: Annotated[
        int | None, about("visits of a page trace, page faults, pages found dirty at each look; NaN: not counted", "1")
    ] = None
    data_bytes: int | None = None
    binary_bytes: Annotated[
        int | None, about("what lackey-data's lines of data would take as words; NaN: another method", "B")
    ] = None
    packed_bytes: Annotated[
        int | None, about("what they would take as differences in LEB128; NaN: another method", "B")
    ] = None


def decode_programs(rows: TableRows, trial: Trial) -> None:
    """The tables runs, traces, comparisons, differences of one trial."""
    method = str(trial.params.get("method", ""))
    if method not in METHODS:
        return
    for span, workload in enumerate(programs_of(trial)):
        folder = trial.path / workload
        output: str | None = None
        with rows.part(trial, OUTPUT, workload):
            output = hashlib.sha256(read_bytes(folder / "stdout")).hexdigest()
        with rows.part(trial, RUN, workload):
            run = read_answer(folder / ("trace.json" if method in TRACES else f"{method}.json"), Run)
            size = run.data_bytes if method == "lackey-data" else run.bytes
            row = {"method": method, "seconds": run.elapsed_ns / 1e9, "bytes": size, "output": output}
            row = run.as_columns() | row
            if method in TRACES:
                row |= _less_the_starter(row, _own(trial, workload))
            rows.put("runs", row, trial, workload)
        if method not in TRACES:
            continue
        with rows.part(trial, TRACE, workload):
            path = _path(trial, workload)
            row = counts(read_answer(folder / "trace.json", TraceStats), Trace(path))
            own = _own(trial, workload)
            told = {name: getattr(own, name) for name in ("visits", "several", "before_visits", "starter_ns")}
            rows.put("traces", row | told | {"file_bytes": path.stat().st_size}, trial, workload)
        if asked_for(trial.path):
            with rows.part(trial, COMPARISON, workload):
                # One program is selected per workload, in order.
                _compare(rows, trial, workload, span)


def _path(trial: Trial, workload: str) -> Path:
    """Where a program's trace lies."""
    return trial.path / "stream" if trial.params.get("method") == "stream" else trial.path / workload / "trace"


def _own(trial: Trial, workload: str) -> Own:
    return Program(Trace(_path(trial, workload))).own()


def _less_the_starter(row: dict[str, Any], own: Own) -> dict[str, Any]:
    """Time, data and visits of the program alone: roi-exec, which only marks it for the oracle, runs before it."""
    return {
        "seconds": row["seconds"] - own.starter_ns / 1e9,
        "bytes": row["bytes"] - own.before_bytes,
        "records": own.visits,
    }


def counts(stats: TraceStats, trace: Trace) -> dict[str, Any]:
    """The columns COUNTS of one trace."""
    own = {"file_records": trace.written_visits, "unaccounted": stats.unaccounted, "cut": stats.left_out}
    return stats.as_columns() | own


def _compare(rows: TableRows, trial: Trial, workload: str, span: int) -> None:
    """The comparison of a program's trace with the oracle's selection number `span`."""
    folder: Path = trial.path / workload
    exact = Oracle(trial.path).pages(span)
    program, maps = Program(Trace(_path(trial, workload))), read_maps(folder / "maps")
    runs = 0

    def counted() -> Iterator[pd.DataFrame]:
        nonlocal runs
        for frame in exact.chunks():
            runs += len(frame)
            yield frame

    compared = compare(program.chunks(), counted(), maps.code_pages())
    called_code = program.code_pages()
    unknown = compared.differences[compared.differences["class"] == "unknown"]
    unexplained = int(unknown["missing"].sum() + unknown["extra"].sum())
    row = {
        "oracle": compared.oracle,
        "trace": compared.trace,
        "missing": compared.missing,
        "extra": compared.extra,
        "unexplained": unexplained,
        "explained": compared.missing + compared.extra - unexplained,
        "left_out": compared.oracle_code,
        "runs": runs,
        "code_unmapped": int((~maps.code(called_code)).sum()),
    }
    rows.put("comparisons", row, trial, workload)
    rows.put("differences", compared.differences, trial, workload)
