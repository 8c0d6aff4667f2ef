# SPDX-License-Identifier: MIT
"""Raw files of trials into the tables of declared.py, file by file: what one file tells stands without the others."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.errors import RunError
from harness.measure.interrupts import delta, read_interrupts
from harness.measure.raw import Trial, read_answer, read_bytes, read_text
from harness.measure.rows import TableRows
from harness.measure.symbols import SymbolMap, read_system_map
from harness.oracle.reader import WINDOW, Oracle, asked_for
from harness.oracle.truth import convergence, kernel_truth, nmi_cost

from .answers import Load, read_bracket
from .declared import TABLES
from .handlers import ENTRIES_SAMPLED, RAISE, TASK_WORK, Called, handler_rows, read_called, roles_of
from .peers import PEERS, peer_row
from .peers import WORKLOAD as BESIDE
from .profile.buffer import ProfileTable, decode, decode_as_printed, decode_as_readprofile
from .profile.misread import misread
from .stepped import CELLS, Steps, cell_rows
from .stepped import WORKLOAD as STEP
from .trialrows import EXIT

#: The arms of the N sweep, finest first, and what they run.
SWEEP = tuple(f"n{n}" for n in range(2, 8))
SWEEP_WORKLOAD = "syscalls"
#: The parts of a workload, as the table `problems` names them; without a clean exit none of them is decoded.
LINES, BRACKET, ANSWER, CALLED, BUFFER, HANDLERS, TRUTH, NMIS = (
    *("interrupts", "bracket", "answer", "called", "buffer", "handlers", "truth", "nmis"),
)
_SIZES = np.unique(np.round(np.geomspace(8, 65536, 27)))


def decode_trials(trials: Sequence[Trial]) -> dict[str, pd.DataFrame]:
    """The declared tables, and `problems`, of these trials' raw files."""
    rows = TableRows(TABLES)
    symbols = functools.cache(read_system_map)
    for trial in trials:
        for workload in trial.workloads:
            rows.put("runs", {"sampling": sampling(trial)}, trial, workload)
            with rows.part(trial, EXIT, workload):
                _ended(trial.path / workload)
                _decode(rows, trial, workload, symbols)
    return rows.frames()


def sampling(trial: Trial) -> str:
    """The arm's irq_sampling; YAML reads a bare off as false."""
    value = trial.params.get("irq_sampling", "off")
    return "off" if value is False else str(value)


def _ended(folder: Path) -> None:
    status = read_text(folder / "exit").strip()
    if status != "0":
        raise RunError(f"the workload ended with status {status[:20]}", where=str(folder / "exit"))


def _decode(rows: TableRows, trial: Trial, workload: str, symbols: Callable[[Path], SymbolMap]) -> None:
    folder = trial.path / workload
    lines: pd.DataFrame | None = None
    slack: dict[str, int] | None = None
    table: ProfileTable | None = None
    called: Called | None = None
    with rows.part(trial, LINES, workload):
        lines = _lines(folder)
        rows.put("interrupts", lines, trial, workload)
    with rows.part(trial, BRACKET, workload):
        bracket = read_bracket(folder / "bracket")
        slack = bracket.entry_slack
        rows.put("brackets", bracket.row(), trial, workload)
    with rows.part(trial, ANSWER, workload):
        rows.put("answers", read_answer(folder / "stdout", Load).row(), trial, workload)
    with rows.part(trial, CALLED, workload):
        called = read_called(folder / "handlers", symbols(trial.system_map))
    with rows.part(trial, BUFFER, workload):
        raw, where = read_bytes(folder / "profile"), str(folder / "profile")
        table = decode(raw, symbols(trial.system_map), where=where)
        printed = decode_as_printed(raw, table.symbols, where=where)
        rows.put("buffers", _buffer(table, printed, _readprofile(raw, table.symbols, where), called), trial, workload)
        rows.put("profile", _profile(table, printed, called), trial, workload)
        if trial.arm == SWEEP[0] and workload == SWEEP_WORKLOAD:
            rows.put("sweep", _regroup(table), trial, workload)
    if table is not None and lines is not None and slack is not None and called is not None:
        with rows.part(trial, HANDLERS, workload):
            ran = handler_rows(table, lines, slack, sampling(trial), called)
            rows.put("handlers", ran, trial, workload)
            if trial.arm not in SWEEP:
                rows.put("misread", _misread(table, ran, sampling(trial), called), trial, workload)
    if asked_for(trial.path):
        region = trial.workloads.index(workload)
        with rows.part(trial, TRUTH, workload):
            truth = _truth(_windowed(trial), symbols(trial.system_map), region, table, called)
            rows.put("truth", truth, trial, workload)
            for errors in _convergence(truth, trial.seed):
                rows.put("error", errors, trial, workload)
        if workload == STEP:
            with rows.part(trial, CELLS, workload):
                steps = read_answer(folder / "stdout", Steps)
                told = cell_rows(steps, Oracle(trial.path), symbols(trial.system_map), sampling(trial))
                rows.put("cells", told, trial, workload)
        if workload == BESIDE:
            with rows.part(trial, PEERS, workload):
                rows.put("peers", _beside(trial, symbols(trial.system_map), table), trial, workload)
        with rows.part(trial, NMIS, workload):
            oracle = Oracle(trial.path)
            if oracle.report.nmi is not None:
                oracle.need("nmi")
                cost = nmi_cost(_windowed(trial), symbols(trial.system_map), region, kind=WINDOW)
                rows.put("nmis", {"sent": oracle.report.nmi.sent, "cost": cost}, trial, workload)


