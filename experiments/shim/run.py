# SPDX-License-Identifier: MIT
"""One workload of one trial as its decoders see it, and one run of the observer in it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pandas as pd

from harness.errors import RunError
from harness.measure.raw import Trial, read_answer, read_csv
from harness.measure.rows import TableRows
from harness.measure.statistics import ratio

from .observer.answers import NO_NAMES, Load, Observed, Signal, read_names
from .observer.periods import quantile, read_periods
from .observer.pieces import Pieces, read_pieces
from .observer.records import CHUNK, Records, check_written, pieces, sample_type, whole
from .observer.trust import Bounds, Recheck

COUNTER = "instructions"
IDLE = 0
#: Rows of ids.csv that are no thread.
OTHERS = {-1: "(never seen)", -2: "(switching)", -3: "(others)"}
_IDS = ("pid", "tgid", "cycles", "windows", "trusted", "trusted_cycles")


class Bench:
    """The files of one workload of a trial, and where their rows go."""

    def __init__(self, rows: TableRows, trial: Trial, workload: str) -> None:
        self._rows, self.trial, self.workload = rows, trial, workload
        self.folder: Path = trial.path / workload
        self.names: Mapping[int, str] = NO_NAMES

    def put(self, table: str, rows: pd.DataFrame | Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> None:
        self._rows.put(table, rows, self.trial, self.workload)

    def part(self, name: str) -> AbstractContextManager[None]:
        """What is decoded inside stands or falls together (harness.measure.rows)."""
        return self._rows.part(self.trial, name, self.workload)

    def read_names(self) -> None:
        """Names of threads, of workloads with a trace; without them threads have their ids alone."""
        with self.part("names"):
            self.names = read_names(self.folder / "truth.comms.csv")

    def thread(self, pid: int) -> str:
        """Name and id of a thread."""
        if pid in OTHERS:
            return OTHERS[pid]
        return self.names[pid] if pid == IDLE else f"{self.names.get(pid, 'thread')} {pid}"

    def observed(self, run: str) -> Observed:
        return read_answer(self.folder / f"{run}.shim.json", Observed)

    def samples(self, run: str, observed: Observed) -> Iterator[Records]:
        """All samples of a run that were written, in pieces; RunError at the end when some are not there."""
        path, count = self.folder / f"{run}.samples.bin", 0
        for part in pieces(path, sample_type(len(observed.signals))):
            count += len(part)
            yield part
        check_written(count, observed.samples_written, path)

    def chunks(self) -> Records:
        """The load's chunks of known work."""
        load, path = read_answer(self.folder / "load.json", Load), self.folder / "load.bin"
        chunks = whole(path, CHUNK, load.chunks)
        begin, end = chunks["begin"], chunks["end"]
        if ((end < begin) | (begin < load.clock_begin.tsc) | (end > load.clock_end.tsc)).any():
            raise RunError("has a chunk that did not lie within its load", where=str(path))
        return chunks

    def put_run(self, run: str, histograms: bool = True) -> None:
        """What a run of the observer says of itself: runs, counters; periods and threads where they are written."""
        with self.part(run):
            observed = self.observed(run)
            self.put("runs", {"run": run, **_counted(observed)})
            counters = [_counter(signal, signal.refusal is None) for signal in observed.signals]
            refused = [_counter(signal, False) for signal in observed.refused]
            self.put("counters", pd.DataFrame([*counters, *refused]).assign(run=run))
        if histograms:
            with self.part(f"{run}: periods"):
                self._put_periods(run)
            with self.part(f"{run}: threads"):
                self._put_threads(run)

    def put_pieces(self, run: str, observed: Observed) -> Pieces | None:
        """How the host ran both vCPUs during a run, into `host`; None where nobody told the observer."""
        told = read_pieces(self.folder, run, observed)
        if told is not None:
            begin = (told.begin - told.begin[0]).astype("float64") / observed.tsc_hz
            self.put(
                "host", pd.DataFrame({"begin_s": begin, "waited": told.waited, "sound": told.sound}).assign(run=run)
            )
        return told

    def recheck(
        self, run: str, observed: Observed, delays: Mapping[int, int] | None = None, sound: Pieces | None = None
    ) -> Recheck:
        """The trust test done again; `delays`: cycles by number of the window end."""
        check = Recheck(Bounds.parse(observed.bounds), delays or {}, sound)
        for part in self.samples(run, observed):
            check.add(part)
        if delays is not None and check.delayed_numbers != [n for n in delays if n <= check.last_number]:
            raise RunError("other samples are delayed than those written", where=f"{self.folder}/{run}.injected.bin")
        return check

    def _put_periods(self, run: str) -> None:
        observed, path = self.observed(run), self.folder / f"{run}.periods.csv"
        periods = read_periods(path)
        _check_windows(periods, observed, path)
        shares = {f"p{100 * share:g}_ns": quantile(periods, share) for share in (0.1, 0.5, 0.9, 0.99)}
        self.put("periods", periods.assign(run=run, tsc_hz=observed.tsc_hz))
        self.put(
            "period_quantiles",
            {"run": run} | {name: cycles / observed.tsc_hz * 1e9 for name, cycles in shares.items()},
        )

    def _put_threads(self, run: str) -> None:
        observed, path = self.observed(run), self.folder / f"{run}.ids.csv"
        ids = read_csv(path, _IDS)
        _check_windows(ids, observed, path)
        counted = ids[COUNTER] if COUNTER in ids and observed.signal(COUNTER) is not None else math.nan
        threads = ids[[*_IDS]].assign(run=run, tsc_hz=observed.tsc_hz, instructions=counted)
        self.put("threads", threads.assign(thread=[self.thread(int(pid)) for pid in ids["pid"]]))


def _check_windows(table: pd.DataFrame, observed: Observed, path: Path) -> None:
    windows = int(table["windows"].sum())
    if windows != observed.windows:
        raise RunError(f"has {windows} windows, the observer judged {observed.windows}", where=str(path))


def _counted(observed: Observed) -> dict[str, Any]:
    samples, seconds, windows = observed.samples, observed.seconds, observed.windows
    return observed.as_columns() | {
        "asked_ns": observed.period_ns or observed.period_cycles / observed.tsc_hz * 1e9,
        "samples_per_s": ratio(samples, seconds),
        "period_mean_ns": ratio(seconds, samples) * 1e9,
        "trusted_share": ratio(observed.trusted, windows),
    }


def _counter(signal: Signal, used: bool) -> dict[str, Any]:
    return {**signal.as_columns(), "used": used, "reason": signal.refusal}
