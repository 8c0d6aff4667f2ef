"""Raw folders of shim's trials into tables and measured values; see `analysis.tables`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.errors import RunError
from harness.measure.hostsched import host_waited
from harness.measure.raw import read_answer, read_csv

from .cpu import pattern, phases, switches
from .found import Found, Part, Trial, guarded
from .observer.answers import Load, Observed, Rights, TimerSampled
from .observer.counting import Counters, costs
from .observer.records import CHUNK, INJECTED, whole
from .observer.trust import Recheck
from .run import COUNTER, host_pieces, observed, recheck, samples

TRIAL = ("arm", "trial", "ppid", "period", "clock", "fidelity", "pmu", "host_wait", "marked")
#: Of the time of known work, how much may be uncertain.
CLOSE = 0.01


def decode(trials: Sequence[Trial]) -> dict[str, pd.DataFrame]:
    """Everything; what a file that is absent or damaged would have told is absent with that as its reason."""
    found = Found()
    about = []
    for trial in trials:
        found.key = {"arm": trial.arm, "trial": trial.repetition}
        waited, reason = host_waited(trial.path)
        if trial.clock == "virtual":
            reason = None  # the host's time is not the guest's
        about.append(
            found.key
            | {
                "ppid": str(trial.params.get("ppid", "")),
                "period": str(trial.params.get("period", "")),
                "clock": trial.clock,
                "fidelity": trial.fidelity,
                "pmu": trial.pmu,
                "host_wait": waited,
                "marked": reason,
            }
        )
        for workload in trial.workloads:
            found.workload = workload
            for part in PARTS.get(workload, ()):
                guarded(found, part, trial, trial.path / workload)
    return {"trials": pd.DataFrame(about, columns=[*TRIAL]).astype({"marked": "object"})} | found.tables()


# -- workloads ------------------------------------------------------------------------------------------------


def _check(found: Found, trial: Trial, folder: Path) -> None:
    said = read_answer(folder / "load.json", Load)
    found.value("slot_checks", said.checks, "checks", "the load does not check")
    found.value("slot_wrong", said.wrong, "checks", "the load does not check")


def _rights(found: Found, trial: Trial, folder: Path) -> None:
    said = read_answer(folder / "rights.json", Rights)
    writers = said.writers
    idle = said.idle.pid == 0 and said.idle.tgid == 0 and said.idle.seen > 0
    offline = said.offline is not None and said.offline.pid == -1 and said.offline.tgid == -1
    found.put(
        "rights",
        [
            *({"what": name, "answer": answer} for name, answer in writers.items()),
            {"what": "idle CPU", "answer": f"{said.idle.pid} in {said.idle.seen} of {said.idle.of} reads"},
            {"what": "offline CPU", "answer": str(said.offline.pid if said.offline else said.offline_reason)},
            {"what": "online again", "answer": str(said.online_again.pid if said.online_again else None)},
            {"what": "unload while mapped", "answer": str(said.unload_while_mapped)},
            {"what": "own CPU, switched off", "answer": str(said.after_off.pid if said.after_off else None)},
            {"what": "open, switched off", "answer": str(said.open_after_off)},
            {"what": "own CPU before and after", "answer": f"right: {said.own_before_off}, {said.own_after_on}"},
        ],
    )
    found.value("write_refused", set(writers.values()) == {"EACCES"}, "1")
    found.value("idle_shown", idle, "1")
    found.value("offline_shown", offline if said.offline else None, "1", said.offline_reason)


def _clean(found: Found, trial: Trial, folder: Path) -> None:
    said = observed(found, folder, "clean")
    run = found.parts["runs"][-1].iloc[0]
    found.value("samples_per_s", run["samples_per_s"], "samples/s", "it took no time")
    found.value("trusted_share", run["trusted_share"], "1", "no window was judged")
    found.value("period_median_ns", run.get("period_p50_ns"), "ns", "no windows")
    wrong, reason = None, "samples of this period are not written"
    if (folder / "clean.samples.bin").is_file():
        check = recheck(folder, "clean", said)
        _put_recheck(found, "clean", check)
        wrong, reason = check.wrong if check.windows else None, "no window could be judged again"
    found.value("flags_wrong", wrong, "windows", reason)


def _put_recheck(found: Found, run: str, check: Recheck) -> None:
    names = (
        "samples",
        "gaps",
        "windows",
        "trusted",
        "wrong",
        "clean",
        "clean_trusted",
        "delayed",
        "delayed_trusted",
        "within_bounds",
        "alike",
        "same_ids",
    )
    found.put("recheck", [{"run": run, **{name: getattr(check, name) for name in names}}])


def _injected(found: Found, trial: Trial, folder: Path) -> None:
    """Delays put into chosen samples, judged from the file, which may not hold the whole run."""
    said = observed(found, folder, "injected")
    delays = whole(folder / "injected.injected.bin", INJECTED)
    if len(delays) != said.injected:
        raise RunError(f"{len(delays)} delays were written of {said.injected}")
    pieces = host_pieces(found, folder, "injected", said)
    check = recheck(folder, "injected", said, {int(d["number"]): int(d["delay"]) for d in delays}, pieces)
    _put_recheck(found, "injected", check)
    if check.samples == said.windows + 1 and check.delayed != said.injected_windows + said.injected_long:
        program = said.injected_windows + said.injected_long
        raise RunError(f"{check.delayed} windows touch a delay by the file, {program} by the program")
    if len(delays):
        shortest, longest = (float(f(delays["delay"])) / said.tsc_hz * 1e9 for f in (np.min, np.max))
        found.put("delays", [{"delays": len(delays), "shortest_ns": shortest, "longest_ns": longest}])
    excused = check.within_bounds + check.alike
    there = check.delayed > 0
    none = "no delay was put into any sample"
    found.value("injected_flags_wrong", check.wrong, "windows")
    found.value("injected_windows", check.delayed - excused if there else None, "windows", none)
    found.value("injected_trusted", check.delayed_trusted - excused if there else None, "windows", none)
    found.value("injected_within_bounds", check.within_bounds, "windows")
    found.value("injected_alike", check.alike, "windows")
    found.value("injected_trusted_program", said.injected_trusted if said.injected else None, "windows", none)
    taken = pieces.reason if pieces is not None else None
    share = check.clean_trusted / check.clean if check.clean and not taken else None
    found.value("clean_trusted_share", share, "1", taken or "every window in sound pieces touched a delay")


def _timer(found: Found, trial: Trial, folder: Path) -> None:
    """The observer and the timer sampler, one after the other on one target."""
    alone = observed(found, folder, "fast")
    timer = _timer_of(found, folder / "timer.json", "alone")
    rate = alone.samples / alone.seconds if alone.seconds else math.nan
    found.value("timer_samples_per_s", timer.samples_per_s or None, "samples/s", timer.reason or "no samples")
    ratio = rate / timer.samples_per_s if timer.samples_per_s else None
    found.value("rate_over_timer", ratio, "1", timer.reason or "the timer sampler took no sample")
    if not (folder / "load.bin").is_file() or timer.clock_begin is None or timer.clock_end is None:
        return
    spans = {"observer": (alone.clock_begin, alone.clock_end), "timer sampler": (timer.clock_begin, timer.clock_end)}
    phases = {what: np.array([[one.tsc, two.tsc]], dtype=np.uint64) for what, (one, two) in spans.items()}
    rows = costs(whole(folder / "load.bin", CHUNK), phases)
    found.put("cost", rows)
    middle = rows.groupby("what")["ratio"].median().to_dict()
    found.value("timer_cost", middle.get("timer sampler", math.nan) - 1, "1", "it has no chunks in it and beside it")


def _both(found: Found, trial: Trial, folder: Path) -> None:
    both = observed(found, folder, "both")
    timer = _timer_of(found, folder / "both.timer.json", "both")
    ratio = both.samples / both.seconds / timer.samples_per_s if timer.samples_per_s and both.seconds else None
    found.value("rate_over_timer_both", ratio, "1", timer.reason or "the timer sampler took no sample")


def _timer_of(found: Found, path: Path, when: str) -> TimerSampled:
    timer = read_answer(path, TimerSampled)
    names = ("period_ns", "samples", "lost", "throttled", "seconds", "samples_per_s", "reason")
    found.put("timer", [{"when": when, **{name: getattr(timer, name) for name in names}}])
    return timer


def _cost(found: Found, trial: Trial, folder: Path) -> None:
    """The target's speed beside the observer, beside a program that spins and looks at nothing, and beside nobody."""
    for path in sorted(folder.glob("*.shim.json")):
        observed(found, folder, path.name.removesuffix(".shim.json"))
    phases = {"observer": _phases_of(folder / "on.csv")}
    if (folder / "spin.csv").is_file():
        phases["spin"] = _phases_of(folder / "spin.csv")
    rows = costs(whole(folder / "load.bin", CHUNK), phases)
    found.put("cost", rows)
    middle = rows.groupby("what")["ratio"].median().to_dict()
    beside, spinning = middle.get("observer", math.nan), middle.get("spin", math.nan)
    few = "no phase of the kind has chunks in it and beside it"
    found.value("observer_cost", beside - 1, "1", few)
    found.value("spin_cost", spinning - 1, "1", few)
    found.value("observer_over_spin", beside / spinning - 1, "1", few)


