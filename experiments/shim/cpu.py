"""Who had the observed CPU: switches, idle periods and rates by thread, against the kernel's own trace."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd

from harness.errors import RunError
from harness.measure.raw import read_answer

from .found import Found, Trial
from .observer.answers import Traced, read_names
from .observer.counting import Rates
from .observer.periods import histogram
from .observer.records import CHUNK, EVENT, SWITCH, Records, whole
from .observer.switches import (
    common,
    match,
    missed_of,
    share_of,
    spans_seen,
    spans_traced,
    summary,
)
from .run import COUNTER, IDLE, host_pieces, observed, samples, thread

#: Slices of a timeline that are kept of each workload and source.
MOST_SLICES = 4000
#: Places of the rate over time.
INTERVALS = 200
KINDS = {0: "dec-jnz", 1: "divide", 2: "memory", 3: "syscall"}
BUSY = 1


def switches(found: Found, trial: Trial, folder: Path) -> None:
    """The observer's log against the kernel's trace."""
    said = observed(found, folder, "observer")
    if said.ppid is None:
        raise RunError(f"no slots: {said.ppid_reason}")
    log, trace = _logs(folder, "observer")
    matched = match(log, trace)
    about = summary(log, trace, matched)
    pieces = host_pieces(found, folder, "observer", said)
    missed, counted = (
        missed_of(trace, matched, pieces.hold(trace["time"]))
        if pieces is not None
        else (about["missed"], about["events"])
    )
    meanwhile = (trace["time"] >= said.clock_begin.tsc) & (trace["time"] < said.clock_end.tsc)
    rate = int(meanwhile.sum()) / said.seconds if said.seconds and meanwhile.any() else math.nan
    told = read_answer(folder / "truth.json", Traced)
    lags = {f"{name}_us": about.pop(name) / said.tsc_hz * 1e6 for name in ("lag_median", "lag_most")}
    sound = math.nan if pieces is None else pieces.sound_share
    found.put(
        "switches",
        [
            {
                **about,
                **lags,
                "sound_share": sound,
                "sound": counted,
                "sound_missed": missed,
                "per_s": rate,
                "overrun": told.overrun,
                "log_lost": said.switches_lost,
            }
        ],
    )
    _intervals(found, log, trace, said.tsc_hz)
    _slices(found, folder, spans_seen(log), spans_traced(trace), said.tsc_hz)
    few = "the trace and the switches seen have less than two in common"
    lost = f"{said.switches_lost} switches that were seen were lost on their way into the file"
    found.value("switches_per_s", rate, "switches/s", few)
    none = lost if said.switches_lost else few
    whole_log = about["events"] > 0 and not said.switches_lost
    found.value("missed_switches_share_all", about["missed_share"] if whole_log else None, "1", none)
    taken = pieces.reason if pieces is not None else None
    share = missed / counted if whole_log and counted and not taken else None
    found.value("missed_switches_share", share, "1", none if said.switches_lost else taken or few)
    found.value("sound_share", sound, "1", said.host_reason)
    found.value(
        "missed_switches_share_slot",
        said.switches_missed / said.switches_slot if said.switches_slot else None,
        "1",
        "the slot counted no switch",
    )
    compared = about["compared"] > 0
    found.value("compared_switches", about["compared"] if compared else None, "switches", few)
    found.value("wrong_threads", about["wrong"] if compared else None, "switches", few)
    found.value("unmatched_switches", about["unmatched"] + abs(about["drift"]) if compared else None, "switches", few)


def _logs(folder: Path, run: str) -> tuple[Records, Records]:
    return whole(folder / f"{run}.switches.bin", SWITCH), whole(folder / "truth.bin", EVENT)


def _intervals(found: Found, log: Records, trace: Records, tsc_hz: float) -> None:
    """Histograms of how long a thread, or idle, had the CPU: as seen, and as it was."""
    for source, spans in (("seen", spans_seen(log)), ("truth", spans_traced(trace))):
        for what in ("idle", "thread"):
            mine = spans[spans["whole"] & ((spans["pid"] == IDLE) == (what == "idle"))]
            counts = histogram((mine["end"] - mine["begin"]) / tsc_hz * 1e6)
            found.put("intervals", counts.assign(source=source, what=what))


def _slices(found: Found, folder: Path, seen: pd.DataFrame, traced: pd.DataFrame, tsc_hz: float) -> None:
    """The CPU's timeline, from where both begin."""
    begin, end = common(seen, traced)
    if not end:
        return
    names = read_names(folder / "truth.comms.csv")
    for track, spans in (("seen by the observer", seen), ("sched_switch", traced)):
        mine = spans[(spans["end"] > begin) & (spans["begin"] < end)].iloc[:MOST_SLICES]
        low = mine["begin"].clip(lower=begin)
        found.put(
            "slices",
            pd.DataFrame(
                {
                    "track": track,
                    "name": [thread(int(pid), names) for pid in mine["pid"]],
                    "start_s": (low - begin) / tsc_hz,
                    "duration_s": (mine["end"].clip(upper=end) - low).clip(lower=0) / tsc_hz,
                }
            ),
        )


