# SPDX-License-Identifier: MIT
"""What turns the claims of lock-trace."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from experiments.lock_trace.families import METRICS
from experiments.lock_trace.locks.events import (
    ACQUIRED,
    ATTEMPT,
    EVENT,
    ORPHAN,
    RELEASE,
    STREAM_LOG,
    STREAM_PAPER,
    STREAM_PER_LOCK,
    WAITS,
    Events,
    Flags,
)

from tests.golden import Golden
from tests.lock_arms import (
    KINDS,
    LOCK_STAT,
    PROGRAMS,
    change_events,
    change_pairs,
    change_table,
    fill_buffer,
    lock_stat,
)
from tests.lock_contended import (  # noqa: F401
    a_holder_lets_go_too_early,
    a_wait_is_not_there,
    an_event_is_cut_off,
    programs_that_are_slower,
)
from tests.mutation import turns
from tests.rawfiles import change_json, edit, records, said

#: Why trials are made.
NO_KVM = "emulated CPUs do not tell it, and there was no host with real ones"
LOCKDEP = "its kernel, with LOCK_STAT, is built for this arm alone"
TRACES = ("all", "paper", "per-lock", "tracepoint", "validate")
FILTERS, DIFFERENCES = ("per-lock", "paper"), ("missing", "extra")
#: A file of events with fewer than the kernel wrote turns the balance; what the host says decides what is left out.
MAY_CHANGE = {
    "events.bin": {"unbalanced"},
    "host-sched.json": {metric.name for metric in METRICS if metric.timing},
}
LAP = 2
#: What else turns where the full log of arm validate has other events of the module's locks.
LOG_CHANGES = ("known-validate", "oracle-validate")
CALLS = np.dtype(
    [("region", "<u4"), ("kind", "<u4"), ("target", "<u8"), ("site", "<u8"), ("count", "<u8"), ("lock", "<u8")]
)


# -- the paper's claims ------------------------------------------------------------------------------------------


@turns("filter-costs-more", "filter-costs-more-as-timed", "overhead-doubles")
def a_filter_that_costs_twice_as_much(golden: Golden) -> None:
    """Pairs take twice as many instructions with the paper's filter."""
    change_pairs(golden, "paper", lambda ticks: 2 * ticks)


@turns("trace-costs", "trace-costs-as-timed")
def a_trace_that_costs_what_the_paper_says(golden: Golden) -> None:
    """Pairs without a trace take 150 instructions more."""
    change_pairs(golden, "off", lambda ticks: ticks + 150)


