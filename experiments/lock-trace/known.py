"""Traces against what is known without them: the module's own counts, and the oracle's of each lap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.errors import RunError
from harness.oracle.reader import LAP, Oracle, OracleAbsent

from .decoding import Run, every
from .locks.events import (
    ABANDONED,
    ACQUIRED,
    ALL,
    ATTEMPT,
    CONFLICT,
    FAILED,
    INIT,
    MUTEX,
    ORPHAN,
    PAPER,
    PER_LOCK,
    READ,
    RELEASE,
    RWSEM_READ,
    RWSEM_WRITE,
    SPIN,
    TRACEPOINT,
    TRY,
    TYPES,
    VALIDATE,
    WRITE,
    Events,
)

MODULE_TYPES = {
    "spin": SPIN, "read": READ, "write": WRITE, "mutex": MUTEX, "rwsem_read": RWSEM_READ, "rwsem_write": RWSEM_WRITE,
}  # fmt: skip
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


def event_counts(events: Events) -> pd.DataFrame:
    """By lock and type (index): attempts (without trylocks), acquired, tried, released, failed, abandoned, inits,
    orphans, conflicts (of attempts and of failed trylocks), all int64.
    """
    kind, flags = events["kind"], events["flags"]
    tried = (kind == ACQUIRED) & (flags & TRY != 0)
    columns = {
        "attempts": kind == ATTEMPT,
        "acquired": kind == ACQUIRED,
        "tried": tried,
        "released": kind == RELEASE,
        "failed": kind == FAILED,
        "abandoned": kind == ABANDONED,
        "inits": kind == INIT,
        "orphans": (kind == RELEASE) & (flags & ORPHAN != 0),
        "conflicts": ((kind == ATTEMPT) | (kind == FAILED)) & (flags & CONFLICT != 0),
    }
    table = pd.DataFrame({"lock": events["lock"], "type": events["type"], **columns})
    return table.groupby(["lock", "type"]).sum().astype("int64")


# -- the module --------------------------------------------------------------------------------------------------


def _read_known(path: Path) -> pd.DataFrame:
    """A row per lock and type, in the module's own words, with `kind` as the trace numbers types."""
    table = pd.read_csv(path, sep="\t", dtype={"address": str})
    try:
        lock = [int(text, 16) for text in table["address"]]
        kind = [MODULE_TYPES[word] for word in table["type"]]
    except (KeyError, ValueError) as error:
        raise RunError(f"has {error} where a lock should be", where=str(path)) from error
    return table.assign(lock=np.array(lock, dtype=np.uint64), kind=kind)


def module_rows(run: Run) -> list[dict[str, Any]]:
    """A row per lock, type and quantity that the module counted: low and high (what it must be between), traced,
    difference (how far outside). One row with the reason where events that are needed were lost.

    ALL and VALIDATE are counted by their events; PAPER and PER_LOCK by the kernel's table of sites and, of PAPER, the
    events that it kept: what these do not tell is left out.
    """
    files = sorted(run.folder.glob("known*.tsv"))
    if not files or run.status.arm == TRACEPOINT:
        return []
    if run.gaps and run.status.arm != PER_LOCK:
        return [run.key | {"reason": run.gaps}]
    known = _sum_known(files)
    before = run.folder / "begin/known.tsv"
    if before.exists():
        known = _begun_before(known, _sum_known([before]))
    counted = _counted(run)
    rows = []
    for row in known.to_dict("records"):
        mine = counted.loc[(row["lock"], row["kind"])] if (row["lock"], row["kind"]) in counted.index else None
        for name in counted.columns:
            low, high = row[name], row["conflicts_most"] if name == "conflicts" else row[name]
            traced = 0 if mine is None else int(mine[name])
            off = max(low - traced, traced - high, 0)
            about = {"name": row["name"], "type": TYPES[row["kind"]], "quantity": name}
            rows.append(run.key | about | {"low": low, "high": high, "traced": traced, "difference": off})
    return rows


def _sum_known(paths: list[Path]) -> pd.DataFrame:
    known = pd.concat([_read_known(path) for path in paths], ignore_index=True)
    counts = [name for name in known.columns if known[name].dtype.kind == "i" and name not in ("lock", "kind")]
    return known.groupby(["lock", "kind"], as_index=False).agg({"name": "first"} | dict.fromkeys(counts, "sum"))


def _begun_before(known: pd.DataFrame, before: pd.DataFrame) -> pd.DataFrame:
    """What was begun before the trace is none of its acquisitions, and its release one of nothing known."""
    both = known.merge(before, on=["lock", "kind"], how="left", suffixes=("", "_before")).fillna(0)
    begun = both["attempts_before"] - both["abandoned_before"]
    waited = begun - (both["acquired_before"] - both["tried_before"])
    held = both["acquired_before"] - both["released_before"]
    acquired, orphans = both["acquired"] - waited, both["orphans"] + waited + held
    return known.assign(acquired=acquired.astype("int64"), orphans=orphans.astype("int64"))


