"""Raw folders of lock-trace's trials into tables; see `analysis.tables`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from harness.errors import RunError
from harness.measure.symbols import SymbolMap, read_system_map, with_kallsyms

from .locks.acquisitions import acquisitions, by_key, failures, first_attempts, with_conflicts
from .locks.classes import StaticData, call_sites, classes_of
from .locks.comparison import compare_filters
from .locks.events import (
    ALL,
    PAPER,
    PER_LOCK,
    STREAM_LOG,
    TRACEPOINT,
    TYPES,
    VALIDATE,
    Events,
    only,
    read_events,
)
from .locks.kerneltables import read_locks, read_sites
from .locks.status import LockTraceStatus, accounting, read_status

KEY = ("arm", "trial", "workload")
#: Sums of the kernel's table of sites, by the names they have in tables of acquisitions.
COUNTS = ("acquisitions", "contended", "failed", "abandoned", "holds")
TIMES = ("wait_total", "wait_max", "hold_total", "hold_max")
FILL_SAMPLES = 400
#: log2 of events of a CPU's ring where the launcher says nothing else.
RING_ORDER = 16


class Trial(Protocol):
    """What this analysis reads of a trial; `path` is its raw folder, with one folder per workload."""

    arm: str
    repetition: int
    path: Path
    workloads: tuple[str, ...]
    params: dict[str, Any]
    clock: str
    system_map: Path


@lru_cache(maxsize=4)
def _system_map(path: Path) -> SymbolMap:
    return read_system_map(path)


@lru_cache(maxsize=4)
def _static_data(path: Path, kallsyms: Path) -> StaticData:
    return StaticData(path, kallsyms.read_text() if kallsyms.exists() else "")


@dataclass(frozen=True)
class Run:
    """One workload of one trial."""

    trial: Trial
    workload: str

    @property
    def key(self) -> dict[str, Any]:
        """arm, trial, workload."""
        return {"arm": self.trial.arm, "trial": self.trial.repetition, "workload": self.workload}

    @property
    def folder(self) -> Path:
        return self.trial.path / self.workload

    @property
    def trace(self) -> str:
        """What traced: off, all, paper, per-lock, tracepoint, validate. YAML reads a bare off as false."""
        value = self.trial.params.get("trace", "off")
        return "off" if value is False else str(value)

    @cached_property
    def symbols(self) -> SymbolMap:
        kernel = _system_map(self.trial.system_map)
        path = self.trial.path / "kallsyms"
        return with_kallsyms(kernel, path.read_text(), where=str(path)) if path.exists() else kernel

    @cached_property
    def answer(self) -> dict[str, Any]:
        """What the workload said last: operations, elapsed_ns, cycles."""
        lines = (self.folder / "stdout").read_text().splitlines()
        try:
            said = json.loads(lines[-1])
        except (IndexError, ValueError) as error:
            raise RunError("the workload's last line is not JSON", where=str(self.folder / "stdout")) from error
        return dict(said)

    @cached_property
    def status(self) -> LockTraceStatus:
        return read_status(self.folder / "status.json")

    @cached_property
    def events(self) -> Events:
        return read_events(self.folder / "events.bin")

    @cached_property
    def log(self) -> Events:
        """The events that waits and holds are made of: all of them, or as many as the arm kept."""
        if self.status.arm == VALIDATE:
            return only(self.events, STREAM_LOG)
        if self.status.arm == TRACEPOINT:
            return first_attempts(self.events)
        return self.events if self.status.arm == PER_LOCK else with_conflicts(self.events)

    @property
    def gaps(self) -> str | None:
        """Why `log` is not all that the arm should have kept; None: it is."""
        lost = sum(self.status.lost)
        return f"{lost} events were lost" if lost else None

    @cached_property
    def locks(self) -> pd.DataFrame:
        return read_locks(self.folder / "locks.tsv")

    @cached_property
    def sites(self) -> pd.DataFrame:
        """The kernel's table of sites with each lock's address, `lock` uint64."""
        table = read_sites(self.folder / "sites.tsv")
        address = dict(zip(self.locks["entry"].tolist(), self.locks["address"].tolist(), strict=True))
        return table.assign(lock=np.array([address[entry] for entry in table["entry"].tolist()], dtype=np.uint64))

    @cached_property
    def classes(self) -> dict[int, str]:
        """Lock class by address."""
        data = _static_data(self.trial.system_map, self.trial.path / "kallsyms")
        return classes_of(self.log, self.locks, data, self.symbols)

    @cached_property
    def found(self) -> pd.DataFrame:
        """Acquisitions of `log`."""
        return acquisitions(self.log)


def every(trials: Sequence[Trial]) -> Iterator[Run]:
    """Each workload of each trial, in order."""
    for trial in trials:
        for workload in trial.workloads:
            yield Run(trial, workload)


# -- one row per workload ------------------------------------------------------------------------------------


def run_row(run: Run) -> dict[str, Any]:
    """Time, and the kernel's counts; `seconds` is the workload's own, `traced_s` from the start to the stop."""
    row = run.key | {"trace": run.trace, "clock": run.trial.clock, "cpus": np.nan}
    row |= {"seconds": run.answer["elapsed_ns"] / 1e9, "operations": run.answer.get("operations")}
    if run.trace == "off":
        return row
    status = run.status
    sums = accounting(status, run.events)
    balance = sums["check"].str.contains("dropped")
    mine = status.stream
    return row | {
        "cpus": status.cpus,
        "traced_s": status.seconds,
        "events": status.events,
        "kept": status.kept[mine],
        "dropped": status.dropped[mine],
        "lost": sum(status.lost),
        "unbalanced": int(sums.loc[balance, "difference"].abs().sum()),
        "wrong_sums": int(sums.loc[~balance, "difference"].abs().sum()),
        # What a filter keeps; without one everything, and the tracepoints see other events.
        "useful": status.useful if status.arm in (PAPER, PER_LOCK, VALIDATE) else np.nan,
        "full_s": rings_last(run),
        "first_loss_s": (status.first_loss - status.start) / (1000 * status.tsc_khz) if status.first_loss else np.nan,
        "ring_events": ring_events(status),
        "late": status.late,
        **{name: getattr(status, name) for name in ("untracked", "nested", "waiting", "sites_full", "holds_full")},
        **{name: getattr(status, name) for name in ("locks", "sites", "pool_peak", "pool_full")},
    }


def ring_events(status: LockTraceStatus) -> int:
    """Events that the rings of all CPUs hold."""
    return status.cpus << (status.ring_order or RING_ORDER)


def rings_last(run: Run) -> float:
    """Seconds that rings which nobody reads last at the rate at which the load fills them; NaN where none was full.

    The time of the first loss itself would count what came before the load: its threads are made while few locks
    are taken, and that is most of the time until rings without a filter are full.
    """
    status = run.status
    if not status.first_loss:
        return float("nan")
    return ring_events(status) * run.answer["elapsed_ns"] / 1e9 / status.kept[status.stream]


# -- waits and holds by lock class and call site -----------------------------------------------------------------


def contention(run: Run) -> pd.DataFrame:
    """A row per class of lock, type and call site, times in ns; what an arm does not see is NaN.

    PER_LOCK and VALIDATE: the kernel's sums, which have every acquisition. PAPER: those of what was dropped and the
    events that were kept. ALL: the events. TRACEPOINT: what had to wait; no holds, and not how often nobody waited.
    Nothing of an arm whose events were lost, where they are needed.

    wait_* is from the attempt to the acquisition, of all acquisitions; contended_wait_* of those that met somebody and
    of waits that were given up, by the events alone.
    """
    if run.gaps and run.status.arm in (ALL, PAPER, TRACEPOINT):
        return pd.DataFrame()
    key = ["lock", "type", "site"]
    parts = []
    if run.status.arm in (PAPER, PER_LOCK, VALIDATE):
        parts.append(run.sites[[*key, *COUNTS, *TIMES, "depth_max"]])
    if run.status.arm in (ALL, PAPER, TRACEPOINT):
        parts.append(by_key(run.found, failures(run.log), key)[[*key, *COUNTS, *TIMES, "depth_max"]])
    whole = pd.concat(parts, ignore_index=True)
    whole["class"] = [run.classes.get(lock, "(unknown)") for lock in whole["lock"].tolist()]
    how = dict.fromkeys((*COUNTS, "wait_total", "hold_total"), "sum")
    how |= dict.fromkeys(("wait_max", "hold_max", "depth_max"), "max")
    table = whole.groupby(["class", "type", "site"], as_index=False).agg({"lock": "nunique", **how})
    for name in TIMES:
        table[name] = run.status.nanoseconds(table[name].astype("float64"))
    if run.status.arm == TRACEPOINT:
        table[["hold_total", "hold_max"]] = np.nan
        table["acquisitions"] = np.nan
    waits = table["contended" if run.status.arm == TRACEPOINT else "acquisitions"]
    table["wait_mean"] = table["wait_total"] / waits.where(waits > 0)
    table["hold_mean"] = table["hold_total"] / table["holds"].where(table["holds"] > 0)
    table = table.merge(_contended_waits(run), how="left", on=["class", "type", "site"])
    if run.gaps:
        table[["contended_wait_total", "contended_wait_max"]] = np.nan
    table["caller"] = call_sites(table["site"], run.symbols)
    table["type"] = [TYPES[kind] for kind in table["type"].tolist()]
    return table.rename(columns={"lock": "locks"}).assign(**run.key)


def _contended_waits(run: Run) -> pd.DataFrame:
    """By class, type and site: contended_waits (how many), contended_wait_total and contended_wait_max in ns."""
    mine = run.found[run.found["contended"]]
    waited = (mine["acquired"].fillna(mine["end"].where(mine["abandoned"])) - mine["begin"]).to_numpy()
    names = [run.classes.get(lock, "(unknown)") for lock in mine["lock"].tolist()]
    table = pd.DataFrame(
        {"class": names, "type": mine["type"].to_numpy(np.int64), "site": mine["site"].to_numpy(), "waited": waited}
    )
    table["waited"] = run.status.nanoseconds(table["waited"])
    how = {"contended_waits": "count", "contended_wait_total": "sum", "contended_wait_max": "max"}
    return table.groupby(["class", "type", "site"], as_index=False)["waited"].agg(**how)


def site_differences(run: Run) -> dict[str, Any]:
    """VALIDATE: the kernel's sums of each lock, type and site against the same from the full log. An acquisition that
    an initialisation of its lock ended is in no sum of the kernel's.
    """
    if run.status.sites_full or run.status.lost[STREAM_LOG] or run.status.untracked:
        return {"sites_compared": np.nan, "sites_different": np.nan, "sites_reason": "the log or a table has gaps"}
    key, names = ["lock", "type", "site"], [*COUNTS, *TIMES, "depth_max"]
    mine = by_key(run.found, failures(run.log), key).set_index(key)[names].fillna(0)
    theirs = run.sites.set_index(key)[names].astype("float64")
    both = mine.join(theirs, how="outer", suffixes=("_log", "_kernel")).fillna(0)
    off = np.column_stack([(both[f"{name}_log"] - both[f"{name}_kernel"]).abs() > 0.5 for name in names])
    return {
        "sites_compared": len(both),
        "sites_different": int(off.any(axis=1).sum()),
        "sites_reason": None,
        "sites_fields": ", ".join(name for name, wrong in zip(names, off.any(axis=0), strict=True) if wrong),
    }


def useful_shares(run: Run) -> pd.DataFrame:
    """PER_LOCK and VALIDATE: a row per lock that was acquired: class, acquisitions, kept (of them)."""
    table = run.sites.groupby("lock", as_index=False)[["acquisitions", "kept"]].sum()
    table = table[table["acquisitions"] > 0]
    names = [run.classes.get(lock, "(unknown)") for lock in table["lock"].tolist()]
    return table.assign(**{"class": names}).drop(columns="lock").assign(**run.key)


# -- filters, fill, pairs ----------------------------------------------------------------------------------------


def filters(run: Run) -> tuple[list[dict[str, Any]], list[pd.DataFrame]]:
    """VALIDATE: a row per filter, and examples of what differs."""
    rows, examples = [], []
    names = ("filter", "log", "selected", "equal", "missing", "extra", "different", "reason")
    for found in compare_filters(run.events, run.status):
        rows.append(run.key | {name: getattr(found, name) for name in names})
        examples.append(found.examples.assign(filter=found.filter, **run.key))
    return rows, examples


def fill(run: Run) -> pd.DataFrame:
    """How full the rings were: seconds since the start, events, written, lost, in_ring (written and not yet read)."""
    table = pd.read_csv(run.folder / "fill.tsv", sep="\t")
    step = max(1, -(-len(table) // FILL_SAMPLES))
    table = table.iloc[sorted({*range(0, len(table), step), len(table) - 1})] if len(table) else table
    return pd.DataFrame(
        {
            "seconds": (table["time"].astype("float64") - run.status.start) / (1000 * run.status.tsc_khz),
            "events": table["events"].astype("float64"),
            "written": table["written"].astype("float64"),
            "lost": table["lost"].astype("float64"),
            "in_ring": (table["written"] - table["drained"]).astype("float64"),
        }
    ).assign(**run.key)


QUANTILES = np.round(np.linspace(0, 1, 101), 2)


def pairs(run: Run, first: int = 100) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What a pair of acquire and release costs, in TSC cycles: by kind of lock the mean of the first `first`, as the
    paper took it, and of all, the median, that less the two readings alone (kind `none`), and how many; and the
    quantiles of all.
    """
    path = run.folder / "pairs.tsv"
    try:
        table = pd.read_csv(path, sep="\t")
    except (OSError, ValueError) as error:
        raise RunError(f"cannot be read: {error}", where=str(path)) from error
    bare = float(table["none"].median())
    rows = [
        {
            "kind": str(kind),
            "mean_first": float(values.iloc[:first].mean()),
            "mean": float(values.mean()),
            "median": float(values.median()),
            "net": float(values.median()) - bare,
            "pairs": len(values),
        }
        for kind, values in table.items()
    ]
    spread = table.quantile(QUANTILES).rename_axis("quantile").reset_index()
    long = spread.melt("quantile", var_name="kind", value_name="cycles")
    return pd.DataFrame(rows).assign(**run.key), long.assign(**run.key)
