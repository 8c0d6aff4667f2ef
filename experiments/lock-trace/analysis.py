"""Anisimov (2013): which waits for locks matter, filtered while they are traced.

Pure functions of a result set's raw folders: `tables` decodes (decoding.py; known.py compares with what is known
without the trace), `metrics` gives one figure per trial and name, `summary` and `figures` show them (figures.py
draws), `timeline` is for `./inv export`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from harness.errors import KreproError

from .decoding import (
    Run,
    Trial,
    contention,
    every,
    fill,
    filters,
    pairs,
    run_row,
    site_differences,
    useful_shares,
)
from .figures import draw
from .known import module_rows, oracle_rows
from .locks.blocks import block_slices, longest, with_blocks
from .locks.classes import call_sites
from .locks.lockstat import read_lock_stat

KEY = ["arm", "trial", "workload"]
#: What is asked of each workload's run: unit, and why it may be absent.
UNITS = {
    "unbalanced": "events",
    "wrong_sums": "events",
    "nested": "events",
    "untracked": "events",
    "lost": "events",
    "useful": "1",
    "slowdown": "1",
    "full_s": "s",
    "buffer_ratio": "1",
    "sites_different": "call sites",
}
ABSENT = {
    "full_s": "no ring was full",
    "buffer_ratio": "no ring was full, in this arm or in that without a filter",
    "slowdown": "the workload did not run untraced on this clock",
    "useful": "no event",
}
#: How the names of the module's own locks begin.
MODULE_LOCKS = "known_"
#: The workload whose rings nobody reads.
BUFFER, PAIR = "buffer", "pair"
#: Kinds of locks that `pair` times; the first is the paper's.
PAIR_KINDS = ("spin", "spin_irqsave", "read", "write", "mutex", "rwsem_read", "rwsem_write")


# -- tables ------------------------------------------------------------------------------------------------------


def tables(trials: Sequence[Trial]) -> dict[str, pd.DataFrame]:
    """Decode every workload of every trial.

    runs         one row per arm, trial, workload: time, the kernel's counts, whether all sums hold
    contention   per class of lock, type and call site: counts, waits and holds in ns
    useful       per lock: acquisitions, and how many of them the per-lock filter kept
    filters      per filter of a validation: events that are equal, missing, extra, different
    differences  the first of them, in words
    pair         what a pair of acquire and release costs; quantiles has the distribution
    fill         how full the rings were over time
    known        per lock and quantity that the module counted: what the trace has
    oracle       per type: the oracle's calls of each lap, and the trace's; oracle_locks has the first locks that differ
    block        the acquisitions of one block per workload, that with the longest chain of waiters (first trial)
    lock_stat    the kernel's own statistics, where it has them
    """
    parts: dict[str, list[pd.DataFrame]] = {name: [] for name in _LAYOUT}
    first: dict[str, int] = {}
    for run in every(trials):
        first.setdefault(run.trial.arm, run.trial.repetition)
        try:
            _decode(run, parts, shown=first[run.trial.arm] == run.trial.repetition)
        except KreproError as error:
            # Without the host's folders: what a table says must not depend on where it was made.
            problem = str(error).replace(f"{run.trial.path.parent.parent}/", "")
            row = run.key | {"trace": run.trace, "clock": run.trial.clock, "problem": problem}
            parts["runs"].append(pd.DataFrame([row]))
    return {name: _joined(made, _LAYOUT[name]) for name, made in parts.items()}


def _decode(run: Run, parts: dict[str, list[pd.DataFrame]], *, shown: bool) -> None:
    row = run_row(run) | {"problem": None}
    made: dict[str, pd.DataFrame] = {}
    if (run.folder / "lock_stat.txt").exists():
        made["lock_stat"] = read_lock_stat(run.folder / "lock_stat.txt").assign(**run.key)
    if (run.folder / "pairs.tsv").exists():
        made["pair"], made["quantiles"] = pairs(run)
    if run.trace != "off":
        made |= {"contention": contention(run), "fill": fill(run), "known": pd.DataFrame(module_rows(run))}
        if run.trace in ("per-lock", "validate"):
            made["useful"] = useful_shares(run)
        if run.trace == "validate":
            row |= site_differences(run)
            rows, examples = filters(run)
            made |= {"filters": pd.DataFrame(rows), "differences": pd.concat(examples)}
        if run.trace in ("all", "validate"):
            rows, made["oracle_locks"] = oracle_rows(run)
            made["oracle"] = pd.DataFrame(rows)
            if shown:
                made["block"] = _block(run)
    made["runs"] = pd.DataFrame([row])
    for name, frame in made.items():
        if len(frame):
            parts[name].append(frame)


def _block(run: Run) -> pd.DataFrame:
    """The acquisitions of one block, times in cycles, with the lock's class and the call site."""
    block = longest(with_blocks(run.found))
    names = [run.classes.get(lock, "(unknown)") for lock in block["lock"].tolist()]
    about = {"class": names, "caller": call_sites(block["site"], run.symbols), "tsc_khz": run.status.tsc_khz}
    return block.assign(**about, **run.key)


