# SPDX-License-Identifier: MIT
"""What turns each claim of probe-cost.

The golden trials are whole but for the oracle's file: it has the functions that the decoder looks at, and of every run
the one that executed most.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from harness.measure.analysis import Analysis
from harness.oracle.places import EXCEPTION
from harness.oracle.reader import FUNCTION, LAP
from harness.paths import EXPERIMENTS
from tests.golden import Golden
from tests.mutation import Change, turns
from tests.rawfiles import records

#: What probecost printed of one run.
Run = dict[str, Any]
#: The table costs is over trials; there are two.
SHARED = ("virtual", "blind", "wall", "debian-6.1", "debian-6.12", "hand")
#: Without the record of the host's schedule nobody knows that the trial was disturbed.
MAY_CHANGE = {
    "host-sched.json": {
        metric.name for metric in Analysis(EXPERIMENTS / "probe-cost").declared_metrics if metric.timing
    }
}
#: Instructions of exception code in a firing of an int3 kprobe.
_INT3 = 163


def _runs(golden: Golden, workload: str, arm: str = "virtual") -> list[Run]:
    return [json.loads(line) for line in (golden.raw(arm) / workload / "stdout").read_text().splitlines()]


def _printed(golden: Golden, workload: str, prefix: str, change: Callable[[Run], None], arm: str = "virtual") -> None:
    """Change what probecost printed of the runs whose name begins so."""
    runs = _runs(golden, workload, arm)
    for run in runs:
        if run["run"].startswith(prefix):
            change(run)
    (golden.raw(arm) / workload / "stdout").write_text("".join(json.dumps(run) + "\n" for run in runs))


def _takes(times: float) -> Callable[[Run], None]:
    """A run that could be set up takes so many times as long as it did."""
    return lambda run: run.update(took=[round(times * took) for took in run["took"]] if not run["problem"] else [])


def _counts(name: str, more: int, of: str = "") -> Callable[[Run], None]:
    """What a run tells by this name is so much more; of its first probe or buffer, where `of` says so."""

    def change(run: Run) -> None:
        place = run[of][0] if of else run
        place[name] += more

    return change


def _slower(golden: Golden, more: Callable[[Run], float], arm: str = "virtual") -> None:
    """Each batch of every run takes `more` instructions more, or ns in the arm `wall`; in all workloads."""

    def slow(run: Run) -> None:
        if not run["problem"] and "took" in run:  # what is only counted is not traced
            added = more(run)
            run["took"] = [round(took + added) for took in run["took"]]

    for path in golden.raw(arm).glob("*/stdout"):
        _printed(golden, path.parent.name, "", slow, arm)


def _cost(golden: Golden, name: str, arm: str = "virtual") -> float:
    """What a round of this run of the fit took."""
    run = next(run for run in _runs(golden, "fit", arm) if run["run"] == name)
    return float(statistics.median(run["took"]) / run["rounds"])


def _held_out(run: Run) -> bool:
    return "check=1" in run["script"]


def _probes(run: Run, provider: str) -> Iterator[tuple[list[str], list[str], dict[str, Any]]]:
    """Each probe of this provider: the words after its place, its consumers, and what was counted of it."""
    for block, counted in zip(run["script"].split("\nprobe ")[1:], run["probes"], strict=True):
        line, *uses = block.split("\n")
        if line.split()[0] == provider:
            yield line.split()[2:], uses, counted


def _passed_by(run: Run) -> bool:
    """Whether it is one of the fit's in which another system call is probed than the one that is made."""
    return str(run["run"]).partition(".")[2].startswith("tax")


def _fired(run: Run, counted: dict[str, Any]) -> float:
    """How often a probe fired in one batch: as perf counted it, or the kernel, or else once a round."""
    told = counted["firings"] if _held_out(run) else counted["hits"]
    if told >= 0:
        return float(told / len(run["took"]))
    return 0.0 if _passed_by(run) else float(run["rounds"])


def _firings(run: Run, provider: str) -> float:
    """How often probes of this provider fired in one batch."""
    return sum(_fired(run, counted) for _, _, counted in _probes(run, provider))