def _phases_of(path: Path) -> npt.NDArray[np.uint64]:
    return read_csv(path, ("begin", "end"))[["begin", "end"]].to_numpy(dtype=np.uint64)


def _known(found: Found, trial: Trial, folder: Path) -> None:
    """The counter over chunks of known work, and at its own check before the run."""
    said = observed(found, folder, "known")
    column = said.signal(COUNTER)
    if column is None:
        raise RunError(said.why_not(COUNTER))
    signal = said.signals[column]
    checked = None if signal.known_error is None else abs(signal.known_error)
    found.value("counter_check_error", checked, "1", signal.reason or "was not checked")
    error, reason = _counter_error(found, folder, said, column)
    found.value("known_error", error, "1", reason)


def _counter_error(found: Found, folder: Path, said: Observed, column: int) -> tuple[float | None, str]:
    """Counted over known from the first chunk that lies between samples to the last: chunks follow each other closely,
    and only the two ends are not exactly at samples.
    """
    chunks = whole(folder / "load.bin", CHUNK)
    chunks = chunks[chunks["instructions"] > 0]
    value, width = _counted_at(folder, said, np.stack([chunks["begin"], chunks["end"]], axis=1), column)
    kept = np.flatnonzero(np.isfinite(value).all(axis=1))
    if not kept.size:
        return None, "no chunk of known work lies between samples"
    # Not where the observer was away for long at just that moment.
    usual = 2 * np.nanmedian(width)
    first = kept[np.argmax(width[kept, 0] <= usual)]
    last = kept[-1 - int(np.argmax(width[kept[::-1], 1] <= usual))]
    if last < first:
        return None, "no chunk of known work lies between samples that are close"
    span = float(chunks["end"][last] - chunks["begin"][first])
    inside = chunks[first : last + 1]
    counted, known = value[last, 1] - value[first, 0], float(inside["instructions"].sum())
    outside = 1 - float((inside["end"] - inside["begin"]).sum()) / span
    unsure = (width[first, 0] + width[last, 1]) / span
    each = (value[kept, 1] - value[kept, 0]) / chunks["instructions"][kept] - 1
    found.put(
        "known",
        [
            {
                "chunks": len(inside),
                "counted": counted,
                "known": known,
                "error": counted / known - 1,
                "error_median": float(np.median(each)),
                "outside": outside,
                "unsure": unsure,
                "source": said.signals[column].source,
            }
        ],
    )
    if outside > CLOSE or unsure > CLOSE:
        return None, f"{100 * outside:.2g} % of the time was between chunks, {100 * unsure:.2g} % at the ends"
    return abs(counted / known - 1), ""