#: Columns that a table has even when no trial gives it a row.
_LAYOUT: dict[str, list[str]] = {
    "runs": [
        *(*KEY, "trace", "clock", "problem", "seconds", "events", "kept", "lost", "useful"),
        *("full_s", "first_loss_s", "ring_events"),
    ],
    "contention": [
        *(*KEY, "class", "type", "caller", "locks", "acquisitions", "contended", "failed", "abandoned", "depth_max"),
        *("wait_total", "wait_max", "wait_mean", "holds", "hold_total", "hold_max", "hold_mean"),
        *("contended_waits", "contended_wait_total", "contended_wait_max"),
    ],
    "useful": [*KEY, "class", "acquisitions", "kept"],
    "filters": [*KEY, "filter", "log", "selected", "equal", "missing", "extra", "different", "reason"],
    "differences": [*KEY, "filter", "what", "event"],
    "pair": [*KEY, "kind", "mean_first", "mean", "median", "net", "pairs"],
    "quantiles": [*KEY, "kind", "quantile", "cycles"],
    "fill": [*KEY, "seconds", "events", "written", "lost", "in_ring"],
    "known": [*KEY, "name", "type", "quantity", "low", "high", "traced", "difference", "reason"],
    "oracle": [*KEY, "role", "type", "locks", "calls", "traced", "differing", "difference", "reason"],
    "oracle_locks": [*KEY, "class", "role", "lock", "type", "calls", "traced", "difference"],
    "block": [*KEY, "class", "caller", "begin", "acquired", "end", "contended", "depth", "pid", "context", "tsc_khz"],
    "lock_stat": [*KEY, "class", "mode", "contentions", "acquisitions", "wait_total_us", "hold_total_us"],
}