def pattern(found: Found, trial: Trial, folder: Path) -> None:
    """Idle periods: as the observer saw them, as the kernel's trace has them, as the load made them."""
    said = observed(found, folder, "observer")
    if said.ppid is None:
        raise RunError(f"no slots: {said.ppid_reason}")
    log, trace = _logs(folder, "observer")
    seen, traced = spans_seen(log), spans_traced(trace)
    begin, end = common(seen, traced)
    mine, truth = share_of(seen, IDLE, begin, end), share_of(traced, IDLE, begin, end)
    pieces = host_pieces(found, folder, "observer", said)
    sound = pieces.hold(trace["time"]) if pieces is not None else np.ones(len(trace), dtype=bool)
    missed, periods = missed_of(trace, match(log, trace), (trace["next"] == IDLE) & sound)
    chunks = whole(folder / "load.bin", CHUNK)
    busy = pd.DataFrame(
        {
            "pid": np.where(chunks["kind"] == BUSY, BUSY, IDLE),
            "begin": chunks["begin"].astype(np.int64),
            "end": chunks["end"].astype(np.int64),
        }
    )
    found.put(
        "idle",
        [
            {
                "seen_share": mine,
                "truth_share": truth,
                "load_share": 1 - share_of(busy, BUSY, begin, end),
                "periods": periods,
                "missed": missed,
                "seconds": (end - begin) / said.tsc_hz,
            }
        ],
    )
    _intervals(found, log, trace, said.tsc_hz)
    _slices(found, folder, seen, traced, said.tsc_hz)
    few = "the trace and the switches seen cover no time together"
    found.value("idle_share_error", abs(mine - truth), "1", few)
    taken = pieces.reason if pieces is not None else None
    found.value("idle_periods", periods or None, "periods", taken or few)
    share = missed / periods if periods and not taken else None
    found.value("idle_periods_missed_share", share, "1", taken or few)


def phases(found: Found, trial: Trial, folder: Path) -> None:
    """Rate of instructions by thread: over time, and in all against the known one."""
    said = observed(found, folder, "observer")
    if (folder / "truth.bin").is_file() and (folder / "observer.switches.bin").is_file():
        log, trace = _logs(folder, "observer")
        _intervals(found, log, trace, said.tsc_hz)
        _slices(found, folder, spans_seen(log), spans_traced(trace), said.tsc_hz)
    column = said.signal(COUNTER)
    if column is None:
        raise RunError(said.why_not(COUNTER))
    interval = max(1, int(said.seconds * said.tsc_hz / INTERVALS))
    rates = Rates(interval, column)
    for part in samples(folder, "observer", said):
        rates.add(part)
    frame = rates.frame()
    names = read_names(folder / "truth.comms.csv")
    chunks = pd.DataFrame(whole(folder / "load.bin", CHUNK))
    kinds = chunks.groupby("tid")["kind"].first().to_dict()

    def label(pid: int) -> str:
        kind = kinds.get(pid)
        return thread(pid, names) if kind is None else f"{KINDS.get(int(kind), kind)} {pid}"

    frame = frame.assign(thread=[label(int(pid)) for pid in frame["pid"]])
    found.put(
        "rates",
        frame.assign(
            start_s=frame["place"] * interval / said.tsc_hz,
            seconds=frame["cycles"] / said.tsc_hz,
            per_us=frame["count"] / frame["cycles"] * said.tsc_hz / 1e6,
        )[["thread", "pid", "start_s", "seconds", "windows", "count", "per_us"]],
    )
    total = frame.groupby("pid")[["count", "cycles"]].sum()
    rows = []
    for tid, mine in chunks[chunks["instructions"] > 0].groupby("tid"):
        if tid in total.index:
            known = mine["instructions"].sum() / (mine["end"] - mine["begin"]).sum()
            seen = total.loc[tid, "count"] / total.loc[tid, "cycles"]
            rows.append({"thread": label(int(tid)), "known": known, "seen": seen, "error": seen / known - 1})
    found.put("thread_rates", rows)
    worst = max((abs(row["error"]) for row in rows), default=None)
    found.value("thread_rate_error", worst, "1", "no thread of known work was seen")