def _dearer(golden: Golden, provider: str, more: float, arm: str = "virtual") -> None:
    """Each firing of a provider takes `more` more, in every run that has a probe of it."""
    _slower(golden, lambda run: more * _firings(run, provider), arm)


def _take_exceptions(golden: Golden, *providers: str) -> None:
    """Each firing of these takes an exception: the oracle counts its instructions, and they take their time."""
    path = golden.raw("virtual") / "oracle" / "functions.bin"
    place = _addresses(golden)["asm_exc_int3"]
    more = []
    for run in _runs(golden, "fit"):
        firings = round(len(run["took"]) * sum(_firings(run, provider) for provider in providers))
        if firings:
            more.append((run["lap"], LAP, EXCEPTION, place, _INT3 * firings, firings))
    np.concatenate([np.fromfile(path, FUNCTION), np.array(more, FUNCTION)]).tofile(path)
    for provider in providers:
        _dearer(golden, provider, _INT3)


def _addresses(golden: Golden) -> dict[str, int]:
    path = next(trial.system_map for trial in golden.trials if trial.arm == "virtual")
    return {name: int(place, 16) for place, _, name in (line.split() for line in path.read_text().splitlines())}


def _beside_others(golden: Golden, providers: str, times: float) -> None:
    """What probes of these providers (`providers` begins their names) cost more beside others, so many times."""

    def again(run: Run) -> float:
        provider, _, what = str(run["run"]).partition(".")
        if what != "others" or not provider.startswith(providers):
            return 0.0
        more = _cost(golden, f"{provider}.others") - _cost(golden, f"{provider}.one")
        return (times - 1) * more * float(run["rounds"])

    _slower(golden, again)


def _rejected(run: Run, provider: str) -> float:
    """How often in a batch the filter of a recording consumer was false; the passes of the fit were not counted."""
    if run["run"] == f"{provider}.false":
        return float(run["rounds"])
    if not _held_out(run):
        return 0.0
    return sum(
        _fired(run, counted) - float(passed / len(run["took"]))
        for _, uses, counted in _probes(run, provider)
        for use, passed in zip(uses, counted["passes"], strict=True)
        if "filter=" in use and "record=0" not in use
    )


def _no_saving(golden: Golden, provider: str, arm: str = "virtual") -> None:
    """A firing whose filter is false takes what one takes that is recorded."""
    saved = _cost(golden, f"{provider}.one", arm) - _cost(golden, f"{provider}.false", arm)
    _slower(golden, lambda run: saved * _rejected(run, provider), arm)


@turns("syscall-no-trap", "syscall-return-no-trap")
def a_system_call_takes_an_exception(golden: Golden) -> None:
    """Each firing of the two syscall providers executes the exception code that one of an int3 kprobe does."""
    _take_exceptions(golden, "syscall", "syscall-return")


@turns(
    "kprobe-traps",
    "trace-points-take-no-exception",
    "ftrace-takes-no-exception",
    "jumps-take-no-exception",
)
def exceptions_everywhere(golden: Golden) -> None:
    """Firings of a trace point and of kprobes by ftrace and by a jump execute the exception code of an int3 kprobe."""
    _take_exceptions(golden, "tracepoint", "kprobe-ftrace", "kprobe-optimised")


@turns("kprobe-traps", also=("order-optimised-int3",), before=exceptions_everywhere, why="it turns back what is turned")
def no_trap_at_an_int3(golden: Golden) -> None:
    """All other kprobes take exceptions, and a firing of an int3 kprobe executes no exception code."""
    path = golden.raw("virtual") / "oracle" / "functions.bin"
    laps = [run["lap"] for run in _runs(golden, "fit") if _firings(run, "kprobe-int3")]
    with records(path, FUNCTION) as counts:
        entry_code = (counts["context"] == EXCEPTION) & (counts["address"] >= _addresses(golden)["exc_int3"])
        counts["n"][entry_code & (counts["kind"] == LAP) & np.isin(counts["region"], laps)] = 0
    _dearer(golden, "kprobe-int3", -_INT3)