def _windowed(trial: Trial) -> Oracle:
    """The oracle of a trial, whose windows are those of its workloads' buffers; else RunError."""
    oracle = Oracle(trial.path)
    if oracle.report.marks.windows != len(trial.workloads):
        told = f"the oracle has {oracle.report.marks.windows} windows of {len(trial.workloads)} workloads"
        raise RunError(told, where=str(oracle.folder))
    return oracle


def _beside(trial: Trial, symbols: SymbolMap, buffer: ProfileTable | None) -> dict[str, Any]:
    """The row of the table `peers`."""
    folder = trial.path / BESIDE
    handled = read_answer(folder / "stdout", Load).handled
    return peer_row(folder, str(trial.params.get("profiler", "none")), Oracle(trial.path), symbols, buffer, handled)


def _lines(folder: Path) -> pd.DataFrame:
    """Columns of the table `interrupts`."""
    before, after = (read_interrupts(folder / f"interrupts.{name}") for name in ("before", "after"))
    table = delta(before, after, where=str(folder / "interrupts.before"))
    return pd.DataFrame(
        {
            "irq": list(table.irq),
            "actions": [", ".join(names) for names in table.actions],
            "interrupts": table.total,
        }
    )


def _buffer(
    table: ProfileTable,
    printed: npt.NDArray[np.int64],
    like_readprofile: npt.NDArray[np.float64],
    called: Called | None,
) -> dict[str, Any]:
    names = table.symbols.name
    top, printed_top = int(np.argmax(table.ticks)), int(np.argmax(printed))
    in_text = float(table.ticks.sum())
    best = None if called is None else called.idle
    # 2^N blocks is what the paper has, and 2^N is the step: so many counters has its array, and RPos/2^N is our index.
    beyond = table.buckets[table.step :]
    return {
        "step": table.step,
        "counters": table.buckets.size,
        "total": table.total,
        "out_of_text": table.out_of_text,
        "shared": _shared(table.buckets[:-1], table.step, table.symbols),
        "idle_function": None if best is None else str(names[best]),
        "idle_ticks": np.nan if best is None else float(table.ticks[best]),
        "idle_per_byte": np.nan if best is None else float(table.ticks_per_byte[best]),
        "idle_rank": np.nan if best is None else float(1 + (table.ticks > table.ticks[best]).sum()),
        "raise_ticks": _ticks_in(table, RAISE),
        "task_work_ticks": _ticks_in(table, TASK_WORK),
        "top_function": str(names[top]),
        "top_ticks": float(table.ticks[top]),
        "top_printed": float(printed[top]),
        "printed_top_function": str(names[printed_top]) if printed.any() else "(all read 0)",
        "printed_top_ticks": float(printed[printed_top]),
        "printed_top_real": float(table.ticks[printed_top]),
        "printed_total": float(printed.sum()),
        "printed_error": float(np.abs(printed - table.ticks).sum()) / in_text if in_text else np.nan,
        "readprofile_error": float(np.abs(like_readprofile - table.ticks).sum()) / in_text if in_text else np.nan,
        "printed_outside": int(beyond.sum()),
    }


