# SPDX-License-Identifier: MIT
"""Who had the observed CPU: switches, idle periods and rates by thread, against the kernel's own trace."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from harness.errors import RunError
from harness.measure.raw import read_answer

from .observer.answers import Observed, Traced
from .observer.counting import Rates
from .observer.periods import histogram
from .observer.records import EVENT, SWITCH, Records, whole
from .observer.switches import common, match, missed_of, share_of, spans_seen, spans_traced, summary
from .run import COUNTER, IDLE, Bench

#: Slices of a timeline that are kept of each workload and source.
MOST_SLICES = 4000
#: Places of the rate over time.
INTERVALS = 200
KINDS = {0: "dec-jnz", 1: "divide", 2: "memory", 3: "syscall"}
BUSY = 1
RUN = "observer"


def switches(bench: Bench) -> None:
    """The observer's log against the kernel's trace."""
    bench.read_names()
    bench.put_run(RUN)
    with bench.part("switches"):
        observed = with_slots(bench)
        log, trace = logs(bench, observed)
        matched = match(log, trace)
        compared = summary(log, trace, matched)
        pieces = bench.put_pieces(RUN, observed)
        if pieces is None:
            missed, counted = (
                (0 if math.isnan(compared["missed"]) else int(compared["missed"])),
                int(compared["events"]),
            )
        else:
            missed, counted = missed_of(trace, matched, pieces.hold(trace["time"]))
        lags = {f"{name}_us": compared.pop(name) / observed.tsc_hz * 1e6 for name in ("lag_median", "lag_most")}
        bench.put(
            "switches",
            {
                **compared,
                **lags,
                "sound_share": math.nan if pieces is None else pieces.sound_share,
                "sound": counted,
                "sound_missed": missed,
                "unsound": None if pieces is None else pieces.reason,
                "per_s": _rate(trace, observed),
                "overrun": _traced(bench).overrun,
                "log_lost": observed.switches_lost,
            },
        )
    _put_spans(bench)


def pattern(bench: Bench) -> None:
    """Idle periods: as the observer saw them, as the kernel's trace has them, as the load made them."""
    bench.read_names()
    bench.put_run(RUN)
    with bench.part("idle"):
        observed = with_slots(bench)
        log, trace = logs(bench, observed)
        seen, traced = spans_seen(log), spans_traced(trace)
        begin, end = common(seen, traced)
        pieces = bench.put_pieces(RUN, observed)
        matched, idle = match(log, trace), trace["next"] == IDLE
        sound = idle if pieces is None else idle & pieces.hold(trace["time"])
        (missed, periods), (missed_all, periods_all) = (missed_of(trace, matched, chosen) for chosen in (sound, idle))
        bench.put(
            "idle",
            {
                "seen_share": share_of(seen, IDLE, begin, end),
                "truth_share": share_of(traced, IDLE, begin, end),
                "load_share": 1 - share_of(_busy(bench.chunks()), BUSY, begin, end),
                "periods": periods,
                "missed": missed,
                "periods_all": periods_all,
                "missed_all": missed_all,
                "seconds": (end - begin) / observed.tsc_hz,
                "unsound": None if pieces is None else pieces.reason,
            },
        )
    _put_spans(bench)


def phases(bench: Bench) -> None:
    """Rate of instructions by thread: over time, and in all against the known one."""
    bench.read_names()
    bench.put_run(RUN)
    with bench.part("rates"):
        observed = bench.observed(RUN)
        column = observed.signal(COUNTER)
        if column is not None:
            _put_rates(bench, observed, column)
    _put_spans(bench)


def with_slots(bench: Bench) -> Observed:
    """The run of the observer; RunError where it had no slots to look at."""
    observed = bench.observed(RUN)
    if observed.ppid is None:
        raise RunError(f"no slots: {observed.ppid_reason}")
    return observed


def _traced(bench: Bench) -> Traced:
    return read_answer(bench.folder / "truth.json", Traced)


def logs(bench: Bench, observed: Observed) -> tuple[Records, Records]:
    """The switches that the observer saw, and those of the trace, each in order of time."""
    log = whole(bench.folder / f"{RUN}.switches.bin", SWITCH, observed.switches_written)
    return log, whole(bench.folder / "truth.bin", EVENT, _traced(bench).events)