def _joined(parts: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    # A column that a part has no value in must not decide the type.
    told = [part.dropna(axis=1, how="all") for part in parts]
    whole = pd.concat(told, ignore_index=True) if told else pd.DataFrame()
    missing = {name: pd.Series(np.nan, index=whole.index) for name in columns if name not in whole}
    return whole.assign(**missing)[[*columns, *(name for name in whole.columns if name not in columns)]]


# -- metrics -----------------------------------------------------------------------------------------------------


def metrics(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Long form: arm, trial, metric, value, unit, reason. A metric of one workload is called NAME.WORKLOAD, of a filter
    NAME.FILTER.WORKLOAD; without a workload it is the sum over all of the trial, of `useful` and `slowdown` the median.
    """
    rows = _Rows()
    found = _compared(tables["runs"])
    for row in found.to_dict("records"):
        _run_metrics(rows, row)
    for (arm, trial), mine in found.groupby(["arm", "trial"]):
        _trial_metrics(rows, str(arm), int(trial), mine)
    _filter_metrics(rows, tables["filters"])
    _pair_metrics(rows, tables["pair"], found)
    _known_metrics(rows, tables)
    _lock_stat_metrics(rows, tables)
    return pd.DataFrame(rows.rows, columns=["arm", "trial", "metric", "value", "unit", "reason"])


class _Rows:
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, arm: str, trial: int, metric: str, value: float, unit: str, reason: object = None) -> None:
        """A value that is NaN needs the reason."""
        absent = (reason if isinstance(reason, str) else "could not be measured") if pd.isna(value) else None
        key = {"arm": arm, "trial": trial, "metric": metric}
        self.rows.append(key | {"value": value, "unit": unit, "reason": absent})


def _compared(found: pd.DataFrame) -> pd.DataFrame:
    """`runs` with what follows from several arms: trials of one number ran with the same seed."""
    on = ["clock", "trial", "workload"]
    bare = found[(found["trace"] == "off") & found["problem"].isna()][[*on, "seconds"]]
    plain = found[(found["trace"] == "all") & found["problem"].isna()][[*on, "full_s"]]
    found = found.merge(bare.rename(columns={"seconds": "bare_s"}).drop_duplicates(on), how="left", on=on)
    found = found.merge(plain.rename(columns={"full_s": "plain_full_s"}).drop_duplicates(on), how="left", on=on)
    traced = found["trace"] != "off"
    return found.assign(
        slowdown=(found["seconds"] / found["bare_s"]).where(traced),
        buffer_ratio=(found["full_s"] / found["plain_full_s"]).where(traced & (found["workload"] == BUFFER)),
    )


def _run_metrics(rows: _Rows, row: dict[str, Any]) -> None:
    trace, workload = row["trace"], row["workload"]
    if trace == "off":
        return
    for name, unit in UNITS.items():
        if name in ("full_s", "buffer_ratio") and workload != BUFFER:
            continue
        if name == "useful" and trace not in ("paper", "per-lock", "validate"):
            continue
        if name == "sites_different" and trace != "validate":
            continue
        if name == "slowdown" and trace == "validate" and pd.isna(row.get("bare_s")):
            continue
        value = row.get(name, np.nan)
        reason = row["problem"] if isinstance(row["problem"], str) else row.get(f"{name}_reason")
        if name == "sites_different":
            reason = row["problem"] if isinstance(row["problem"], str) else row.get("sites_reason")
        if not isinstance(reason, str):
            reason = ABSENT.get(name)
        rows.add(row["arm"], row["trial"], f"{name}.{workload}", value, unit, reason)


def _trial_metrics(rows: _Rows, arm: str, trial: int, mine: pd.DataFrame) -> None:
    if set(mine["trace"]) == {"off"}:
        return
    problems = mine["problem"].dropna()
    reason = str(problems.iloc[0]) if len(problems) else None
    for name in ("unbalanced", "wrong_sums", "nested", "untracked", "lost"):
        # The workload that fills its rings on purpose loses events on purpose.
        chosen = mine[mine["workload"] != BUFFER] if name == "lost" else mine
        value = chosen[name].sum() if reason is None and name in chosen else np.nan
        rows.add(arm, trial, name, float(value), UNITS[name], reason)
    for name in ("useful", "slowdown"):
        if name in mine and mine[name].notna().any():
            rows.add(arm, trial, name, float(mine[name].median()), "1")
    if "sites_different" in mine and mine["sites_different"].notna().any():
        rows.add(arm, trial, "sites_different", float(mine["sites_different"].sum()), UNITS["sites_different"])


def _filter_metrics(rows: _Rows, found: pd.DataFrame) -> None:
    names = ("missing", "extra", "different", "selected")
    for row in found.to_dict("records"):
        for name in names:
            metric = f"{name}.{row['filter']}.{row['workload']}"
            rows.add(row["arm"], row["trial"], metric, row[name], "events", row["reason"])
    for (arm, trial, which), mine in found.groupby(["arm", "trial", "filter"]):
        reasons = mine["reason"].dropna()
        for name in names:
            value = float(mine[name].sum()) if reasons.empty else np.nan
            reason = None if reasons.empty else f"{mine.loc[reasons.index[0], 'workload']}: {reasons.iloc[0]}"
            rows.add(str(arm), int(trial), f"{name}.{which}", value, "events", reason)


def _pair_metrics(rows: _Rows, found: pd.DataFrame, runs: pd.DataFrame) -> None:
    """Cycles of a pair (under the virtual clock: instructions), and how much more it is than without a trace, or than
    with all events traced.
    """
    clock = runs.drop_duplicates("arm").set_index("arm")[["clock", "trace"]]
    table = found.merge(clock, left_on="arm", right_index=True)
    keys = ["clock", "trial", "kind"]
    for base in ("off", "all"):
        other = table[table["trace"] == base].drop_duplicates(keys)[[*keys, "net", "mean_first"]]
        names = {"net": f"net_{base}", "mean_first": f"mean_first_{base}"}
        table = table.merge(other.rename(columns=names), how="left", on=keys)
    for row in table.to_dict("records"):
        unit = "instructions" if row["clock"] == "virtual" else "cycles"
        for name, metric in (("mean_first", "pair_mean100"), ("mean", "pair_mean"), ("median", "pair_median")):
            rows.add(row["arm"], row["trial"], f"{metric}.{row['kind']}", row[name], unit)
        if row["kind"] == "none":
            continue
        rows.add(row["arm"], row["trial"], f"pair.{row['kind']}", row["net"], unit)
        for base in ("off", "all"):
            if row["trace"] not in (base, "off"):
                value = row["net"] / row[f"net_{base}"]
                reason = f"no pair was timed by an arm with trace {base} on this clock"
                rows.add(row["arm"], row["trial"], f"pair_of_{base}.{row['kind']}", value, "1", reason)


def _known_metrics(rows: _Rows, tables: dict[str, pd.DataFrame]) -> None:
    known = tables["known"]
    for (arm, trial, workload), mine in known.groupby(KEY):
        reason = mine["reason"].dropna()
        value = np.nan if len(reason) else float(mine["difference"].sum())
        why = reason.iloc[0] if len(reason) else None
        rows.add(arm, trial, f"known_difference.{workload}", value, "events", why)
    for (arm, trial), mine in known[known["reason"].isna()].groupby(["arm", "trial"]):
        rows.add(arm, trial, "known_difference", float(mine["difference"].sum()), "events")
        rows.add(arm, trial, "known_counts", len(mine), "counts")
    exact = tables["oracle"]
    for (arm, trial, workload), mine in exact.groupby(KEY):
        reason = mine["reason"].dropna()
        values = (np.nan, np.nan) if len(reason) else (mine["difference"].sum(), mine["calls"].sum())
        why = reason.iloc[0] if len(reason) else None
        rows.add(arm, trial, f"oracle_difference.{workload}", float(values[0]), "calls", why)
        rows.add(arm, trial, f"oracle_calls.{workload}", float(values[1]), "calls", why)
    for (arm, trial), mine in exact.groupby(["arm", "trial"]):
        there = mine[mine["reason"].isna()]
        why = None if len(there) else mine["reason"].iloc[0]
        for name in ("difference", "calls"):
            value = float(there[name].sum()) if len(there) else np.nan
            rows.add(arm, trial, f"oracle_{name}", value, "calls", why)


def _lock_stat_metrics(rows: _Rows, tables: dict[str, pd.DataFrame]) -> None:
    """Contentions of the module's locks: LOCK_STAT's, and how many more they are than the trace's."""
    stat, traced = tables["lock_stat"], tables["contention"]
    for (arm, trial, workload), mine in stat[stat["class"].astype(str).str.contains(MODULE_LOCKS)].groupby(KEY):
        same = (traced["arm"] == arm) & (traced["trial"] == trial) & (traced["workload"] == workload)
        ours = traced[same & traced["class"].astype(str).str.startswith(MODULE_LOCKS)]
        reason = None if same.any() else "no trace ran beside"
        theirs, contended = float(mine["contentions"].sum()), float(ours["contended"].sum())
        rows.add(arm, trial, f"lock_stat_contentions.{workload}", theirs, "contentions")
        value = theirs - contended if reason is None else np.nan
        rows.add(arm, trial, f"lock_stat_difference.{workload}", value, "contentions", reason)


# -- what is shown -------------------------------------------------------------------------------------------------

_TOP = 12


def summary(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """What the terminal shows."""
    shown: dict[str, pd.DataFrame] = {}
    found = _compared(tables["runs"])
    traced = found[found["trace"] != "off"]
    if len(traced):
        names = [name for name in ("events", "kept", "lost", "unbalanced", "useful", "slowdown") if name in traced]
        by = traced.groupby("arm", sort=False)[names].agg(
            {name: "median" if name in ("useful", "slowdown") else "sum" for name in names}
        )
        shown["Traces, sums over workloads; useful share and slowdown are medians"] = _short(by.reset_index())
    pair = tables["pair"]
    if len(pair):
        wide = pair.pivot_table(index="kind", columns="arm", values="net", aggfunc="median", sort=False)
        title = "A pair of acquire and release, cycles (virtual clock: instructions), medians"
        shown[title] = _short(wide.reset_index())
    kept = tables["filters"]
    if len(kept):
        by = kept.groupby(["arm", "filter"], sort=False)[["log", "selected", "equal", "missing", "extra", "different"]]
        shown["What each filter kept, against the full log"] = by.sum().reset_index()
    for arm, mine in tables["contention"].groupby("arm", sort=False):
        if str(arm).startswith(("per-lock", "validate")):
            shown[f"Lock contention, arm {arm}"] = contention_table(mine)
    return shown


def contention_table(found: pd.DataFrame, top: int = _TOP) -> pd.DataFrame:
    """As `perf lock contention` prints it: contended, total wait, max wait, avg wait, type, caller; and the class of
    lock. The rows with the longest waits, over all trials and workloads.
    """
    how = {"contended_waits": "sum", "contended_wait_total": "sum", "contended_wait_max": "max"}
    mine = found[found["contended_waits"] > 0].groupby(["type", "caller", "class"], as_index=False).agg(how)
    mine = mine.sort_values(["contended_wait_total", "contended_waits"], ascending=False, kind="stable").head(top)
    mean = mine["contended_wait_total"] / mine["contended_waits"]
    return pd.DataFrame(
        {
            "contended": mine["contended_waits"].astype("int64"),
            "total wait": [_time(value) for value in mine["contended_wait_total"]],
            "max wait": [_time(value) for value in mine["contended_wait_max"]],
            "avg wait": [_time(value) for value in mean],
            "type": mine["type"],
            "caller": mine["caller"],
            "lock": mine["class"],
        }
    ).reset_index(drop=True)


def _time(ns: float) -> str:
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= unit:
            return f"{ns / unit:.2f} {name}"
    return f"{ns:.0f} ns"


def _short(table: pd.DataFrame) -> pd.DataFrame:
    """Three digits of what is no whole number, and no column without a value."""
    digits = {
        name: [np.nan if pd.isna(x) else round(x) if abs(x) >= 1000 else float(f"{x:.3g}") for x in table[name]]
        for name in table.columns
        if table[name].dtype.kind == "f"
    }
    return table.assign(**digits).dropna(axis=1, how="all")


def figures(tables: dict[str, pd.DataFrame]) -> dict[str, Figure]:
    """figures.py draws them."""
    return draw(tables | {"runs": _compared(tables["runs"])})


def timeline(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """One block per arm and workload, that with the longest chain of waiters: a track per thread, waits and holds."""
    parts = []
    for (arm, workload), block in tables["block"].groupby(["arm", "workload"], sort=False):
        frame = block.reset_index(drop=True)
        names = frame["class"] + " at " + frame["caller"]
        parts.append(block_slices(frame, f"{arm} {workload}", 1000.0 * float(frame["tsc_khz"].iloc[0]), names))
    return pd.concat(parts, ignore_index=True) if parts else block_slices(pd.DataFrame(), "", 1.0, pd.Series())