def _readprofile(raw: bytes, symbols: SymbolMap, where: str) -> npt.NDArray[np.float64]:
    """Ticks per function as util-linux's readprofile has them; a function's aliases together."""
    like = decode_as_readprofile(raw, symbols, where=where)
    ticks = np.bincount(symbols.at(like.address), like.ticks.astype(np.float64), len(symbols))
    return np.asarray(ticks, dtype=np.float64)


def _profile(table: ProfileTable, printed: npt.NDArray[np.int64], called: Called | None) -> pd.DataFrame:
    frame = table.frame()
    by_address = pd.Series(printed, index=table.symbols.address)
    return frame.assign(
        role=_roles(frame["function"], called),
        printed=by_address.reindex(frame["address"]).to_numpy(dtype=np.float64),
    )


def _roles(functions: pd.Series[Any], called: Called | None) -> npt.NDArray[Any]:
    return (roles_of(functions) if called is None else called.roles_of(functions)).to_numpy()


def _misread(table: ProfileTable, ran: Sequence[dict[str, Any]], sampled: str, called: Called) -> list[dict[str, Any]]:
    """Rows of the table `misread`; `ran`: those of `handlers`."""
    names = [name for row in ran for name in (row["function"] or "").split()] if sampled in ENTRIES_SAMPLED else []
    handlers = sorted({int(i) for name in names for i in table.symbols.find(name)})
    return misread(table, handlers, called.idle_functions)


def _ticks_in(table: ProfileTable, name: str) -> float:
    places = table.symbols.find(name)
    return float(table.ticks[places].sum()) if places.size else float("nan")


def _shared(counts: npt.NDArray[np.int64], step: int, symbols: SymbolMap) -> float:
    """Ticks in counters that hold bytes of several functions."""
    start = np.uint64(symbols.stext) + np.arange(counts.size, dtype=np.uint64) * np.uint64(step)
    return float(counts[symbols.at(start) != symbols.at(start + np.uint64(step - 1))].sum())


def _regroup(table: ProfileTable) -> list[dict[str, Any]]:
    """Fold a fine buffer to every coarser step: what profile=N would have counted of the same samples.

    Counters nest (index = offset >> N), so this is exact but for the last counter, which is left out.
    """
    rows = []
    fine = table.buckets[:-1]
    ticks = float(fine.sum())
    for n in range(2, 8):
        factor = (1 << n) // table.step
        if factor < 1:
            continue
        counts = np.add.reduceat(fine, np.arange(0, fine.size, factor))
        share = _shared(counts, 1 << n, table.symbols) / ticks if ticks else np.nan
        rows.append({"n": n, "step": 1 << n, "neighbour_share": share})
    return rows


def _truth(
    oracle: Oracle, symbols: SymbolMap, region: int, buffer: ProfileTable | None, called: Called | None
) -> pd.DataFrame:
    """Exact counts beside the buffer's, by function, of one window; OracleAbsent with what its self-check says."""
    table = kernel_truth(oracle, symbols, region, kind=WINDOW)
    sampled = bool(table["samples"].notna().all())
    counted = pd.Series(dtype="float64")
    if buffer is not None:
        counted = pd.Series(buffer.ticks, index=buffer.symbols.name).groupby(level=0).sum()
        counted = counted[counted > 0]
    table = table.reindex(table.index.union(counted.index)).fillna(0.0)
    if not sampled:
        table["samples"] = np.nan
    table["ticks"] = np.nan if buffer is None else counted.reindex(table.index).fillna(0.0)
    table = table.rename_axis("function").reset_index()
    return table.assign(role=_roles(table["function"], called))


def _convergence(truth: pd.DataFrame, seed: int) -> list[pd.DataFrame]:
    return [
        convergence(truth["instructions"], truth[column], _SIZES, seed).assign(source=source)
        for column, source in (("samples", "ideal sampler"), ("ticks", "/proc/profile"))
        if len(truth) and truth[column].notna().all()
    ]