def _counted(run: Run) -> pd.DataFrame:
    if run.status.arm == VALIDATE:
        return event_counts(run.log)
    if run.status.arm == ALL:
        return event_counts(run.log).drop(columns="orphans")  # it does not tell them
    sites = run.sites.groupby(["lock", "type"])[["acquisitions", "failed", "abandoned"]].sum()
    sites = sites.rename(columns={"acquisitions": "acquired"})
    if run.status.arm == PAPER:
        kept = event_counts(run.log)
        return sites.add(kept[["acquired", "failed", "abandoned"]], fill_value=0).astype("int64")
    return sites


# -- the oracle --------------------------------------------------------------------------------------------------


def laps(run: Run) -> list[tuple[int, int, int]]:
    """Laps of a workload that lie inside its trace: the number that the oracle gives it, begin and end, TSC cycles."""
    found: list[tuple[int, int, Path]] = []
    for other in every([run.trial]):
        for path in other.folder.rglob("lap*.tsv"):
            table = pd.read_csv(path, sep="\t")
            spans = zip(table["begin"].tolist(), table["end"].tolist(), strict=True)
            found += [(begin, end, path) for begin, end in spans]
    found.sort()
    status = run.status
    return [
        (number, begin, end)
        for number, (begin, end, path) in enumerate(found)
        if path.is_relative_to(run.folder) and status.start <= begin and end <= status.stop
    ]


def oracle_rows(run: Run) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """A row per type and what was counted (begins, ends): locks, calls, traced, differing (locks), difference (sum of
    the differences of each lock); and the first locks that differ. One row with the reason where the log has gaps or
    no oracle was there.
    """
    try:
        oracle = Oracle(run.trial.path)
        oracle.need("locks")
        report = oracle.report.locks
        if report is not None and report.untold:
            raise OracleAbsent(f"the oracle could not tell {report.untold} calls by lock")
        calls = oracle.locks(run.symbols, kind=LAP)
        if oracle.report.marks.laps != _laps_written(run):
            raise OracleAbsent("not every lap that the oracle saw has left its times")
    except OracleAbsent as error:
        return [run.key | {"reason": error.message}], pd.DataFrame()
    if run.status.lost[0] or run.status.arm not in (ALL, VALIDATE):
        return [run.key | {"reason": "the log is not whole"}], pd.DataFrame()
    parts = []
    for number, begin, end in laps(run):
        exact = _by_role(calls[calls["region"] == number])
        inside = (run.log["time"] >= begin) & (run.log["time"] <= end)
        counts = event_counts(run.log[inside])
        begun = (counts["attempts"] + counts["tried"] + counts["failed"]).rename("traced")
        mine = pd.concat(
            [
                begun.reset_index().assign(role="begins"),
                counts["released"].rename("traced").reset_index().assign(role="ends"),
            ]
        )
        told = exact[["role", "type"]].drop_duplicates()
        both = exact.merge(mine.astype({"type": "int64"}), on=["role", "lock", "type"], how="outer").fillna(0)
        # Functions that the oracle was not asked for tell nothing.
        parts.append(both.merge(told, on=["role", "type"]))
    if not parts:
        return [run.key | {"reason": "no lap lies inside the trace"}], pd.DataFrame()
    whole = pd.concat(parts).groupby(["role", "lock", "type"], as_index=False).sum()
    whole = whole[(whole["calls"] > 0) | (whole["traced"] > 0)]
    whole["difference"] = (whole["calls"] - whole["traced"]).abs()
    rows = [
        run.key
        | {"role": role, "type": TYPES[kind], "locks": len(mine), "calls": mine["calls"].sum()}
        | {"traced": mine["traced"].sum(), "differing": int((mine["difference"] > 0).sum())}
        | {"difference": mine["difference"].sum(), "reason": None}
        for (role, kind), mine in whole.groupby(["role", "type"])
    ]
    off = whole[whole["difference"] > 0].head(_EXAMPLES)
    names = [run.classes.get(lock, "(unknown)") for lock in off["lock"].tolist()]
    return rows, off.assign(**{"class": names}, **run.key)


def _laps_written(run: Run) -> int:
    return sum(
        len(pd.read_csv(path, sep="\t")) for other in every([run.trial]) for path in other.folder.rglob("lap*.tsv")
    )


def _by_role(calls: pd.DataFrame) -> pd.DataFrame:
    """Calls by role, lock and type: role object, lock uint64, type int64, calls int64."""
    parts = []
    for role, names in (("begins", BEGINS), ("ends", ENDS)):
        for name, kind in names.items():
            mine = calls[calls["target"].str.startswith(name)]
            parts.append(mine[["lock", "count"]].assign(role=role, type=kind))
    # It lets go of the writer and gets a reader, as the trace has it.
    both = calls[calls["target"] == DOWNGRADE]
    parts.append(both[["lock", "count"]].assign(role="ends", type=RWSEM_WRITE))
    parts.append(both[["lock", "count"]].assign(role="begins", type=RWSEM_READ))
    whole = pd.concat(parts).rename(columns={"count": "calls"})
    return whole.groupby(["role", "lock", "type"], as_index=False)["calls"].sum().astype({"type": "int64"})