def _counted_at(
    folder: Path, said: Observed, moments: npt.NDArray[np.uint64], column: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """A counter's value at each moment, and the distance of the samples around it in cycles; shapes as `moments`."""
    flat = moments.reshape(-1)
    order = np.argsort(flat, kind="stable")
    counters = Counters(flat[order], len(said.signals))
    for part in samples(folder, "known", said):
        counters.add(part)
    value, width = np.empty(flat.size), np.empty(flat.size)
    value[order], width[order] = counters.value[:, column], counters.width
    return value.reshape(moments.shape), width.reshape(moments.shape)


def _wrong(found: Found, trial: Trial, folder: Path) -> None:
    """A counter of another CPU than the loop's must have been refused."""
    said = observed(found, folder, "wrong")
    refused = [counter for counter in said.refused if counter.name == COUNTER and counter.known_counted is not None]
    if not refused and said.signal(COUNTER) is None:
        raise RunError(said.why_not(COUNTER))
    found.value("wrong_counter_refused", said.signal(COUNTER) is None and all(c.reason for c in refused), "1")


def _reasons(found: Found, trial: Trial, folder: Path) -> None:
    """Of the counters refused in any run of this workload, how many say why."""
    said = [read_answer(path, Observed) for path in sorted(folder.glob("*.shim.json"))]
    refused = [counter for run in said for counter in run.refused]
    share = sum(bool(counter.reason) for counter in refused) / len(refused) if refused else None
    found.value("refusal_reasons", share, "1", "no counter was refused")
    path = folder / "list.json"
    if path.is_file():
        try:
            events = json.loads(path.read_text())["events"]
            columns = ("name", "source", "scope", "reason")
            found.put("events", [{name: event.get(name) for name in columns} for event in events])
        except (ValueError, KeyError, AttributeError) as error:
            raise RunError(f"is no list of events: {error!r}", where=str(path)) from error


def _pmu(found: Found, trial: Trial, folder: Path) -> None:
    """The hardware's counter, where there is one: the same error as `known_error`, of the source pmu."""
    if not trial.pmu.startswith("ok"):
        found.value("pmu_known_error", None, "1", f"PMU {trial.pmu}")
        return
    said = read_answer(folder / "known.shim.json", Observed)
    own = [signal for signal in said.signals if signal.name == COUNTER and signal.source == "pmu"]
    error = abs(own[0].known_error) if own and own[0].known_error is not None else None
    found.value("pmu_known_error", error, "1", said.why_not(COUNTER))


PARTS: dict[str, tuple[Part, ...]] = {
    "rights": (({"write_refused": "1", "idle_shown": "1", "offline_shown": "1"}, _rights),),
    "check": (({"slot_checks": "checks", "slot_wrong": "checks"}, _check),),
    "switches": (
        (
            {
                "switches_per_s": "switches/s",
                "missed_switches_share": "1",
                "missed_switches_share_slot": "1",
                "missed_switches_share_all": "1",
                "sound_share": "1",
                "compared_switches": "switches",
                "wrong_threads": "switches",
                "unmatched_switches": "switches",
            },
            switches,
        ),
    ),
    "trust": (
        (
            {"samples_per_s": "samples/s", "trusted_share": "1", "period_median_ns": "ns", "flags_wrong": "windows"},
            _clean,
        ),
        (
            {
                "injected_windows": "windows",
                "injected_trusted": "windows",
                "injected_flags_wrong": "windows",
                "injected_within_bounds": "windows",
                "injected_alike": "windows",
                "injected_trusted_program": "windows",
                "clean_trusted_share": "1",
            },
            _injected,
        ),
    ),
    "timer": (
        ({"timer_samples_per_s": "samples/s", "rate_over_timer": "1", "timer_cost": "1"}, _timer),
        ({"rate_over_timer_both": "1"}, _both),
    ),
    "cost": (({"observer_cost": "1", "spin_cost": "1", "observer_over_spin": "1"}, _cost),),
    "known": (
        ({"known_error": "1", "counter_check_error": "1"}, _known),
        ({"wrong_counter_refused": "1"}, _wrong),
        ({"refusal_reasons": "1"}, _reasons),
        ({"pmu_known_error": "1"}, _pmu),
    ),
    "pattern": (({"idle_share_error": "1", "idle_periods": "periods", "idle_periods_missed_share": "1"}, pattern),),
    "phases": (({"thread_rate_error": "1"}, phases),),
}