@turns("trace-points-take-no-exception", also=("order-tracepoint-ftrace",))
def an_exception_at_a_trace_point(golden: Golden) -> None:
    """A firing of a trace point executes the exception code that one of an int3 kprobe does."""
    _take_exceptions(golden, "tracepoint")


@turns("ftrace-takes-no-exception")
def an_exception_at_ftrace(golden: Golden) -> None:
    """A firing of a kprobe by ftrace executes the exception code that one of an int3 kprobe does."""
    _take_exceptions(golden, "kprobe-ftrace")


@turns("jumps-take-no-exception", also=("order-ftrace-optimised", "order-ftrace-looks-up"))
def an_exception_at_a_jump(golden: Golden) -> None:
    """A firing of an optimised kprobe executes the exception code that one of an int3 kprobe does."""
    _take_exceptions(golden, "kprobe-optimised")


@turns("linear-in-consumers")
def a_loop_of_consumers_costs_nothing(golden: Golden) -> None:
    """With two consumers and more, a trace point takes 22 instructions less: those with which its loop begins."""

    def loops(run: Run) -> float:
        return sum(
            _fired(run, counted)
            for provider in ("syscall", "syscall-return", "tracepoint")
            for _, uses, counted in _probes(run, provider)
            if sum("bpf=" not in use for use in uses) > 1
        )

    _slower(golden, lambda run: -22 * loops(run))


@turns("linear-but-for-the-loop")
def eight_consumers_cost_more(golden: Golden) -> None:
    """The run with eight consumers of an int3 kprobe takes 2 % longer."""
    _printed(golden, "fit", "kprobe-int3.eight", _takes(1.02))


@turns("linear-in-actions")
def the_first_field_is_dear(golden: Golden) -> None:
    """Whatever an int3 kprobe records, the first field takes 10 instructions more."""

    def first(run: Run) -> float:
        return sum(10 * _fired(run, counted) for fields, _, counted in _probes(run, "kprobe-int3") if fields)

    _slower(golden, first)


@turns("false-predicate")
def a_false_filter_saves_nothing(golden: Golden) -> None:
    """A firing of a uprobe whose filter is false takes the instructions of one that is recorded."""
    _no_saving(golden, "uprobe")


@turns("others-within-5-percent")
def a_bucket_is_searched_slowly(golden: Golden) -> None:
    """A step along a bucket of kprobes takes 15 instructions where it took 5."""
    _beside_others(golden, "k", 3)


@turns("independent-of-others", "others-in-the-bucket", "independent-in-user-space", "user-lookup-grows")
def other_probes_cost_nothing(golden: Golden) -> None:
    """A firing beside other probes takes what it takes alone."""
    _beside_others(golden, "", 0)


@turns("unprobed-calls-free", "passing-costs")
def other_system_calls_cost_what_they_did(golden: Golden) -> None:
    """A system call that passes a probed one takes the 74 instructions less that it took more."""

    def passing(run: Run) -> float:
        if not any(_probes(run, "syscall")):
            return 0.0
        if _held_out(run):
            return float(run["syscalls"] / len(run["took"]) - _firings(run, "syscall"))
        return float(run["rounds"]) if _passed_by(run) else 0.0

    _slower(golden, lambda run: -74 * passing(run))


@turns("simple-instructions")
def a_step_costs_what_an_emulation_does(golden: Golden) -> None:
    """A firing of a uprobe whose instruction is stepped over takes 515 instructions less, those of the step."""
    _dearer(golden, "uprobe-step", -515)


@turns("refresh-wakes", "refresh-pages", also=("advice-error",))
def the_reader_costs_little(golden: Golden) -> None:
    """A wake-up of the reader takes 6,100 instructions less, and a page 7,100: some 40 are left of each."""

    def less(run: Run) -> None:
        spared = (6100 * run["wakes"] + 7100 * run["pages"]) / len(run["took"])
        run["took"] = [round(took - spared) for took in run["took"]]

    for workload in ("fit", "validate"):
        _printed(golden, workload, "", less)