def _rate(trace: Records, observed: Observed) -> float:
    """Switches in the trace in a second of the observation; NaN without any."""
    begin, end = observed.clock_begin.tsc, observed.clock_end.tsc
    meanwhile = int(((trace["time"] >= begin) & (trace["time"] < end)).sum())
    return meanwhile / observed.seconds if observed.seconds and meanwhile else math.nan


def _busy(chunks: Records) -> pd.DataFrame:
    """Spans of the load: BUSY where it worked, else IDLE."""
    return pd.DataFrame(
        {
            "pid": np.where(chunks["kind"] == BUSY, BUSY, IDLE),
            "begin": chunks["begin"].astype(np.int64),
            "end": chunks["end"].astype(np.int64),
        }
    )


def _put_spans(bench: Bench) -> None:
    """How long a thread, or idle, had the CPU; and the CPU's timeline, from where log and trace both begin."""
    with bench.part("timeline"):
        observed = bench.observed(RUN)
        if observed.ppid is None:
            return
        log, trace = logs(bench, observed)
        seen, traced = spans_seen(log), spans_traced(trace)
        for source, spans in (("seen", seen), ("truth", traced)):
            for what in ("idle", "thread"):
                chosen = spans[spans["whole"] & ((spans["pid"] == IDLE) == (what == "idle"))]
                counts = histogram((chosen["end"] - chosen["begin"]) / observed.tsc_hz * 1e6)
                bench.put("intervals", counts.assign(source=source, what=what))
        begin, end = common(seen, traced)
        for track, spans in (("seen by the observer", seen), ("sched_switch", traced)):
            chosen = spans[(spans["end"] > begin) & (spans["begin"] < end)].iloc[:MOST_SLICES]
            bench.put("slices", _turns(bench, chosen, begin, end, observed.tsc_hz).assign(track=track))


def _turns(bench: Bench, spans: pd.DataFrame, begin: int, end: int, tsc_hz: float) -> pd.DataFrame:
    low = spans["begin"].clip(lower=begin)
    return pd.DataFrame(
        {
            "name": [bench.thread(int(pid)) for pid in spans["pid"]],
            "start_s": (low - begin) / tsc_hz,
            "duration_s": (spans["end"].clip(upper=end) - low).clip(lower=0) / tsc_hz,
        }
    )


def _put_rates(bench: Bench, observed: Observed, column: int) -> None:
    interval = max(1, int(observed.seconds * observed.tsc_hz / INTERVALS))
    rates, unfiltered = Rates(interval, column), Rates(interval, column, trusted=False)
    for part in bench.samples(RUN, observed):
        rates.add(part)
        unfiltered.add(part)
    counted = rates.frame()
    chunks = pd.DataFrame(bench.chunks())
    first = chunks.drop_duplicates("tid")[["tid", "kind"]].itertuples(index=False)
    kinds = {int(tid): KINDS.get(int(kind), str(kind)) for tid, kind in first}

    def label(pid: int) -> str:
        return f"{kinds[pid]} {pid}" if pid in kinds else bench.thread(pid)

    seconds = counted["cycles"] / observed.tsc_hz
    by_time = counted[["pid", "windows"]].assign(
        thread=[label(int(pid)) for pid in counted["pid"]],
        start_s=counted["place"] * interval / observed.tsc_hz,
        seconds=seconds,
        instructions=counted["count"],
        per_s=counted["count"] / seconds,
    )
    bench.put("rates", by_time)
    seen, seen_all = (_per_cycle(frame) for frame in (counted, unfiltered.frame()))
    rows: list[dict[str, Any]] = []
    for pid in sorted(kinds):
        own = chunks[(chunks["tid"] == pid) & (chunks["instructions"] > 0)]
        if pid in seen and len(own):
            known = own["instructions"].sum() / (own["end"] - own["begin"]).sum()
            row = {"thread": label(pid), "mix": kinds[pid], "known": known}
            row |= {"seen": seen[pid], "error": seen[pid] / known - 1}
            rows.append(row | {"seen_all": seen_all[pid], "error_all": seen_all[pid] / known - 1})
    bench.put("thread_rates", rows)


def _per_cycle(rates: pd.DataFrame) -> dict[int, float]:
    """Instructions per cycle of the clock, by thread."""
    total = rates.groupby("pid")[["count", "cycles"]].sum()
    pids = total.index.to_numpy().tolist()
    return dict(zip(pids, (total["count"] / total["cycles"]).astype("float64").tolist(), strict=True))
