# SPDX-License-Identifier: MIT
"""What probecost printed: one line of JSON a run; and the oracle's counts of each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from harness.errors import RunError
from harness.measure.raw import Answer, Trial, read_answer_lines
from harness.measure.symbols import read_system_map
from harness.oracle.reader import LAP, Oracle, OracleAbsent
from harness.yamlfile import about

#: The part of a trial's decoding that has none where no oracle ran.
ORACLE = "the oracle's counts of each run"


class Buffer(Answer):
    """What a tracefs instance's ring buffer says of itself."""

    entries: int
    overrun: int
    bytes: int = -1


class Counted(Answer):
    """One probe of a run: firings and passes of filters as perf counted them, hits and misses as the kernel reports
    them; misses are negative where the kernel has no such count.
    """

    firings: int
    hits: int
    misses: int
    passes: tuple[int, ...]
    size: Annotated[int, about("bytes of an event, without strings")] = 0
    texts: Annotated[int, about("strings of the user's that a system call's event copies")] = 0
    arrays: Annotated[int, about("and of what it copies as so many bytes")] = 0
    frames: Annotated[float, about("of the kernel's, of its stacks in a look of a few rounds")] = 0.0
    user_frames: Annotated[float, about("and of the user's, of a sample's")] = 0.0
    place: Annotated[float, about("of the kernel's where it fires, by a sampler of its event")] = 0.0
    in_kernel: Annotated[float, about("share of samples that have any of the kernel's; 0: not told")] = 0.0
    found: Annotated[tuple[float, ...], about("these three, of the samples of the run itself; 0: not told")] = ()
    by_wake: Annotated[float, about("firings by a reader that finds nothing, each time that it wakes up")] = 0.0
    by_read: Annotated[float, about("and by each further read of its")] = 0.0
    by_ring: Annotated[float, about("by a reader of a ring, each time that it wakes up; negative: as by_wake")] = -1.0
    read_passes: Annotated[tuple[float, ...], about("of by_read, those that pass each consumer's filter")] = ()
    executed: Annotated[tuple[int, ...], about("instructions of each consumer's program, of a firing")] = ()


class Run(Answer):
    """One run. `took`: what each batch took; `plain`: the same without probes, where the run was to tell it;
    `again`: once more, when all was counted.
    """

    run: Annotated[str, about("its name: PROVIDER.WHAT, or that of a held-out script")]
    script: str
    rounds: Annotated[int, about("rounds of a batch"), Field(ge=1)]
    lap: int
    problem: str
    took: tuple[float, ...] = ()
    plain: tuple[float, ...] = ()
    again: tuple[float, ...] = ()
    syscalls: int = 0
    switches: int = 0
    probes: tuple[Counted, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    frames: int = 0
    keyed: int = -1
    drops: int = 0
    wakes: Annotated[int, about("wake-ups of the reader that drains the buffers, in all batches")] = 0
    pages: Annotated[int, about("times that it took out something of a page")] = 0
    whole: Annotated[int, about("of these, whole pages")] = 0
    records: Annotated[int, about("events that readers took out of rings of programs")] = 0
    syscalls_by_wake: float = 0.0
    switches_by_wake: float = 0.0
    waiter_ns: int = 0  # that readers took which wait for events

    @model_validator(mode="after")
    def _whole(self) -> Run:
        if not self.problem and not self.took and not self.plain:
            raise ValueError("a run without a problem has no times")
        return self

    @property
    def lines(self) -> list[str]:
        """Its script."""
        return self.script.split("\n")

    @property
    def work(self) -> str:
        """What one round does."""
        return words(self.lines[0])["work"]

    @property
    def batches(self) -> int:
        return len(self.took or self.plain)

    @property
    def per_round(self) -> float:
        """Median over batches."""
        return float(np.median(self.took or self.plain)) / self.rounds

    @property
    def added(self) -> float:
        """Of a batch, what it takes longer with probes, where it was to tell what it takes without.

        A tick of the clock falls into some batches, and a median would meet it in the one series and not in the other;
        a mean would have what the kernel does once a second.
        """
        return _middle(self.took) - self.untraced

    @property
    def added_least(self) -> float:
        """The same of the quickest batches: on a host with other programs these alone are like each other."""
        return min(self.took) - min(self.plain)

    @property
    def untraced(self) -> float:
        """Of a batch, without probes."""
        return _middle(self.plain)

    @property
    def drift(self) -> float:
        """How far two untraced runs of it were apart, as a share; 0 where there was one."""
        return abs(_middle(self.again) / self.untraced - 1) if self.again else 0.0

    @property
    def total(self) -> float:
        """All batches."""
        return float(sum(self.took))

    @property
    def firing_rounds(self) -> int:
        """Rounds of all batches."""
        return self.rounds * self.batches

    @property
    def held_out(self) -> bool:
        """Whether it is a script that is to be predicted."""
        return words(self.lines[0]).get("check", "0") in "123"

    @property
    def period_ns(self) -> float:
        """What a reader sleeps between two looks."""
        return 1000.0 * float(words(self.lines[0]).get("drain", 0))

    @property
    def stack_frames(self) -> float:
        """Of the stacks of its first probe."""
        return self.frames or (self.probes[0].frames if self.probes else 0.0)

    @property
    def drained(self) -> bool:
        """Whether a reader takes events out of the buffers meanwhile."""
        return "drain" in words(self.lines[0])


def _middle(series: tuple[float, ...]) -> float:
    """Mean of all batches but the first, which is cold, and the longest and shortest of the others."""
    others = sorted(series[1:])[1:-1]
    return float(np.mean(others or series))


def words(line: str) -> dict[str, str]:
    """`key=value` words of a line; fetch arguments of probes look like them and are not asked for here."""
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def read_runs(path: Path) -> list[Run]:
    """The runs of one workload, in order. RunError naming the line that is not what probecost prints."""
    runs = read_answer_lines(path, Run)
    if not runs:
        raise RunError("is empty", where=str(path))
    return runs


def read_laps(trial: Trial, read: Mapping[str, Sequence[Run]]) -> pd.DataFrame | None:
    """The oracle's counts of every run, with the run's name as the column `run` (Oracle.functions has the others).

    None on the wall clock without an oracle. `read` has the runs of each workload that could be read: of what came
    after one that could not, nobody knows which lap is whose. RunError where the oracle's laps are not those runs.
    """
    try:
        oracle = Oracle(trial.path)
    except OracleAbsent:
        if trial.clock == "wall":
            return None
        raise
    laps = oracle.functions(read_system_map(trial.system_map), kind=LAP)
    names: dict[int, str] = {}
    offset = 0
    for workload in trial.workloads:
        if workload not in read:
            break
        ran = [run for run in read[workload] if run.lap >= 0]
        names |= {offset + run.lap: run.run for run in ran}
        offset += len(ran)
    else:
        if offset != oracle.report.marks.laps:
            raise RunError(f"has {oracle.report.marks.laps} laps of {offset} runs", where=str(oracle.folder))
    empty = sorted(set(names) - set(laps["region"]))
    if empty:
        raise RunError(f"has nothing of run {names[empty[0]]}", where=str(oracle.folder))
    return laps[laps["region"].isin(names)].assign(run=laps["region"].map(names))