@turns(
    "predicts-median",
    "predicts-worst",
    "predicts-slowdown",
)
def the_held_out_scripts_cost_more(golden: Golden) -> None:
    """Every held-out script takes a fifth longer than it did."""
    _printed(golden, "validate", "v", _takes(1.2))


def _adds(times: float) -> Callable[[Run], None]:
    """What the probes of a drawn script add is so many times as much."""

    def change(run: Run) -> None:
        plain = statistics.mean(sorted(run["plain"][1:])[1:-1])
        run["took"] = [round(plain + times * (took - plain)) for took in run["took"]]

    return change


@turns("predicts-blind-worst")
def a_drawn_script_costs_more(golden: Golden) -> None:
    """What the probes of one drawn script add is a fifth more."""
    _printed(golden, "traced", f"{_runs(golden, 'traced', 'blind')[0]['run']}", _adds(1.2), "blind")


@turns("blind-inside")
def drawn_scripts_cost_what_was_predicted(golden: Golden) -> None:
    """What the probes of those add that are outside of their interval is what was predicted."""
    told = {row["script"]: row for row in json.loads((golden.raw("blind") / "predictions.json").read_text())}
    for run in _runs(golden, "traced", "blind"):
        plain, took = (statistics.mean(sorted(run[name][1:])[1:-1]) for name in ("plain", "took"))
        row, times = told[run["run"]], run["rounds"] / told[run["run"]]["rounds"]
        if not times * row["low"] <= took - plain <= times * row["high"]:
            _printed(golden, "traced", run["run"], _adds(times * row["predicted"] / (took - plain)), "blind")


@turns("predicts-blind-median", also=("predicts-blind-worst",))
def the_drawn_scripts_cost_more(golden: Golden) -> None:
    """Every script that the seed has drawn takes a fifth longer than it did."""
    _printed(golden, "traced", "b", _takes(1.2), "blind")


def _fail(run: Run) -> None:
    run.pop("took")
    run["problem"] = "no such function"


@turns("blind-drawn")
def a_drawn_script_could_not_be_set_up(golden: Golden) -> None:
    """The guest says that one of the scripts which the seed has drawn could not be set up."""
    _printed(golden, "traced", "b", lambda run: _fail(run) if "-01-" in run["run"] else None, "blind")


@turns("advice-right", "advice-error")
def a_map_is_dearer_than_printing(golden: Golden) -> None:
    """The script that counts in a map takes twice as long as it did."""
    _printed(golden, "advice", "a04-map-for-print.after", _takes(2))


@turns("debian-6.1-median", "debian-6.1-worst", "debian-6.12-median", "debian-6.12-worst")
def held_out_scripts_cost_more_on_debians_kernels(golden: Golden) -> None:
    """Every held-out script takes a fifth longer than it did, on two of Debian's kernels."""
    for arm in ("debian-6.1", "debian-6.12"):
        _printed(golden, "validate", "v", _takes(1.2), arm)


@turns("predicts-median-wall")
def the_held_out_scripts_take_more_time(golden: Golden) -> None:
    """Every held-out script takes a fifth more time than it did."""
    _printed(golden, "validate", "v", _takes(1.2), "wall")


@turns("false-predicate-wall")
def a_false_filter_saves_no_time(golden: Golden) -> None:
    """A firing of a uprobe whose filter is false takes the time of one that is recorded."""
    _no_saving(golden, "uprobe", "wall")


def _dear(*claims: str, provider: str, more: int, arm: str = "virtual") -> Change:
    """A mutation: each firing of a provider takes `more` more."""

    def change(golden: Golden) -> None:
        _dearer(golden, provider, more, arm)

    change.__name__ = f"firings_cost_other_for_{claims[0]}"
    change.__doc__ = f"A firing of a {provider} takes {more:,} {'ns' if arm == 'wall' else 'instructions'} more."
    return turns(*claims)(change)


