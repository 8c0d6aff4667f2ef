# SPDX-License-Identifier: MIT
"""One workload of one trial: its raw files, each read once and only when something asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.errors import RunError
from harness.measure.raw import Trial, read_last_json_line, read_lines
from harness.measure.symbols import SymbolMap, read_system_map, with_kallsyms

from .locks.acquisitions import acquisitions, first_attempts, with_conflicts
from .locks.blame import blamed, threads
from .locks.classes import StaticData, call_sites, classes_of
from .locks.events import (
    CONTENDED,
    RELEASE,
    STREAM_LOG,
    STREAMS,
    TRACEPOINT,
    TYPES,
    VALIDATE,
    Events,
    only,
    read_events,
)
from .locks.kerneltables import read_locks, read_sites
from .locks.status import LockTraceStatus, read_status

KALLSYMS = "kallsyms"
#: Programs of the experiment that use no lock of the module, or only time them.
_UNCOUNTED = frozenset({"pair", "filestorm", "forkstorm", "pingpong", "debian-dd"})
UNKNOWN = "(unknown)"
#: Not traced by our patch: by the kernel's kprobes, by counts of its trace point contention_begin, and as `perf lock
#: contention` does it.
KPROBES, CONTENTION, PERF = OTHERS = ("kprobes", "contention", "perf")


@lru_cache(maxsize=4)
def _system_map(path: Path) -> SymbolMap:
    return read_system_map(path)


@lru_cache(maxsize=4)
def _static_data(path: Path, kallsyms: str) -> StaticData:
    return StaticData(path, kallsyms)


@dataclass(frozen=True)
class Run:
    """One workload of one trial. What reads a file raises RunError when it is absent or damaged."""

    trial: Trial
    workload: str

    @property
    def folder(self) -> Path:
        return self.trial.path / self.workload

    @property
    def trace(self) -> str:
        """What traced: off, all, paper, per-lock, tracepoint, validate, contended, or one of OTHERS.

        YAML reads a bare off as false.
        """
        value = self.trial.params.get("trace", "off")
        return "off" if value is False else str(value)

    @cached_property
    def answer(self) -> dict[str, Any]:
        """What the workload said last: workload (the program), operations, elapsed_ns; both numbers."""
        path = self.folder / "stdout"
        answer = read_last_json_line(path)
        for name in ("operations", "elapsed_ns"):
            if not isinstance(answer.get(name), int | float):
                raise RunError(f"has no number {name}", where=str(path))
        return answer

    @cached_property
    def program(self) -> str | None:
        """Which program ran; None: it did not say."""
        try:
            return str(self.answer.get("workload"))
        except RunError:
            return None

    @property
    def timed_pairs(self) -> bool:
        """Whether it timed pairs, by its answer or by its file."""
        return self.program == "pair" or (self.folder / "pairs.tsv").exists()

    @property
    def counted(self) -> bool:
        """Whether the module counted what it did."""
        if self.program is None:
            return any(self.folder.glob("known*.tsv"))
        return self.program not in _UNCOUNTED

    @cached_property
    def _kallsyms(self) -> str:
        return "\n".join(read_lines(self.trial.path / KALLSYMS))

    @cached_property
    def symbols(self) -> SymbolMap:
        return with_kallsyms(_system_map(self.trial.system_map), self._kallsyms, where=str(self.trial.path / KALLSYMS))

    @cached_property
    def status(self) -> LockTraceStatus:
        return read_status(self.folder / "status.json")

    @cached_property
    def in_file(self) -> Events:
        """All events of the file, whether or not they are as many as the kernel wrote."""
        return read_events(self.folder / "events.bin")

    @cached_property
    def events(self) -> Events:
        """All events; RunError when the file has not as many as the kernel wrote."""
        counts = np.bincount(self.in_file["stream"], minlength=len(STREAMS)).tolist()
        for name, count, written in zip(STREAMS, counts, self.status.written, strict=True):
            if count != written:
                what = f"has {count} events of stream {name}, where the kernel wrote {written}"
                raise RunError(what, where=str(self.folder / "events.bin"))
        return self.in_file

    @cached_property
    def log(self) -> Events:
        """The events that waits and holds are made of: all of them, or as many as the arm kept."""
        if self.status.arm == VALIDATE:
            return with_conflicts(only(self.events, STREAM_LOG))
        if self.status.arm == CONTENDED:  # of the holds, only releases: contended.py tells whose they are
            return with_conflicts(np.asarray(self.events[self.events["kind"] != RELEASE]))
        return first_attempts(self.events) if self.status.arm == TRACEPOINT else with_conflicts(self.events)

    @property
    def gaps(self) -> str | None:
        """Why `log` is not all that the arm should have kept; None: it is."""
        lost = sum(self.status.lost)
        return f"{lost} events were lost" if lost else None

    @cached_property
    def locks(self) -> pd.DataFrame:
        return self._whole(read_locks(self.folder / "locks.tsv"), self.status.locks, "locks.tsv")

    @cached_property
    def sites(self) -> pd.DataFrame:
        """The kernel's table of sites, a row per lock, type and call site: sums over the CPUs."""
        table = self._whole(read_sites(self.folder / "sites.tsv"), self.status.sites, "sites.tsv")
        sums: pd.DataFrame = table.groupby(["lock", "type", "site"], as_index=False).sum(numeric_only=True)
        return sums

    def _whole(self, table: pd.DataFrame, rows: int, name: str) -> pd.DataFrame:
        if len(table) != rows:
            raise RunError(f"has {len(table)} rows, where the kernel had {rows}", where=str(self.folder / name))
        return table

    @cached_property
    def classes(self) -> dict[int, str]:
        """Lock class by address."""
        data = _static_data(self.trial.system_map, self._kallsyms)
        sums = self.sites["lock"] if self.status.sites else ()
        return classes_of(self.log, self.locks, data, self.symbols, sums)

    def class_names(self, addresses: pd.Series[Any]) -> list[str]:
        """The class of each lock."""
        return [self.classes.get(address, UNKNOWN) for address in addresses.tolist()]

    @cached_property
    def acquisitions(self) -> pd.DataFrame:
        """Acquisitions of `log`."""
        return acquisitions(self.log)

    @cached_property
    def named(self) -> pd.DataFrame:
        """Acquisitions of `log`, with class and type in words, caller (where it was taken) and thread (by whom)."""
        taken = self.acquisitions.reset_index(drop=True)
        return taken.assign(
            **{"class": np.array(self.class_names(taken["lock"]), dtype=object)},
            type=[TYPES[kind] for kind in taken["type"].tolist()],
            caller=call_sites(taken["site"], self.symbols),
            thread=threads(taken),
        )

    @cached_property
    def blamed(self) -> pd.DataFrame:
        """Who waited for whom, rows of `named`."""
        return blamed(self.named)

    def seconds(self, cycles: pd.Series[Any]) -> pd.Series[Any]:
        """Times of the trace's clock as seconds since its start."""
        return (cycles.astype("float64") - self.status.start) / (1000 * self.status.tsc_khz)


def every(trials: Sequence[Trial]) -> Iterator[Run]:
    """Each workload of each trial, in order."""
    for trial in trials:
        for workload in trial.workloads:
            yield Run(trial, workload)
