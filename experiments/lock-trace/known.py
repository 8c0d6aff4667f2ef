# SPDX-License-Identifier: MIT
"""Traces against the module's own counts, and what the filters keep of the module's locks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.errors import RunError
from harness.measure.raw import read_tsv

from .locks.comparison import COUNTER, identities
from .locks.events import (
    ABANDONED,
    ACQUIRED,
    ALL,
    ATTEMPT,
    CONTENDED,
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
    STREAM_LOG,
    STREAM_PAPER,
    STREAM_PER_LOCK,
    TRACEPOINT,
    TRY,
    TYPES,
    VALIDATE,
    WAITS,
    WRITE,
    Events,
    only,
)
from .locks.replay import counter_filter
from .run import Run

MODULE_TYPES = {
    "spin": SPIN, "read": READ, "write": WRITE, "mutex": MUTEX, "rwsem_read": RWSEM_READ, "rwsem_write": RWSEM_WRITE,
}  # fmt: skip
_COUNTS = (
    *("attempts", "acquired", "tried", "released", "failed", "abandoned", "conflicts", "conflicts_most", "depth"),
    *("inits", "orphans"),
)
#: What locks were used for before the trace began, and, then, what was done with them in it.
BEFORE, IN_TRACE, AFTER = "begin/known.tsv", "known.begin.tsv", "end/known.tsv"
KNOWN = "known.tsv"


def event_counts(events: Events) -> pd.DataFrame:
    """By lock and type (index): attempts (without trylocks), acquired, tried, released, failed, abandoned, inits,
    orphans, conflicts (waits, and failed trylocks of callers), all int64.
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
        "conflicts": (kind == WAITS) | (kind == FAILED),
    }
    table = pd.DataFrame({"lock": events["lock"], "type": events["type"], **columns})
    return table.groupby(["lock", "type"]).sum().astype("int64")


def known_rows(run: Run) -> list[dict[str, Any]]:
    """Rows of `known`, one per lock, type and quantity that the module counted; one row with the reason where events
    that are needed were lost.

    ALL and VALIDATE are counted by their events; PAPER and PER_LOCK by the kernel's table of sites and, of PAPER, the
    events that it kept; of CONTENDED the waits are: what these do not tell is left out. The module calls a trylock that
    fails a conflict, too; a wait is another one.
    """
    if not run.counted or run.status.arm == TRACEPOINT:
        return []
    if run.gaps and run.status.arm != PER_LOCK:
        return [{"reason": run.gaps}]
    before, during = _module_files(run)
    known = _summed(during)
    if before is not None:
        known = _begun_before(known, _summed([before]))
    counted = _counted(run)
    known["waits"] = known["conflicts"] - known["failed"]
    known["waits_most"] = known["conflicts_most"] - known["failed"]
    rows = []
    for row in known.to_dict("records"):
        key = (row["lock"], row["kind"])
        traced_counts = counted.loc[key] if key in counted.index else None
        for name in counted.columns:
            low, high = row[name], row.get(f"{name}_most", row[name])
            traced = 0 if traced_counts is None else int(traced_counts[name])
            off = max(low - traced, traced - high, 0)
            names = {"name": row["name"], "type": TYPES[row["kind"]], "quantity": name}
            rows.append(names | {"low": low, "high": high, "traced": traced, "difference": off})
    return rows


def gap_rows(run: Run) -> list[dict[str, Any]]:
    """VALIDATE: rows of `gaps`, one per filter and for COUNTER; none where the module counted nothing."""
    if not run.counted:
        return []
    locks = _summed(_module_files(run)[1])["lock"].to_numpy(np.uint64)
    of_module = run.events[np.isin(run.events["lock"], locks)]
    log = only(run.events, STREAM_LOG)
    by_counter = log[counter_filter(log).kept & np.isin(log["lock"], locks)]
    counts = np.bincount(of_module["stream"], minlength=STREAM_PAPER + 1).tolist()
    after = _from_an_orphan_on(of_module[of_module["stream"] == STREAM_LOG])
    rows = []
    for name, stream in (
        ("per-lock", only(of_module, STREAM_PER_LOCK)), ("paper", only(of_module, STREAM_PAPER)), (COUNTER, by_counter)
    ):  # fmt: skip
        dropped = int((~after.isin(identities(stream))).sum())
        counted = {"events": counts[STREAM_LOG], "kept": len(stream)}
        rows.append({"filter": name} | counted | {"after": len(after), "after_dropped": dropped})
    return rows


def _from_an_orphan_on(log: Events) -> pd.MultiIndex:
    """Lock and number of each event from its lock's first release that nobody held it for, that release included."""
    released = log[(log["kind"] == RELEASE) & (log["flags"] & ORPHAN != 0)]
    first = pd.Series(released["order"]).groupby(released["lock"]).min()
    since = first.reindex(log["lock"]).to_numpy(dtype=np.float64)  # NaN: the lock has none, and no order reaches it
    return identities(log[log["order"] >= since])


def module_counts(run: Run) -> pd.DataFrame:
    """What the module counted while the workload ran: a row per lock and type."""
    return _summed(_module_files(run)[1])


def _module_files(run: Run) -> tuple[Path | None, list[Path]]:
    """The module's counts from before the trace, if there are, and those from within it. RunError when a file that
    belongs to another one is absent.
    """
    there = {name for name in (KNOWN, BEFORE, IN_TRACE, AFTER) if (run.folder / name).exists()}
    if not there & {BEFORE, IN_TRACE, AFTER}:
        wanted = [KNOWN]
    else:
        wanted = [BEFORE, IN_TRACE, *([KNOWN] if there & {KNOWN, AFTER} else [])]
    for name in wanted:
        if name not in there:
            raise RunError("is not there", where=str(run.folder / name))
    before = run.folder / BEFORE if BEFORE in wanted else None
    return before, [run.folder / name for name in wanted if name != BEFORE]


def _read_counts(path: Path) -> pd.DataFrame:
    """A row per lock and type, in the module's own words, with `kind` as the trace numbers types."""
    columns = {"name": "str", "address": "uint64", "type": "str"} | dict.fromkeys(_COUNTS, "int64")
    table = read_tsv(path, columns).rename(columns={"address": "lock"})
    if unknown := set(table["type"]) - set(MODULE_TYPES):
        raise RunError(f"has {min(unknown)} where a type of locks should be", where=str(path))
    return table.assign(kind=[MODULE_TYPES[word] for word in table["type"]])


def _summed(paths: list[Path]) -> pd.DataFrame:
    known = pd.concat([_read_counts(path) for path in paths], ignore_index=True)
    return known.groupby(["lock", "kind"], as_index=False).agg({"name": "first"} | dict.fromkeys(_COUNTS, "sum"))


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
    if run.status.arm == CONTENDED:
        return event_counts(run.log).rename(columns={"conflicts": "waits"})[["waits", "abandoned"]]
    sites = run.sites.groupby(["lock", "type"])[["acquisitions", "failed", "abandoned"]].sum()
    sites = sites.rename(columns={"acquisitions": "acquired"})
    if run.status.arm == PAPER:
        kept = event_counts(run.log)
        return sites.add(kept[["acquired", "failed", "abandoned"]], fill_value=0).astype("int64")
    return sites