FIRINGS = [
    _dear("order-optimised-int3-wall", provider="kprobe-optimised", more=100_000, arm="wall"),
    _dear("order-int3-uprobe-wall", provider="kprobe-int3", more=100_000, arm="wall"),
    _dear("order-tracepoint-ftrace", provider="tracepoint", more=1000),
    _dear("order-ftrace-optimised", "order-ftrace-looks-up", provider="kprobe-optimised", more=100),
    _dear("order-optimised-int3", provider="kprobe-int3", more=-300),
    _dear("order-int3-uprobe", provider="kprobe-int3", more=1000),
]


@turns("held-out")
def a_held_out_script_could_not_be_set_up(golden: Golden) -> None:
    """The guest says that one held-out script could not be set up."""
    _printed(golden, "validate", "v22", _fail)


@turns("held-out-missed")
def a_held_out_script_misses(golden: Golden) -> None:
    """A probe of one held-out script misses a firing."""
    _printed(golden, "validate", "v01", _counts("misses", 1, "probes"))


@turns("held-out-recorded")
def an_event_is_lacking(golden: Golden) -> None:
    """In the buffer of one held-out script is one event less."""
    _printed(golden, "validate", "v01", _counts("entries", -1, "buffers"))


@turns("nested-int3", "nested-ftrace", "maxactive")
def a_miss_is_not_counted(golden: Golden) -> None:
    """The kernel counts one miss less, of every probe that misses."""

    def forget(run: Run) -> None:
        for probe in run["probes"]:
            if probe["misses"] > 0:
                probe["misses"] -= 1

    _printed(golden, "effects", "nested.", forget)
    _printed(golden, "effects", "maxactive.", forget)


@turns("depth-lost")
def a_65th_return_is_seen(golden: Golden) -> None:
    """One more return of the 100 nested calls is in the buffer."""
    _printed(golden, "effects", "depth.100", _counts("entries", 1, "buffers"))


@turns("depth-unreported")
def the_kernel_reports_what_it_saw(golden: Golden) -> None:
    """The kernel reports as hits the returns that it recorded."""
    _printed(
        golden, "effects", "depth.100", lambda run: run["probes"][0].update(hits=run["probes"][0]["hits"] * 64 // 100)
    )


@turns("overrun-counted", also=("hand-counted",))
def an_overwritten_event_is_not_told(golden: Golden) -> None:
    """The buffer reports one overwritten event less."""
    _printed(golden, "effects", "overrun.some", _counts("overrun", -1, "buffers"))


@turns("linear-in-rate")
def a_fast_probe_is_dear(golden: Golden) -> None:
    """Back to back, a round with an int3 kprobe takes 5 % longer."""
    _printed(golden, "effects", "rate.kprobe-int3.0", _takes(1.05))


@turns("sampling-floor")
def samples_come_closer(golden: Golden) -> None:
    """At a period of 2,000 ns a round takes twice as long as at 5,000."""
    _printed(golden, "effects", "period.2000", _takes(2))


@turns("hand-counted")
def a_pass_is_not_counted(golden: Golden) -> None:
    """Of the passes of one held-out script's second filter one is not counted."""
    _printed(golden, "validate", "v11", lambda run: run["probes"][0]["passes"].__setitem__(1, 146))


@turns("hand-counted-small")
def a_page_is_not_taken(golden: Golden) -> None:
    """The reader takes a page less."""
    _printed(golden, "hand", "hand.pages", _counts("pages", -1), "hand")


@turns("hand-counted-outside")
def a_record_of_dds_is_missing(golden: Golden) -> None:
    """In the buffer is one record less of what Debian's dd wrote."""
    _printed(golden, "hand", "hand.dd", lambda run: run["buffers"][0].update(entries=2999), "hand")


@turns("second-opinion")
def the_profile_has_a_hit_less(golden: Golden) -> None:
    """The kernel's profile has one hit less of a place of a held-out script's."""
    _printed(golden, "validate", "v18", _counts("hits", -1, "probes"))


@turns("second-opinion-small")
def the_trigger_has_a_firing_less(golden: Golden) -> None:
    """The table of the trigger at getppid has one firing less."""
    _printed(golden, "hand", "hand.calls", _counts("keyed", -1), "hand")
