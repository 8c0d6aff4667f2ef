# SPDX-License-Identifier: MIT
"""Traces against the oracle: calls of the locks' functions between two marks, lock by lock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from harness.measure.raw import Trial, read_tsv
from harness.oracle.reader import LAP, Oracle, OracleAbsent

from .known import event_counts
from .locks.events import ALL, MUTEX, READ, RWSEM_READ, RWSEM_WRITE, SPIN, TYPES, VALIDATE, WRITE
from .run import Run

#: Functions that begin and end acquisitions, by the beginning of their names.
BEGINS = {
    "_raw_spin_lock": SPIN, "_raw_spin_trylock": SPIN, "_raw_read_lock": READ, "_raw_read_trylock": READ,
    "_raw_write_lock": WRITE, "_raw_write_trylock": WRITE, "mutex_lock": MUTEX, "mutex_trylock": MUTEX,
    "down_read": RWSEM_READ, "down_write": RWSEM_WRITE,
}  # fmt: skip
ENDS = {
    "_raw_spin_unlock": SPIN, "_raw_read_unlock": READ, "_raw_write_unlock": WRITE, "mutex_unlock": MUTEX,
    "up_read": RWSEM_READ, "up_write": RWSEM_WRITE,
}  # fmt: skip
DOWNGRADE = "downgrade_write"
_EXAMPLES = 10


def oracle_rows(run: Run) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """Rows of `oracle`, one per type and what was counted (begins, ends), and of `oracle_locks`. One row with the
    reason where the log has gaps or no oracle was there.
    """
    try:
        oracle = Oracle(run.trial.path)
        oracle.need("locks")
        report = oracle.report.locks
        if report is not None and report.untold:
            raise OracleAbsent(f"the oracle could not tell {report.untold} calls by lock")
        calls = oracle.locks(run.symbols, kind=LAP)
        laps = _laps(run.trial)
        if oracle.report.marks.laps != len(laps):
            raise OracleAbsent("not every lap that the oracle saw has left its times")
    except OracleAbsent as error:
        return [{"reason": error.message}], pd.DataFrame()
    status = run.status
    if status.lost[0] or status.arm not in (ALL, VALIDATE):
        return [{"reason": "the log is not whole"}], pd.DataFrame()
    parts = []
    for number, (begin, end, path) in enumerate(laps):
        if path.is_relative_to(run.folder) and status.start <= begin and end <= status.stop:
            parts.append(_compared(run, _by_role(calls[calls["region"] == number]), begin, end))
    if not parts:
        return [{"reason": "no lap lies inside the trace"}], pd.DataFrame()
    whole = pd.concat(parts).groupby(["role", "lock", "type"], as_index=False).sum()
    whole = whole[(whole["calls"] > 0) | (whole["traced"] > 0)]
    whole["difference"] = (whole["calls"] - whole["traced"]).abs()
    rows = [
        {"role": role, "type": TYPES[int(str(kind))], "locks": len(locks), "calls": locks["calls"].sum()}
        | {"traced": locks["traced"].sum(), "differing": int((locks["difference"] > 0).sum())}
        | {"difference": locks["difference"].sum(), "reason": None}
        for (role, kind), locks in whole.groupby(["role", "type"])
    ]
    off = whole[whole["difference"] > 0].head(_EXAMPLES)
    return rows, off.assign(
        **{"class": run.class_names(off["lock"])},
        lock=[f"{address:#x}" for address in off["lock"].tolist()],
        type=[TYPES[kind] for kind in off["type"].tolist()],
    )


def _laps(trial: Trial) -> list[tuple[int, int, Path]]:
    """Begin and end (TSC cycles) of all laps of a trial, in the order in which the oracle numbers them."""
    laps: list[tuple[int, int, Path]] = []
    for workload in trial.workloads:
        for path in (trial.path / workload).rglob("lap*.tsv"):
            table = read_tsv(path, {"begin": "int64", "end": "int64"})
            spans = zip(table["begin"].tolist(), table["end"].tolist(), strict=True)
            laps += [(begin, end, path) for begin, end in spans]
    return sorted(laps)


def _compared(run: Run, exact: pd.DataFrame, begin: int, end: int) -> pd.DataFrame:
    """Calls and events of one lap, by role, lock and type."""
    inside = (run.log["time"] >= begin) & (run.log["time"] <= end)
    counts = event_counts(run.log[inside])
    begun = (counts["attempts"] + counts["tried"] + counts["failed"]).rename("traced")
    ended = counts["released"].rename("traced")
    traced = pd.concat([begun.reset_index().assign(role="begins"), ended.reset_index().assign(role="ends")])
    told = exact[["role", "type"]].drop_duplicates()
    both = exact.merge(traced.astype({"type": "int64"}), on=["role", "lock", "type"], how="outer").fillna(0)
    # Functions that the oracle was not asked for tell nothing.
    return both.merge(told, on=["role", "type"])


def _by_role(calls: pd.DataFrame) -> pd.DataFrame:
    """Calls by role, lock and type: role object, lock uint64, type int64, calls int64."""
    parts = []
    for role, names in (("begins", BEGINS), ("ends", ENDS)):
        for name, kind in names.items():
            of_kind = calls[calls["target"].str.startswith(name)]
            parts.append(of_kind[["lock", "count"]].assign(role=role, type=kind))
    # It lets go of the writer and gets a reader, as the trace has it.
    both = calls[calls["target"] == DOWNGRADE]
    parts.append(both[["lock", "count"]].assign(role="ends", type=RWSEM_WRITE))
    parts.append(both[["lock", "count"]].assign(role="begins", type=RWSEM_READ))
    whole = pd.concat(parts).rename(columns={"count": "calls"})
    summed: pd.DataFrame = whole.groupby(["role", "lock", "type"], as_index=False)[["calls"]].sum()
    return summed.astype({"type": "int64"})
