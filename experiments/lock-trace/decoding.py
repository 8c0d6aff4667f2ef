# SPDX-License-Identifier: MIT
"""One traced workload's raw files as rows of the declared tables; known.py compares with what is known besides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from harness.errors import RunError
from harness.measure.raw import read_lines, read_tsv

from .locks.acquisitions import by_key, failures, threads_of
from .locks.blame import blame_table
from .locks.blocks import longest, with_blocks
from .locks.classes import call_sites
from .locks.comparison import FilterComparison, compare_filters
from .locks.contended import releases_of, waited_for, waits_of
from .locks.events import CONTENDED, PAPER, PER_LOCK, STREAM_LOG, TRACEPOINT, TYPES, VALIDATE
from .locks.status import LockTraceStatus, accounting
from .run import Run

#: Counts of the kernel's table of sites, by the names they have in tables of acquisitions.
COUNTS = ("acquisitions", "contended", "failed", "abandoned")
TIMES = ("wait_total", "wait_max", "hold_total", "hold_max")
FILL_SAMPLES = 400
#: log2 of events of a CPU's ring where the launcher says nothing else.
RING_ORDER = 16
#: Columns of pairs.tsv: the kinds of locks, after the two readings alone. The first kind is the paper's.
READINGS = "none"
PAIR_KINDS = ("spin", "spin_irqsave", "read", "write", "mutex", "rwsem_read", "rwsem_write")
#: The probes of guest/traced.sh, in its order, which is that of the kernel's file.
PROBED = (
    *(f"{what}_raw_spin_lock{kind}" for kind in ("", "_irqsave", "_irq", "_bh") for what in ("attempt", "acquired")),
    *(f"release_raw_spin_unlock{kind}" for kind in ("_irqrestore", "_bh")),
)
#: The paper took the mean of so many.
FIRST = 100
QUANTILES = np.round(np.linspace(0, 1, 101), 2)


# -- what the kernel counted -------------------------------------------------------------------------------------


def trace_row(run: Run) -> dict[str, Any]:
    """The row of `traces`."""
    status = run.status
    first_loss = (status.first_loss - status.start) / (1000 * status.tsc_khz)
    return {
        "traced_s": status.seconds,
        "kept": status.kept[status.stream],
        "dropped": status.dropped[status.stream],
        "lost": sum(status.lost),
        # Without a filter everything is kept, and the tracepoints see other events.
        "useful": status.useful if status.arm in (PAPER, PER_LOCK, VALIDATE) else np.nan,
        "first_loss_s": first_loss if status.first_loss else np.nan,
        "ring_events": ring_events(status),
        **status.as_columns(),
    }


def ring_events(status: LockTraceStatus) -> int:
    """Events that the rings of all CPUs hold."""
    return status.cpus << (status.ring_order or RING_ORDER)


def sums(run: Run) -> pd.DataFrame:
    """Rows of `sums`."""
    return accounting(run.status, run.in_file)


# -- waits and holds by lock class and call site -----------------------------------------------------------------


def contention(run: Run) -> pd.DataFrame:
    """Rows of `contention`.

    ALL and VALIDATE: the events. PER_LOCK: the kernel's counts, which have every acquisition, and times of the events
    that were kept. PAPER: the kernel's counts of what was dropped, and the events that were kept. TRACEPOINT and
    CONTENDED: what had to wait; no holds, and not how often nobody waited. Nothing of an arm whose events were lost.

    wait_* is from the attempt to the acquisition, of all acquisitions; contended_wait_* of those that had to wait and
    of waits that were given up.
    """
    if run.gaps:
        return pd.DataFrame()
    key = ["lock", "type", "site"]
    told = by_key(run.acquisitions, failures(run.log), key)[[*key, *COUNTS, "holds", *TIMES, "depth_max"]]
    parts = [told]
    if run.status.arm == PER_LOCK:
        parts = [told.assign(**dict.fromkeys(COUNTS, 0)), run.sites[[*key, *COUNTS]]]
    elif run.status.arm == PAPER:
        parts.append(run.sites[[*key, *COUNTS]])
    whole = pd.concat(parts, ignore_index=True)
    whole["class"] = pd.Series(run.class_names(whole["lock"]), dtype="object")
    how = dict.fromkeys((*COUNTS, "holds", "wait_total", "hold_total"), "sum")
    how |= dict.fromkeys(("wait_max", "hold_max", "depth_max"), "max")
    table = whole.groupby(["class", "type", "site"], as_index=False).agg({"lock": "nunique", **how})
    # A site of which only counts are known: nobody met there, as far as they tell.
    table["depth_max"] = table["depth_max"].fillna(0).astype("int64")
    for name in TIMES:
        table[name] = run.status.nanoseconds(table[name].astype("float64"))
    waits = table["acquisitions"]
    if run.status.arm in (TRACEPOINT, CONTENDED):
        waits = table["contended"]
        table[["acquisitions", "hold_total", "hold_max"]] = np.nan
    table["wait_mean"] = table["wait_total"] / waits.where(waits > 0)
    table["hold_mean"] = table["hold_total"] / table["holds"].where(table["holds"] > 0)
    table = table.merge(_contended_waits(run), how="left", on=["class", "type", "site"])
    table["caller"] = call_sites(table["site"], run.symbols)
    table["type"] = [TYPES[kind] for kind in table["type"].tolist()]
    return table.rename(columns={"lock": "locks"}).drop(columns="site")


def _contended_waits(run: Run) -> pd.DataFrame:
    """By class, type and site: contended_waits (how many), contended_wait_total and contended_wait_max in ns."""
    met = run.acquisitions[run.acquisitions["contended"]]
    waited = met["acquired"].fillna(met["end"].where(met["abandoned"])) - met["begin"]
    table = pd.DataFrame(
        {
            "class": np.array(run.class_names(met["lock"]), dtype=object),
            "type": met["type"].to_numpy(np.int64),
            "site": met["site"].to_numpy(),
            "waited": run.status.nanoseconds(waited.to_numpy(np.float64)),
        }
    )
    return table.groupby(["class", "type", "site"], as_index=False).agg(
        contended_waits=("waited", "count"),
        contended_wait_total=("waited", "sum"),
        contended_wait_max=("waited", "max"),
    )


def blame(run: Run) -> pd.DataFrame:
    """Rows of `blame`. Nothing of an arm whose events were lost, or that sees no holds."""
    if run.gaps or run.status.arm in (TRACEPOINT, CONTENDED):
        return pd.DataFrame()
    table = blame_table(run.named, run.blamed, ["class", "type", "caller"])
    for name in ("blamed_total", "blamed_max", "hold_total"):
        table[name] = run.status.nanoseconds(table[name].astype("float64"))
    return table


def let_go(run: Run) -> pd.DataFrame:
    """CONTENDED: rows of `let_go`. Nothing where events were lost."""
    if run.gaps:
        return pd.DataFrame()
    waits, releases = waits_of(run.events), releases_of(run.events)
    pairs = waited_for(waits, releases)
    waiter = waits.take(pairs["wait"].to_numpy()).reset_index(drop=True)
    holder = releases.take(pairs["release"].to_numpy()).reset_index(drop=True)
    table = pairs.assign(
        **{"class": np.array(run.class_names(waiter["lock"]), dtype=object)},
        type=[TYPES[kind] for kind in waiter["type"].tolist()],
        caller=call_sites(waiter["site"], run.symbols),
        release_caller=call_sites(holder["site"], run.symbols),
        own=threads_of(waiter) == threads_of(holder),
    )
    key = ["class", "type", "caller", "release_caller"]
    return table.groupby(key, as_index=False).agg(
        waits=("wait", "nunique"), releases=("release", "nunique"), pairs=("wait", "size"), own=("own", "sum")
    )


def site_sums(run: Run) -> dict[str, Any]:
    """VALIDATE: the row of `site_sums`."""
    if run.status.sites_full or run.status.lost[STREAM_LOG] or run.status.untracked:
        return {"reason": "the log or a table has gaps"}
    key, names = ["lock", "type", "site"], [*COUNTS, "wait_total"]
    of_log = by_key(run.acquisitions, failures(run.log), key).set_index(key)[[*COUNTS]]
    waited = run.acquisitions[run.acquisitions["contended"]]
    waits = (waited["acquired"] - waited["begin"]).groupby([waited[name] for name in key]).sum()
    of_log = of_log.assign(wait_total=waits).fillna(0)
    of_kernel = run.sites.set_index(key)[names].astype("float64")
    both = of_log.add_suffix("_log").join(of_kernel.add_suffix("_kernel"), how="outer").fillna(0)
    off = np.column_stack([(both[f"{name}_log"] - both[f"{name}_kernel"]).abs() > 0.5 for name in names])
    fields = ", ".join(name for i, name in enumerate(names) if off[:, i].any())
    return {"compared": len(both), "different": int(off.any(axis=1).sum()), "fields": fields or None, "reason": None}


def useful_locks(run: Run) -> pd.DataFrame:
    """PER_LOCK and VALIDATE: rows of `useful`."""
    table = run.sites.groupby("lock", as_index=False)[["acquisitions", "kept"]].sum()
    table = table[table["acquisitions"] > 0]
    return table.assign(**{"class": run.class_names(table["lock"])}).drop(columns="lock")


# -- filters, fill, pairs, blocks --------------------------------------------------------------------------------


def filters(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """VALIDATE: rows of `filters` and of `differences`."""
    names = [
        *("filter", "log", "selected", "equal", "missing", "extra", "different"),
        *("waits", "dropped_waits", "dropped_holders", "acquisitions", "idle", "reason"),
    ]
    compared: list[FilterComparison] = compare_filters(run.events, run.status, run.acquisitions)
    rows = [{name: getattr(one, name) for name in names} for one in compared]
    examples = [one.examples.assign(filter=one.filter) for one in compared]
    return pd.DataFrame(rows), pd.concat(examples, ignore_index=True)


def fill(run: Run) -> pd.DataFrame:
    """Rows of `fill`."""
    names = ("events", "written", "lost", "drained")
    table = read_tsv(run.folder / "fill.tsv", {"time": "uint64"} | dict.fromkeys(names, "int64"))
    step = max(1, -(-len(table) // FILL_SAMPLES))
    table = table.iloc[sorted({*range(0, len(table), step), len(table) - 1})] if len(table) else table
    return pd.DataFrame(
        {
            "seconds": run.seconds(table["time"]),
            "events": table["events"],
            "written": table["written"],
            "lost": table["lost"],
            "in_ring": table["written"] - table["drained"],
        }
    )


def probes(run: Run) -> pd.DataFrame:
    """Table probes but for its key, of the kernel's `kprobe_profile`; RunError when it is cut or not that."""
    path = run.folder / "kprobe_profile"
    rows = [line.split() for line in read_lines(path)]
    if not rows or any(len(row) != 3 or not (row[1] + row[2]).isdecimal() for row in rows):
        raise RunError("has rows that are not a probe, its hits and its misses", where=str(path))
    if [row[0] for row in rows] != list(PROBED):
        raise RunError(f"has {len(rows)} probes that are not the {len(PROBED)} of the arm, in order", where=str(path))
    return pd.DataFrame({"probe": [row[0] for row in rows], "hits": [int(row[1]) for row in rows],
                         "missed": [int(row[2]) for row in rows]})  # fmt: skip


