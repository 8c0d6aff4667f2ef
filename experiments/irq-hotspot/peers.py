# SPDX-License-Identifier: MIT
"""The fix's peers: what each profiler tells of the edu handler's time, beside the same work, and what it costs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.errors import RunError
from harness.measure.raw import read_bytes, read_text
from harness.measure.rows import MetricRows
from harness.measure.statistics import ratio
from harness.measure.symbols import SymbolMap
from harness.oracle.reader import LAP, Oracle
from harness.oracle.truth import distance

from .handlers import EDU
from .profile.buffer import ProfileTable
from .trialrows import TrialRows

#: The workload, the arm without a profiler, and the part of a workload, as the table `problems` names it.
WORKLOAD, PLAIN, PEERS = "peers", "peer-none", "peers"
#: What a reader takes one count of /proc/profile for, where its samples come from the tick or once in its period.
TICK_NS = 10_000_000
CLOCK_NS = 1_000_000  # cpuclock.c
JIFFY_NS = 10_000_000  # of /proc/stat, USER_HZ
BY_TICK, BY_ENTRY, BY_JITTER, BY_NMI = IN_BUFFER = ("tick", "entry", "jitter", "nmi")
#: The profilers, in the order of the tables, and what people call them.
PROFILERS = {
    "tick": "readprofile: the tick",
    "entry": "the paper's fix",
    "jitter": "the jittered tick",
    "perf": "perf, cpu-clock",
    "nmi": "NMIs at random moments",
    "account": "IRQ_TIME_ACCOUNTING",
    "trace": "tracepoints irq_handler_*",
    "times": "the repaired fix",
}
_WRITTEN = re.compile(r"^# entries-in-buffer/entries-written: (\d+)/(\d+) ", re.MULTILINE)
_EVENT = re.compile(r"^.*?\s(\d+)\.(\d{6}): irq_handler_(entry|exit): ", re.MULTILINE)


def peer_row(
    folder: Path,
    profiler: str,
    oracle: Oracle,
    symbols: SymbolMap,
    buffer: ProfileTable | None,
    interrupts: int | None,
) -> dict[str, Any]:
    """The row of the table `peers`; RunError when a file is damaged or the oracle has not one lap.

    `interrupts`: of the edu device, by the load.
    """
    counts = oracle.functions(symbols, kind=LAP)
    if set(counts["region"]) != {0}:
        raise RunError(f"the oracle has {counts['region'].nunique()} laps, not 1", where=str(oracle.folder))
    kernel = counts[~counts["context"].isin(["user", "nmi"])]
    truth = kernel.groupby("function")["instructions"].sum()
    handler = truth[truth.index.isin(EDU)]
    period = oracle.report.period_ns if profiler == BY_NMI else TICK_NS
    told, runs, profile = _told(folder, profiler, symbols, buffer, period)
    return {
        "profiler": profiler,
        "interrupts": interrupts,
        "told_ns": told,
        "runs": runs,
        "exact_ns": float(handler.sum()) * 2.0**oracle.report.shift,
        "profile_error": math.nan if profile is None else _error(truth, profile),
        "instructions": float(counts["instructions"].sum()),
    }


def _told(
    folder: Path, profiler: str, symbols: SymbolMap, buffer: ProfileTable | None, period_ns: int
) -> tuple[float, float, pd.Series[Any] | None]:
    """Time of the handler in ns by the profiler, its runs (NaN: not told), its counts by function, where it has any.

    `period_ns`: what a count of the profile buffer stands for.
    """
    if profiler in IN_BUFFER:
        if buffer is None:
            raise RunError("the profile buffer could not be read", where=str(folder / "profile"))
        counts = pd.Series(buffer.ticks, index=buffer.symbols.name).groupby(level=0).sum()
        return _in_handler(counts) * period_ns, math.nan, counts
    if profiler == "perf":
        counts = _clock_samples(folder / "cpuclock", symbols)
        return _in_handler(counts) * CLOCK_NS, math.nan, counts
    if profiler == "trace":
        return *_traced(folder / "trace"), None
    if profiler == "account":
        before, after = (_interrupt_jiffies(folder / f"stat.{when}") for when in ("before", "after"))
        return float(after - before) * JIFFY_NS, math.nan, None
    if profiler == "times":
        (runs, ns), (more_runs, more_ns) = (_charged(folder / f"times.{when}") for when in ("before", "after"))
        return float(more_ns - ns), float(more_runs - runs), None
    return math.nan, math.nan, None


def _in_handler(counts: pd.Series[Any]) -> float:
    return float(counts[counts.index.isin(EDU)].sum())


def _error(truth: pd.Series[Any], counts: pd.Series[Any]) -> float:
    both = pd.concat([truth.rename("truth"), counts[counts > 0].rename("counts")], axis=1).fillna(0.0)
    return distance(both["truth"], both["counts"])


def _clock_samples(path: Path, symbols: SymbolMap) -> pd.Series[Any]:
    """Samples by function of what cpuclock wrote; those in user mode left out."""
    raw = read_bytes(path)
    if len(raw) % 8:
        raise RunError(f"has {len(raw)} bytes, which are no 64-bit words", where=str(path))
    addresses = np.frombuffer(raw, dtype="<u8")
    addresses = addresses[addresses > 0]
    # Those of modules lie above the kernel's own. All kernels with this arm are i386.
    if ((addresses < symbols.stext) | (addresses >= 1 << 32)).any():
        raise RunError("has addresses that are none of the kernel's", where=str(path))
    index = symbols.at(addresses)
    names = np.where(index >= 0, symbols.name[np.maximum(index, 0)], "(outside)").astype(object)
    return pd.Series(names, dtype="object").value_counts().astype(np.float64)


def _traced(path: Path) -> tuple[float, float]:
    """Sum of the times from an entry of the handler to its exit in ns, and how many: ftrace prints microseconds."""
    total, entered = 0, None
    text = read_text(path)
    events, counted = _EVENT.findall(text), _WRITTEN.search(text)
    if counted is None or not len(events) == int(counted[1]) == int(counted[2]):
        said = "" if counted is None else f" of {counted[2]} that were written"
        raise RunError(f"has {len(events)} events{said}", where=str(path), hint="ftrace counts them in its head")
    for seconds, micros, what in events:
        at = int(seconds) * 1_000_000 + int(micros)
        if (what == "entry") != (entered is None):
            raise RunError(f"two events irq_handler_{what} of one line follow each other", where=str(path))
        if entered is None:
            entered = at
        else:
            total, entered = total + at - entered, None
    return total * 1e3, float(len(events) // 2)


def _interrupt_jiffies(path: Path) -> int:
    """The field irq of all CPUs in /proc/stat."""
    words = read_text(path).partition("\n")[0].split()
    if len(words) < 7 or words[0] != "cpu" or not words[6].isdecimal():
        raise RunError("its first line is not that of /proc/stat", where=str(path))
    return int(words[6])


def _charged(path: Path) -> tuple[int, int]:
    """The handler's runs and time on all CPUs in /proc/irq_handler_time."""
    runs = total = 0
    for number, line in enumerate(read_text(path).splitlines(), 1):
        words = line.split()
        if len(words) != 4 or not all(word.isdecimal() for word in words[:3]):
            raise RunError("is not: CPU, calls, nanoseconds, handler", where=f"{path}:{number}")
        if words[3] == EDU[0]:
            runs, total = runs + int(words[1]), total + int(words[2])
    return runs, total


