# SPDX-License-Identifier: MIT
"""Raw folders of shim's trials into the tables of declared.py: every workload but those of cpu.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.errors import RunError
from harness.measure.raw import Trial, read_answer, read_csv, read_json
from harness.measure.rows import TableRows

from .cpu import pattern, phases, switches
from .declared import TABLES
from .exact import decode_exact
from .gaps import decode_gaps
from .hand import decode_hand
from .hello import decode_hello
from .observer.answers import Ids, Load, Observed, Rights, TimerSampled
from .observer.counting import Counters, costs
from .observer.records import INJECTED, whole
from .observer.trust import Recheck
from .published import decode_published
from .run import COUNTER, Bench

#: Comparisons of a thread before it hands the CPU over (shimload check).
PER_TURN = 100
#: Why nothing is said of an idle CPU.
NO_CPU = "the CPU could be plugged in, and is not there"


def decode(trials: Sequence[Trial]) -> dict[str, pd.DataFrame]:
    """Every declared table; what a file that is absent or damaged would have told is a row of `problems`."""
    rows = TableRows(TABLES)
    for trial in trials:
        for workload in trial.workloads:
            if workload in WORKLOADS:
                WORKLOADS[workload](Bench(rows, trial, workload))
    return rows.frames()


def _check(bench: Bench) -> None:
    with bench.part("check"):
        load = read_answer(bench.folder / "load.json", Load)
        if load.checks is None or load.wrong is None:
            raise RunError("the load does not check", where=str(bench.folder / "load.json"))
        turn = load.seconds / load.checks * PER_TURN * 1e9 if load.checks else None
        bench.put("checks", {"checks": load.checks, "wrong": load.wrong, "switches": load.switches, "turn_ns": turn})


def _rights(bench: Bench) -> None:
    with bench.part("rights"):
        rights = read_answer(bench.folder / "rights.json", Rights)
        idle = {"asked": rights.idle.of, "given": rights.idle.seen} if rights.idle else {"asked": 0, "given": 0}
        idle_reason = None if rights.idle else NO_CPU
        rows: list[dict[str, Any]] = [
            *({"what": name, "answer": answer} for name, answer in rights.writers.items()),
            {"what": "idle CPU", "answer": _ids(rights.idle), "reason": idle_reason, **idle},
            {"what": "offline CPU", "answer": _ids(rights.offline), "reason": rights.offline_reason},
            {"what": "online again", "answer": _ids(rights.online_again)},
            {"what": "unload while mapped", "answer": rights.unload_while_mapped},
            {"what": "own CPU, switched off", "answer": _ids(rights.after_off)},
            {"what": "open, switched off", "answer": rights.open_after_off},
            {"what": "own CPU is right, before switching off", "answer": _yes(rights.own_before_off)},
            {"what": "own CPU is right, switched on again", "answer": _yes(rights.own_after_on)},
        ]
        bench.put("rights", [{"asked": 1, "given": 1, "reason": None, **row} for row in rows])


def _ids(ids: Ids | None) -> str | None:
    return None if ids is None else f"{ids.pid}/{ids.tgid}"


def _yes(answer: bool | None) -> str | None:
    return None if answer is None else "yes" if answer else "no"


def _trust(bench: Bench) -> None:
    bench.put_run("clean")
    with bench.part("clean: samples"):
        observed = bench.observed("clean")
        if observed.samples_written:
            bench.put("recheck", _rechecked("clean", bench.recheck("clean", observed)))
    bench.put_run("injected")
    with bench.part("injected: samples"):
        _injected(bench)


def _injected(bench: Bench) -> None:
    """Delays put into chosen samples, judged from the file, which may not hold the whole run."""
    observed = bench.observed("injected")
    delays = whole(bench.folder / "injected.injected.bin", INJECTED, observed.injected)
    pieces = bench.put_pieces("injected", observed)
    by_number = {int(delay["number"]): int(delay["delay"]) for delay in delays}
    check = bench.recheck("injected", observed, by_number, pieces)
    by_program = observed.injected_windows + observed.injected_long
    if check.samples == observed.windows + 1 and check.delayed != by_program:
        raise RunError(f"{check.delayed} windows touch a delay by the file, {by_program} by the program")
    unsound = None if pieces is None else pieces.reason
    bench.put("recheck", {**_rechecked("injected", check), "unsound": unsound})
    if len(delays):
        shortest, longest = (float(f(delays["delay"])) / observed.tsc_hz * 1e9 for f in (np.min, np.max))
        bench.put("delays", {"delays": len(delays), "shortest_ns": shortest, "longest_ns": longest})


def _rechecked(run: str, check: Recheck) -> dict[str, Any]:
    names = (
        "samples", "gaps", "windows", "trusted", "wrong", "same_ids", "delayed", "long_delay", "long_delay_trusted",
        "beyond", "beyond_trusted", "short_trusted", "clean_all", "clean_all_trusted", "clean", "clean_trusted",
    )  # fmt: skip
    return {"run": run, "unsound": None, **{name: getattr(check, name) for name in names}}


def _timer(bench: Bench) -> None:
    """The observer and the timer sampler, one after the other on one target, then both at once."""
    bench.put_run("fast")
    for name, when in (("timer.json", "alone"), ("both.timer.json", "both")):
        with bench.part(f"timer sampler: {when}"):
            timer = read_answer(bench.folder / name, TimerSampled)
            bench.put("timer", {"when": when, **timer.as_columns()})
    bench.put_run("both")
    with bench.part("cost"):
        observed, timer = bench.observed("fast"), read_answer(bench.folder / "timer.json", TimerSampled)
        chunks = bench.chunks()
        if timer.clock_begin is not None and timer.clock_end is not None:
            spans = {
                "observer": (observed.clock_begin, observed.clock_end),
                "timer sampler": (timer.clock_begin, timer.clock_end),
            }
            phases = {what: np.array([[one.tsc, two.tsc]], dtype=np.uint64) for what, (one, two) in spans.items()}
            bench.put("cost", costs(chunks, phases))


def _disturb(bench: Bench) -> None:
    """The timer sampler alone, on its target's own CPU."""
    with bench.part("disturb"):
        timer = read_answer(bench.folder / "timer.json", TimerSampled)
        bench.put("timer", {"when": "alone", **timer.as_columns()})
        if timer.clock_begin is not None and timer.clock_end is not None:
            span = np.array([[timer.clock_begin.tsc, timer.clock_end.tsc]], dtype=np.uint64)
            bench.put("cost", costs(bench.chunks(), {"timer sampler": span}))