def pairs(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of `pair` and of `quantiles`."""
    table = read_tsv(run.folder / "pairs.tsv", dict.fromkeys((READINGS, *PAIR_KINDS), "int64"))
    readings = float(table[READINGS].median())
    rows = [
        {
            "kind": str(kind),
            "mean_first": float(values.iloc[:FIRST].mean()),
            "mean": float(values.mean()),
            "median": float(values.median()),
            "net": float(values.median()) - readings,
            "pairs": len(values),
        }
        for kind, values in table.items()
    ]
    spread = table.quantile(QUANTILES).rename_axis("quantile").reset_index()
    return pd.DataFrame(rows), spread.melt("quantile", var_name="kind", value_name="cycles")


def block(run: Run) -> pd.DataFrame:
    """Rows of `block`."""
    chosen = longest(with_blocks(run.acquisitions))
    return pd.DataFrame(
        {
            "class": run.class_names(chosen["lock"]),
            "caller": call_sites(chosen["site"], run.symbols),
            "pid": chosen["pid"],
            "context": chosen["context"],
            **{f"{name}_s": run.seconds(chosen[name]) for name in ("begin", "acquired", "end")},
            "contended": chosen["contended"],
            "depth": chosen["depth"],
            "abandoned": chosen["abandoned"],
        }
    )
