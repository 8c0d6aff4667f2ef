# SPDX-License-Identifier: MIT
"""What the observer saw of a program: what each thread counted, when, and what its readings cannot tell apart.

A counter only rises, and is of a CPU. What it rose by between two readings is a thread's if the line had that thread,
and counted no switch, at both; else it is of a switch, and told as nobody's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from harness.errors import RunError
from harness.measure.raw import read_answer

from ..observer.answers import Observed, Signal
from ..observer.records import Records, pieces, sample_type

#: Equal parts of the time that phases are made of.
PARTS = 240
#: A phase goes on while a part's rate is at most so many times the phase's, or as many times less.
SAME_RATE = 1.5
IDLE, SWITCHING = 0, -2
INSTRUCTIONS, CYCLES = "instructions", "cycles"


@dataclass(frozen=True)
class Looked:
    """Counts of `counters`, in their order, by thread and by part of the time.

    threads   one row a thread: pid, tgid, cycles, and a column for each counter, int64
    parts     the same for each part of the time that it had: part, pid, cycles, counters
    runs      one row each time that a thread had the CPU, as far as was seen: pid, begin, end, cycles from `begin`
    begin     clock of the first reading; `end`, of the last
    """

    observed: Observed
    counters: tuple[str, ...]
    threads: pd.DataFrame
    parts: pd.DataFrame
    runs: pd.DataFrame
    begin: int
    end: int

    @property
    def switches(self) -> int:
        """Counted by whoever publishes, readings or not."""
        return self.observed.switches_slot

    @property
    def hz(self) -> float:
        return self.observed.tsc_hz

    @property
    def refused(self) -> list[Signal]:
        return [*self.observed.refused, *(signal for signal in self.observed.signals if signal.refusal)]


def read_looked(left: Path, stream: Path) -> Looked:
    """Read the observer's answer and all its readings; RunError where they are damaged or there are none."""
    observed = read_answer(left / "observer.shim.json", Observed)
    kind = sample_type(len(observed.signals))
    used = [i for i, signal in enumerate(observed.signals) if signal.refusal is None]
    counters = tuple(observed.signals[i].name for i in used)
    begin, end = _ends(stream, kind)
    windows, last = [], None
    for records in pieces(stream, kind):
        joined = records if last is None else np.concatenate([last, records])
        windows.append(_windows(joined, used, counters, begin, max(end - begin, 1)))
        last = records[-1:]
    if not windows:
        raise RunError("the observer took no reading", where=str(stream))
    sums = pd.concat([part for part, _ in windows]).groupby(["part", "pid", "tgid"], as_index=False).sum()
    threads = sums.drop(columns="part").groupby(["pid", "tgid"], as_index=False).sum()
    runs = _joined([run for _, run in windows])
    parts = sums.drop(columns="tgid")
    return Looked(observed, counters, threads, parts, runs, begin, end)


def _ends(stream: Path, kind: np.dtype[np.void]) -> tuple[int, int]:
    begin = end = 0
    for records in pieces(stream, kind):
        begin, end = begin or int(records["begin"][0]), int(records["begin"][-1])
    return begin, end


def _windows(
    records: Records, used: Sequence[int], counters: Sequence[str], begin: int, span: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Sums by part, thread and counter of the windows between these readings, and who had the CPU in them."""
    before, after = records[:-1], records[1:]
    same = (before["count"] == after["count"]) & (before["pid"] == after["pid"])
    at = after["begin"].astype(np.int64) - begin
    table = pd.DataFrame(
        {
            "part": np.minimum(at * PARTS // span, PARTS - 1),
            "pid": np.where(same, after["pid"], SWITCHING).astype(np.int64),
            "tgid": np.where(same, after["tgid"], SWITCHING).astype(np.int64),
            "cycles": (after["begin"] - before["begin"]).astype(np.int64),
        }
    )
    for i, name in zip(used, counters, strict=True):
        table[name] = (after["signals"][:, i] - before["signals"][:, i]).astype(np.int64)
    pid = table["pid"].to_numpy()
    first = np.flatnonzero(np.r_[True, pid[1:] != pid[:-1]]) if len(pid) else np.empty(0, dtype=np.int64)
    ends = np.r_[first[1:], len(pid)] - 1 if len(pid) else first
    runs = pd.DataFrame({"pid": pid[first], "begin": at[first] - table["cycles"].to_numpy()[first], "end": at[ends]})
    return table.groupby(["part", "pid", "tgid"], as_index=False).sum(), runs


def _joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Runs of all pieces; one that a piece's end cut is one again."""
    runs = pd.concat(parts, ignore_index=True)
    group = (runs["pid"] != runs["pid"].shift()).cumsum()
    return runs.groupby(group).agg(pid=("pid", "first"), begin=("begin", "first"), end=("end", "last"))


def phases(looked: Looked) -> pd.DataFrame:
    """Stretches of the time in which one thread, or none, had the most of it.

    Where cycles of the CPU are counted, also at about one number of instructions a cycle; the rate by the host's clock
    is the emulator's, and no property of the program. Columns: begin, end (cycles from the first reading), pid, and
    each counter's sum over all threads.
    """
    span = max(looked.end - looked.begin, 1)
    totals = looked.parts.groupby("part")[[*looked.counters]].sum().reindex(range(PARTS), fill_value=0)
    most = looked.parts[looked.parts["pid"] != SWITCHING].sort_values("cycles").groupby("part")["pid"].last()
    most = most.reindex(range(PARTS)).ffill().bfill().fillna(IDLE).astype(np.int64)
    rate = totals[INSTRUCTIONS] / totals[CYCLES].clip(lower=1) if {INSTRUCTIONS, CYCLES} <= set(totals) else None
    rows: list[tuple[int, int, int]] = []
    for part in range(PARTS):
        pid = int(most[part])
        if rows and rows[-1][2] == pid:
            first = rows[-1][0]
            if rate is None or pid == IDLE or _alike(float(rate[first:part].mean()), float(rate[part])):
                rows[-1] = (first, part + 1, pid)
                continue
        rows.append((part, part + 1, pid))
    table = pd.DataFrame(
        [(first * span // PARTS, last * span // PARTS, pid) for first, last, pid in rows],
        columns=["begin", "end", "pid"],
    )
    for name in looked.counters:
        table[name] = [int(totals[name].iloc[first:last].sum()) for first, last, _ in rows]
    return table


def _alike(mean: float, now: float) -> bool:
    return mean / SAME_RATE <= now <= mean * SAME_RATE