def peer_metrics(trial: TrialRows) -> None:
    """What the arm's profiler tells, against the exact time."""
    problem = trial.problem(PEERS, workload=WORKLOAD)
    told, exact = (trial.value("peers", name, WORKLOAD) for name in ("told_ns", "exact_ns"))
    silent = "no profiler ran" if trial.arm == PLAIN else None
    share = ratio(told, exact)
    trial.put("peer_told", share, problem, silent)
    trial.put("peer_error", abs(share - 1), problem, silent)
    error = trial.value("peers", "profile_error", WORKLOAD)
    trial.put("peer_profile_error", error, problem, silent, "it tells handlers alone" if math.isnan(error) else None)


def peer_costs(tables: Mapping[str, pd.DataFrame], out: MetricRows) -> None:
    """Instructions for each interrupt beyond those of the arm without a profiler, in the same repetition."""
    peers = tables["peers"]
    plain = peers[peers["arm"] == PLAIN].set_index("trial")["instructions"]
    runs = tables["runs"]
    for arm, trial in runs.loc[runs["workload"] == WORKLOAD, ["arm", "trial"]].itertuples(index=False):
        if arm == PLAIN:
            continue
        row = peers[(peers["arm"] == arm) & (peers["trial"] == trial)]
        value = math.nan
        if len(row) and trial in plain.index and row["interrupts"].iloc[0]:
            value = (row["instructions"].iloc[0] - plain[trial]) / row["interrupts"].iloc[0]
        why = f"this arm or {PLAIN} has no trial of this repetition whose work could be counted"
        out.put(arm, trial, "peer_cost", float(value), reason=why)


def peer_table(peers: pd.DataFrame, metrics: pd.DataFrame) -> pd.DataFrame:
    """A row per profiler, means over trials: what it tells, error, cost."""
    rows = metrics[metrics["metric"].str.startswith("peer_")]
    wide = rows.pivot_table(index="arm", columns="metric", values="value", aggfunc="mean")
    names = {"peer_told": "told/exact", "peer_error": "error", "peer_profile_error": "wrong function",
             "peer_cost": "instructions/interrupt"}  # fmt: skip
    wide = wide.reindex(columns=list(names)).rename(columns=names)
    arms = peers.drop_duplicates("arm").set_index("profiler")["arm"]
    made = [
        {"profiler": title, **wide.loc[arms[name]].to_dict()}
        for name, title in PROFILERS.items()
        if name in arms.index and arms[name] in wide.index
    ]
    return pd.DataFrame(made).round(4)