@turns("filter-costs-more-as-timed-smp", "trace-costs-as-timed-smp")
def other_costs_on_two_cpus(golden: Golden) -> None:
    """On two CPUs, pairs take 300 cycles more without a trace, and six tenths of the cycles with the paper's filter."""
    change_pairs(golden, "off-smp", lambda ticks: ticks + 300)
    change_pairs(golden, "paper-smp", lambda ticks: ticks * 6 // 10)


@turns("trace-costs-probed", "probes-cost-more")
def probes_that_cost_what_the_paper_says(golden: Golden) -> None:
    """With kprobes, pairs take a thirtieth of the instructions: some three times those of a bare pair."""
    change_pairs(golden, "kprobes", lambda ticks: ticks // 30)


@turns(
    *("buffer-lasts-paper", "buffer-lasts", "buffer-lasts-first-loss"),
    *("buffer-lasts-paper-by-rate", "buffer-lasts-paper-first-loss"),
)
def filters_that_keep_half(golden: Golden) -> None:
    """Of what fills rings that nobody reads, filters keep half: the first event is lost after twice the time."""
    for arm in FILTERS:
        fill_buffer(golden, arm, "buffer-waits", 1 / 2)
    fill_buffer(golden, "paper", "buffer", 1 / 2)


def real_cpus(golden: Golden) -> None:
    """The arms of two CPUs ran on real ones."""
    for place, trial in enumerate(golden.trials):
        if trial.arm in ("all-smp", "paper-smp"):
            golden.trials[place] = trial.model_copy(update={"fidelity": "kvm"})


@turns("buffer-seconds", "buffer-minutes", before=real_cpus, why=NO_KVM)
def a_fast_load(golden: Golden) -> None:
    """The load takes a thousandth of the time, without a filter and with the paper's."""
    for arm in ("all-smp", "paper-smp"):
        path = golden.raw(arm) / "buffer/stdout"
        change_json(path, lambda answer: {"elapsed_ns": answer["elapsed_ns"] // 1000})


@turns("useful-events")
def few_events_are_not_kept(golden: Golden) -> None:
    """Programs call the hooks twenty times for each event that the paper's filter keeps."""
    for path in golden.raw("paper-smp").glob("pipes/status.json"):
        change_json(path, _of_twenty)


def _of_twenty(told: dict[str, Any]) -> dict[str, Any]:
    kept = told["kept"][STREAM_PAPER]
    return {"events": 20 * kept, "dropped": [*told["dropped"][:STREAM_PAPER], 19 * kept]}


@turns(
    "useful-events-waited",
    also=("sums-validate-smp", "per-lock-missing-validate-smp", "paper-missing-validate-smp"),
)
def programs_of_which_one_event_in_twenty_is_waited_for(golden: Golden) -> None:
    """Of programs on two CPUs the full log has, for each event that the per-lock filter keeps, nineteen others."""

    def fewer(events: Events) -> Events:
        log = events["stream"] == STREAM_LOG
        kept = set(events[events["stream"] == STREAM_PER_LOCK][["lock", "time", "kind"]].tolist())
        met = log & np.array([one in kept for one in events[["lock", "time", "kind"]].tolist()])
        others = np.flatnonzero(log & ~met)
        others = others[np.argsort(events["order"][others])][: 19 * int(met.sum())]
        chosen = ~log | met
        chosen[others] = True
        return events[chosen]

    for folder in golden.raw("validate-smp").glob("pipes"):
        events = np.fromfile(folder / "events.bin", dtype=EVENT)
        left = int((fewer(events)["stream"] == STREAM_LOG).sum())
        change_events(folder, fewer, events=left)


def of_module(folder: Path, events: Events) -> Flags:
    """Which events are of the locks of which the module told."""
    rows = [line.split("\t") for line in (folder / "known.tsv").read_text().splitlines()[1:]]
    return np.isin(events["lock"], np.array([int(row[1], 16) for row in rows], dtype=np.uint64))


def _one_less(folder: Path) -> None:
    """The paper's filter drops one event of the module's locks, the last that it kept."""

    def fewer(events: Events) -> Events:
        kept = of_module(folder, events) & (events["stream"] == STREAM_PAPER)
        return np.delete(events, np.flatnonzero(kept)[-1])

    change_events(folder, fewer)


@turns("gap-begin-inside", also=("paper-missing-validate",))
def one_event_does_not_pass(golden: Golden) -> None:
    """The paper's filter drops the last event that it kept of a lock that was held when the trace began."""
    _one_less(golden.raw("validate") / "inside")


@turns("gap-acquired-twice", also=("paper-missing-validate",))
def one_event_of_a_lock_that_is_got_twice_does_not_pass(golden: Golden) -> None:
    """The paper's filter drops the last event that it kept of a lock that a thread got twice."""
    _one_less(golden.raw("validate") / "recursion")


def _of_the_modules_locks(golden: Golden, workload: str, change: Callable[[Events], Events]) -> None:
    """The full log has other events of the module's locks."""
    folder = golden.raw("validate") / workload

    def changed(events: Events) -> Events:
        own = of_module(folder, events) & (events["stream"] == STREAM_LOG)
        return np.concatenate([events[~own], change(events[own])])

    whole = changed(np.fromfile(folder / "events.bin", dtype=EVENT))
    change_events(folder, changed, events=int((whole["stream"] == STREAM_LOG).sum()))


@turns(
    "gap-begin-inside-by-counter",
    also=(
        *(*LOG_CHANGES, "gap-begin-inside", "paper-extra-validate"),
        *("per-lock-missing-validate", "per-lock-extra-validate"),
    ),
)
def no_release_is_seen(golden: Golden) -> None:
    """The full log has no release of the lock that was held when the trace began."""
    _of_the_modules_locks(golden, "inside", lambda own: own[own["kind"] != RELEASE])


@turns("gap-acquired-twice-by-counter", also=(*LOG_CHANGES, "gap-acquired-twice", "paper-extra-validate"))
def the_first_attempt_is_not_seen(golden: Golden) -> None:
    """The full log has not the first attempt at a lock that a thread gets twice."""

    def without(own: Events) -> Events:
        attempts = np.flatnonzero(own["kind"] == ATTEMPT)
        return np.delete(own, attempts[np.argmin(own["order"][attempts])])

    _of_the_modules_locks(golden, "recursion", without)


@turns("gap-released-twice-by-counter", also=(*LOG_CHANGES, "paper-missing-validate"))
def every_attempt_is_seen_twice(golden: Golden) -> None:
    """The full log has each attempt at a lock that is released twice another time."""
    _of_the_modules_locks(golden, "double", lambda own: np.concatenate([own, own[own["kind"] == ATTEMPT]]))


@turns("gap-released-twice", also=("paper-extra-validate", "paper-missing-validate"))
def an_event_is_lost(golden: Golden) -> None:
    """The last event that the paper's filter kept of a lock that was released twice gets another time."""
    with records(golden.raw("validate") / "double/events.bin", EVENT) as events:
        twice = np.unique(events["lock"][(events["kind"] == RELEASE) & (events["flags"] & ORPHAN != 0)])
        kept = np.isin(events["lock"], twice) & (events["stream"] == STREAM_PAPER)
        events["time"][np.flatnonzero(kept)[-1]] += 1


@turns("gap-released-twice-kept", also=("paper-extra-validate",))
def no_event_is_dropped(golden: Golden) -> None:
    """The paper's filter keeps all events of a lock that is released twice."""
    folder = golden.raw("validate") / "double"

    def more(events: Events) -> Events:
        own = of_module(folder, events)
        log, kept = (events[own & (events["stream"] == stream)] for stream in (STREAM_LOG, STREAM_PAPER))
        dropped = log[~np.isin(log["time"], kept["time"])]
        dropped["stream"] = STREAM_PAPER
        return np.concatenate([events, dropped])

    change_events(folder, more)


# -- what is kept is what was waited for -----------------------------------------------------------------------------


def _acquisition(events: Events, at: int) -> Flags:
    """Which events are of the acquisition that event `at` is one of, by stream."""
    one = events[at]
    own = (events["lock"] == one["lock"]) & (events["pid"] == one["pid"])
    begin = events["time"][own & (events["kind"] == ATTEMPT) & (events["time"] <= one["time"])].max(initial=0)
    ends = events["time"][own & (events["kind"] == RELEASE) & (events["time"] > one["time"])]
    end = ends.min(initial=events["time"].max())
    return own & (events["time"] >= begin) & (events["time"] <= end)


def _confused(events: Events, stream: int) -> Events:
    """A stream without the first acquisition that waited, and with the first of a lock for which nobody ever did."""
    waits = events["kind"] == WAITS
    waited = _acquisition(events, np.flatnonzero(waits & (events["stream"] == stream))[0])
    log = events["stream"] == STREAM_LOG
    idle = log & (events["kind"] == ACQUIRED) & (events["flags"] == 0) & ~np.isin(events["lock"], events["lock"][waits])
    more = events[log & _acquisition(events, np.flatnonzero(idle)[0])]
    more["stream"] = stream
    return np.concatenate([events[~waited | (events["stream"] != stream)], more])


@turns(
    "paper-keeps-waits",
    *(f"per-lock-{what}{smp}" for what in ("keeps-waits", "kept-waited") for smp in ("", "-smp")),
    also=(
        *(f"per-lock-{what}-validate{smp}" for what in DIFFERENCES for smp in ("", "-smp")),
        *(f"paper-{what}-validate-smp" for what in DIFFERENCES),
    ),
)
def one_of_each_is_wrong(golden: Golden) -> None:
    """A filter drops an acquisition that waited, and keeps one of a lock for which nobody waited."""
    change_events(golden.raw("validate") / "inside", lambda events: _confused(events, STREAM_PER_LOCK))
    for stream in (STREAM_PER_LOCK, STREAM_PAPER):
        change_events(golden.raw("validate-smp") / "mutex", lambda events, stream=stream: _confused(events, stream))


@turns("paper-counter-two-waits", also=("paper-missing-validate-smp",))
def the_papers_filter_keeps_waits_alone(golden: Golden) -> None:
    """On two CPUs, the paper's filter keeps what the per-lock filter keeps."""

    def alike(events: Events) -> Events:
        kept = events[events["stream"] == STREAM_PER_LOCK]
        kept["stream"] = STREAM_PAPER
        return np.concatenate([events[events["stream"] != STREAM_PAPER], kept])

    for path in golden.raw("validate-smp").glob("*/events.bin"):
        change_events(path.parent, alike)


@turns(
    "counter-two-waits",
    also=("sums-validate-smp", "known-validate-smp", "paper-extra-validate-smp"),
)
def only_what_waits_is_seen(golden: Golden) -> None:
    """On two CPUs, the full log has what the per-lock filter keeps, and nothing else."""

    def alike(events: Events) -> Events:
        log = events[events["stream"] == STREAM_LOG]
        kept = events[events["stream"] == STREAM_PER_LOCK]
        names = ["lock", "time", "kind", "pid"]
        there = set(kept[names].tolist())
        met = np.array([one in there for one in log[names].tolist()], dtype=bool)
        return np.concatenate([events[events["stream"] != STREAM_LOG], log[met]])

    for path in golden.raw("validate-smp").glob("*/events.bin"):
        left = int((alike(np.fromfile(path, dtype=EVENT))["stream"] == STREAM_LOG).sum())
        change_events(path.parent, alike, events=left)


@turns(*(f"slowdown-{what}{smp}" for what in PROGRAMS for smp in ("", "-smp")))
def programs_that_are_not_slower(golden: Golden) -> None:
    """Programs take a tenth of the time with the per-lock filter."""
    for arm in ("per-lock", "per-lock-smp"):
        for workload in PROGRAMS.values():
            change_json(
                golden.raw(arm) / workload / "stdout", lambda answer: {"elapsed_ns": answer["elapsed_ns"] // 10}
            )


# -- what the per-lock filter costs ------------------------------------------------------------------------------


@turns(*(f"per-lock-pair-{kind.replace('_', '-')}" for kind in KINDS))
def dear_pairs(golden: Golden) -> None:
    """Pairs take twice as many instructions with the per-lock filter."""
    change_pairs(golden, "per-lock", lambda ticks: 2 * ticks)


@turns(*(f"per-lock-pair-{kind.replace('_', '-')}-smp" for kind in KINDS))
def dear_pairs_on_two_cpus(golden: Golden) -> None:
    """On two CPUs, pairs take twice as many cycles with the per-lock filter; of a rwsem's writers, half."""
    change_pairs(golden, "per-lock-smp", lambda ticks: (2 * ticks).assign(rwsem_write=ticks["rwsem_write"] // 2))


# -- sums that must hold -----------------------------------------------------------------------------------------


def _cut(golden: Golden, arm: str) -> None:
    """The last 100 events of an arm's largest file are removed, or all where there are fewer."""
    path = max(golden.raw(arm).glob("*/events.bin"), key=lambda path: path.stat().st_size)
    path.write_bytes(path.read_bytes()[: -100 * EVENT.itemsize])


@turns(
    *(f"balance-{trace}" for trace in TRACES),
    "balance-validate-smp",
    also=(
        *("gap-begin-inside", "gap-begin-inside-by-counter", "oracle-all", "oracle-validate", "known-paper"),
        *("paper-keeps-waits", "paper-counter-two-waits", "counter-two-waits", "useful-events-waited"),
        "per-lock-keeps-holders",
        *(f"per-lock-{what}{smp}" for what in ("keeps-waits", "kept-waited") for smp in ("", "-smp")),
        *(
            f"{name}-validate{smp}"
            for name in ("known", "sums", *(f"{one}-{two}" for one in FILTERS for two in DIFFERENCES))
            for smp in ("", "-smp")
            if (name, smp) != ("known", "-smp")
        ),
    ),
)
def removed_events(golden: Golden) -> None:
    """The last 100 events of a file are removed, or all where there are fewer."""
    for arm in (*TRACES, "validate-smp"):
        _cut(golden, arm)


@turns(
    *(f"balance-{trace}-smp" for trace in TRACES if trace != "validate"),
)
def removed_events_on_two_cpus(golden: Golden) -> None:
    """On two CPUs, the last 100 events of a file are removed, or all where there are fewer; not of arm validate."""
    for trace in TRACES[:-1]:
        _cut(golden, f"{trace}-smp")


# -- against what is known without the trace ---------------------------------------------------------------------


@turns(
    *(f"{which}-{what}-validate{smp}" for which in FILTERS for what in DIFFERENCES for smp in ("", "-smp")),
)
def events_of_another_time(golden: Golden) -> None:
    """The first event that each filter kept gets another time."""
    for arm in ("validate", "validate-smp"):
        path = max(golden.raw(arm).glob("*/events.bin"), key=lambda path: path.stat().st_size)
        with records(path, EVENT) as events:
            for stream in (STREAM_PER_LOCK, STREAM_PAPER):
                events["time"][np.flatnonzero(events["stream"] == stream)[0]] += 1


def add_one(path: Path, column: str) -> None:
    """One more in the first row of a table."""
    lines = path.read_text().splitlines()
    place = lines[0].split("\t").index(column)
    fields = lines[1].split("\t")
    fields[place] = str(int(fields[place]) + 1)
    path.write_text("\n".join([lines[0], "\t".join(fields), *lines[2:]]) + "\n")


@turns("sums-validate", "sums-validate-smp")
def another_sum(golden: Golden) -> None:
    """The kernel's table has one acquisition more of one lock at one place."""
    for arm in ("validate", "validate-smp"):
        add_one(next(golden.raw(arm).glob("*/sites.tsv")), "acquisitions")


@turns("known-validate", "known-validate-smp")
def a_module_that_counts_one_more(golden: Golden) -> None:
    """The module says that it got a lock once more."""
    for arm in ("validate", "validate-smp"):
        for path in golden.raw(arm).glob("*/known.tsv"):
            add_one(path, "acquired")


@turns(
    *(f"known-{arm}{smp}" for arm in ("all", "paper", "per-lock") for smp in ("", "-smp")),
)
def a_module_that_counts_one_more_beside_a_filter(golden: Golden) -> None:
    """The module says that it got a lock once more; arm validate is left alone."""
    for arm in ("all", "paper", "per-lock"):
        for smp in ("", "-smp"):
            add_one(golden.raw(f"{arm}{smp}") / "mutex/known.tsv", "acquired")


def _of_debian(golden: Golden, change: Callable[[int], int]) -> None:
    """Each count of Debian's contention_begin, and the sum below them, as `change` says."""
    for workload in ("mutex", "rwsem"):
        folder = golden.raw("debian-contention") / workload
        _told(folder, lambda text: re.sub(r"(?<=hitcount:)\s*\d+", lambda count: str(change(int(count[0]))), text))


@turns("debian-tells-every-wait")
def a_wait_is_not_told(golden: Golden) -> None:
    """Debian's kernel tells of one wait less of each lock."""
    _of_debian(golden, lambda count: count - 1)


@turns("debian-waits", also=("debian-tells-every-wait",))
def few_waits_are_told(golden: Golden) -> None:
    """Debian's kernel tells of three waits of each lock."""
    _of_debian(golden, lambda count: 3)


def _without_one_kept(folder: Path) -> None:
    """The per-lock filter drops an acquisition of the module's locks that was waited for, and did not wait itself."""

    def fewer(events: Events) -> Events:
        kept = of_module(folder, events) & (events["stream"] == STREAM_PER_LOCK)
        waited = {tuple(one) for one in events[kept & (events["kind"] == WAITS)][["lock", "pid"]].tolist()}
        got = [
            i
            for i in np.flatnonzero(kept & (events["kind"] == ACQUIRED))
            if tuple(events[i][["lock", "pid"]]) not in waited
        ]
        return events[~(kept & _acquisition(events, got[0]))]

    change_events(folder, fewer)


@turns("per-lock-keeps-holders", "by-hand", also=("per-lock-missing-validate",))
def a_holder_is_dropped(golden: Golden) -> None:
    """The per-lock filter drops the first holder of a chain, for whom four threads wait."""
    _without_one_kept(golden.raw("validate") / "chain")


@turns("by-hand-smp", also=("per-lock-missing-validate-smp",))
def a_holder_is_dropped_on_two_cpus(golden: Golden) -> None:
    """The per-lock filter drops a holder of a mutex for whom another CPU waits."""
    _without_one_kept(golden.raw("validate-smp") / "mutex")


@turns("tracepoints-miss-spin", "tracepoints-tell-mutex")
def the_tracepoint_knows_spin_locks_and_no_mutexes(golden: Golden) -> None:
    """contention_begin tells of three waits for the module's spin lock, and of one wait less for its mutex."""
    folder = golden.raw("contention-smp")
    rows = [line.split("\t") for line in (folder / "share-500/known.tsv").read_text().splitlines()[1:]]
    shared = next(row[1] for row in rows if row[0] == "shared.0").removeprefix("0x")
    _told(
        folder / "share-500", lambda text: f"{{ lock_addr: {shared}, flags:          1 }} hitcount:          3\n{text}"
    )
    _told(folder / "mutex", lambda text: re.sub(r"(flags: +33 \} hitcount:) *(\d+)", _one_less_of, text))


def _one_less_of(row: re.Match[str]) -> str:
    return f"{row[1]} {int(row[2]) - 1}"


def _told(folder: Path, change: Callable[[str], str]) -> None:
    """Other rows of contention_begin, and their sum below them."""
    path = folder / "contention_begin"
    text = change(path.read_text())
    total = sum(map(int, re.findall(r"hitcount: *(\d+)", text)))
    path.write_text(re.sub(r"Hits: \d+", f"Hits: {total}", text))


@turns("oracle-all", "oracle-validate")
def a_call_that_the_trace_has_not(golden: Golden) -> None:
    """The oracle saw one call more, of the function and the lock that it saw most of in the first lap."""
    for arm in ("all", "validate"):
        folder = golden.raw(arm) / "oracle"
        with records(folder / "locks.bin", CALLS) as calls:
            first = (calls["kind"] == LAP) & (calls["region"] == 0)
            calls["count"][np.argmax(np.where(first, calls["count"], 0))] += 1
        locks = said(folder / "oracle.json")["locks"]
        edit(folder / "oracle.json", locks=locks | {"told": locks["told"] + 1})


@turns(*(f"lock-stat-{workload}" for workload in LOCK_STAT), before=lock_stat, why=LOCKDEP)
def contentions_that_the_trace_has_not(golden: Golden) -> None:
    """The kernel's table of sites has half of the contentions."""
    for workload in LOCK_STAT:
        path = golden.raw("lock-stat") / workload / "sites.tsv"
        change_table(path, lambda sites: sites.assign(contended=sites["contended"] // 2))
