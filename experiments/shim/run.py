"""One run of the observer: what it says, its histograms, its samples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from harness.measure.raw import read_answer, read_csv

from .found import Found
from .observer.answers import Observed, read_names
from .observer.periods import quantile, read_periods
from .observer.pieces import Pieces, read_pieces
from .observer.records import Records, pieces, sample_type
from .observer.trust import Bounds, Recheck

COUNTER = "instructions"
IDLE = 0
#: Rows of ids.csv that are no thread.
OTHERS = {-1: "(never seen)", -2: "(switching)", -3: "(others)"}


def observed(found: Found, folder: Path, run: str) -> Observed:
    """shim.json and periods.csv of a run, into runs, counters, periods and threads."""
    said = read_answer(folder / f"{run}.shim.json", Observed)
    row: dict[str, Any] = {
        "run": run,
        "asked_ns": said.period_ns or said.period_cycles / said.tsc_hz * 1e9,
        "seconds": said.seconds,
        "tsc_hz": said.tsc_hz,
        "samples": said.samples,
        "samples_per_s": said.samples / said.seconds if said.seconds else math.nan,
        "period_mean_ns": said.seconds / said.samples * 1e9 if said.samples else math.nan,
        "windows": said.windows,
        "trusted": said.trusted,
        "trusted_share": said.trusted / said.windows if said.windows else math.nan,
        "zero": said.zero,
        "samples_lost": said.samples_lost,
        "switches_slot": said.switches_slot,
        "switches_seen": said.switches_seen,
        "switches_missed": said.switches_missed,
        "switches_lost": said.switches_lost,
        "torn": said.torn,
        "ppid": said.ppid,
        "ppid_reason": said.ppid_reason,
    }
    path = folder / f"{run}.periods.csv"
    if path.is_file():
        periods = read_periods(path)
        for share in (0.1, 0.5, 0.9, 0.99):
            row[f"period_p{100 * share:g}_ns"] = quantile(periods, share) / said.tsc_hz * 1e9
        found.put("periods", periods.assign(run=run, tsc_hz=said.tsc_hz))
    found.put("runs", [row])
    found.put(
        "counters",
        [
            {"run": run, "used": used, **signal.model_dump()}
            for used, signals in ((True, said.signals), (False, said.refused))
            for signal in signals
        ],
    )
    path = folder / f"{run}.ids.csv"
    if path.is_file():
        ids = read_csv(path, ("pid", "tgid", "cycles", "windows", "trusted", "trusted_cycles"))
        columns = ["pid", "tgid", "cycles", "windows", "trusted", "trusted_cycles"]
        if COUNTER in ids:
            columns.append(COUNTER)
        names = read_names(folder / "truth.comms.csv")
        ids = ids[columns].assign(run=run, tsc_hz=said.tsc_hz)
        found.put("threads", ids.assign(thread=[thread(int(pid), names) for pid in ids["pid"]]))
    return said


def host_pieces(found: Found, folder: Path, run: str, said: Observed) -> Pieces | None:
    """How the host ran both vCPUs during a run, into `host`; None where nobody told the observer."""
    pieces = read_pieces(folder, run, said)
    if pieces is not None:
        begin = (pieces.begin - pieces.begin[0]).astype("float64") / said.tsc_hz
        rows = {"begin_s": begin, "waited": pieces.waited, "sound": pieces.sound}
        found.put("host", pd.DataFrame(rows).assign(run=run))
    return pieces


def thread(pid: int, names: dict[int, str]) -> str:
    if pid in OTHERS:
        return OTHERS[pid]
    return names[pid] if pid == IDLE else f"{names.get(pid, 'thread')} {pid}"


def samples(folder: Path, run: str, said: Observed) -> Iterator[Records]:
    return pieces(folder / f"{run}.samples.bin", sample_type(len(said.signals)))


def recheck(
    folder: Path, run: str, said: Observed, delays: dict[int, int] | None = None, pieces: Pieces | None = None
) -> Recheck:
    """`delays`: cycles by number of the window end."""
    check = Recheck(Bounds.parse(said.bounds), delays or {}, pieces)
    for part in samples(folder, run, said):
        check.add(part)
    return check