def _cost(bench: Bench) -> None:
    """The target's speed beside the observer, beside a program that spins and looks at nothing, and beside nobody."""
    for path in sorted(bench.folder.glob("on*.shim.json")):
        bench.put_run(path.name.removesuffix(".shim.json"), histograms=False)
    with bench.part("cost"):
        runs = len(list(bench.folder.glob("on*.shim.json")))
        phases = {
            what: _phases(bench.folder / f"{name}.csv", runs) for what, name in (("observer", "on"), ("spin", "spin"))
        }
        bench.put("cost", costs(bench.chunks(), phases))


def _phases(path: Path, runs: int) -> npt.NDArray[np.uint64]:
    spans = read_csv(path, ("begin", "end"))[["begin", "end"]].to_numpy(dtype=np.uint64)
    if len(spans) != runs or (spans[:, 1] <= spans[:, 0]).any() or (spans[1:, 0] < spans[:-1, 1]).any():
        raise RunError(f"holds no {runs} spans, one after the other, as the observer had runs", where=str(path))
    return spans


def _known(bench: Bench) -> None:
    """The counter over chunks of known work, at its own check before the run, and what the program refuses."""
    bench.put_run("known")
    with bench.part("counter"):
        observed = bench.observed("known")
        column = observed.signal(COUNTER)
        if column is not None:
            bench.put("known", _counter_error(bench, observed, column))
    bench.put_run("wrong")
    with bench.part("events"):
        path = bench.folder / "list.json"
        events = read_json(path).get("events")
        if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
            raise RunError("is no list of events", where=str(path))
        names = ("name", "source", "scope", "reason")
        bench.put("events", [{name: event.get(name) for name in names} for event in events])


def _counter_error(bench: Bench, observed: Observed, column: int) -> dict[str, Any]:
    """Counted over known from the first chunk that lies between samples to the last: chunks follow each other closely,
    and only the two ends are not exactly at samples.
    """
    none = {"chunks": 0, "source": observed.signals[column].source}
    chunks = bench.chunks()
    chunks = chunks[chunks["instructions"] > 0]
    value, width = _counted_at(bench, observed, np.stack([chunks["begin"], chunks["end"]], axis=1), column)
    kept = np.flatnonzero(np.isfinite(value).all(axis=1))
    if not kept.size:
        return none | {"reason": "no chunk of known work lies between samples"}
    # Not where the observer was away for long at just that moment.
    usual = 2 * np.nanmedian(width)
    first = kept[np.argmax(width[kept, 0] <= usual)]
    last = kept[-1 - int(np.argmax(width[kept[::-1], 1] <= usual))]
    if last < first:
        return none | {"reason": "no chunk of known work lies between samples that are close"}
    span = float(chunks["end"][last] - chunks["begin"][first])
    inside = chunks[first : last + 1]
    counted, known = value[last, 1] - value[first, 0], float(inside["instructions"].sum())
    each = (value[kept, 1] - value[kept, 0]) / chunks["instructions"][kept] - 1
    return none | {
        "chunks": len(inside),
        "counted": counted,
        "known": known,
        "error": counted / known - 1,
        "error_median": float(np.median(each)),
        "outside": 1 - float((inside["end"] - inside["begin"]).sum()) / span,
        "unsure": (width[first, 0] + width[last, 1]) / span,
        "reason": None,
    }


def _counted_at(
    bench: Bench, observed: Observed, moments: npt.NDArray[np.uint64], column: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """A counter's value at each moment, and the distance of the samples around it in cycles; shapes as `moments`."""
    flat = moments.reshape(-1)
    order = np.argsort(flat, kind="stable")
    counters = Counters(flat[order], len(observed.signals))
    for part in bench.samples("known", observed):
        counters.add(part)
    value, width = np.empty(flat.size), np.empty(flat.size)
    value[order], width[order] = counters.value[:, column], counters.width
    return value.reshape(moments.shape), width.reshape(moments.shape)


WORKLOADS: dict[str, Callable[[Bench], None]] = {
    "rights": _rights,
    "check": _check,
    "counters": decode_published,
    "exact": decode_exact,
    "hello": decode_hello,
    "hand": decode_hand,
    "disturb": _disturb,
    "gaps": decode_gaps,
    "switches": switches,
    "trust": _trust,
    "timer": _timer,
    "cost": _cost,
    "known": _known,
    "pattern": pattern,
    "phases": phases,
}
