# SPDX-License-Identifier: MIT
"""What turns each claim of probe-cost.

The golden trials are whole but for the oracle's file: it has the functions that the decoder looks at, and of every run
the one that executed most.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pandas as pd

from harness.measure.analysis import Analysis
from harness.paths import EXPERIMENTS
from tests.golden import Golden
from tests.mutation import turns

Tables = dict[str, pd.DataFrame]
#: The table costs is over trials; there are two.
SHARED = ("virtual", "wall", "debian-6.1", "debian-6.12")
#: Without the record of the host's schedule nobody knows that the trial was disturbed.
MAY_CHANGE = {
    "host-sched.json": {
        metric.name for metric in Analysis(EXPERIMENTS / "probe-cost").declared_metrics if metric.timing
    }
}


def _run(tables: Tables, run: str, arm: str) -> pd.Series:
    """Which row of the table of runs it is."""
    runs = tables["runs"]
    return (runs["arm"] == arm) & (runs["run"] == run)


def _cost(tables: Tables, run: str, arm: str = "virtual") -> float:
    return float(tables["runs"].loc[_run(tables, run, arm), "per_round"].iloc[0])


def _add(tables: Tables, run: str, more: float, arm: str = "virtual") -> None:
    """A round of this run costs that much more: instructions, or ns in the arm `wall`."""
    tables["runs"].loc[_run(tables, run, arm), "per_round"] += more


def _dearer(tables: Tables, provider: str, more: float, arm: str = "virtual") -> None:
    """Each firing of a provider costs that much more: in every run of it, and so in its stage delivery."""
    runs, stages = tables["runs"], tables["stages"]
    runs.loc[(runs["arm"] == arm) & runs["run"].str.startswith(f"{provider}."), "per_round"] += more
    delivery = (stages["provider"] == provider) & (stages["stage"] == "delivery")
    stages.loc[(stages["arm"] == arm) & delivery, "value"] += more


def _exceptions(tables: Tables, instructions: float, *providers: str) -> None:
    traps = tables["traps"]
    rows = (traps["arm"] == "virtual") & traps["provider"].isin(providers)
    assert rows.sum() == len(providers)
    traps.loc[rows, "exception"] = instructions


def _stage(tables: Tables, provider: str, stage: str, value: float) -> None:
    stages = tables["stages"]
    rows = (stages["arm"] == "virtual") & (stages["provider"] == provider) & (stages["stage"] == stage)
    assert rows.any()
    stages.loc[rows, "value"] = value


def _printed(
    golden: Golden, workload: str, prefix: str, change: Callable[[dict[str, Any]], None], arm: str = "virtual"
) -> None:
    """Change what probecost printed of the runs whose name begins so."""
    path = golden.raw(arm) / workload / "stdout"
    runs = [json.loads(line) for line in path.read_text().splitlines()]
    for run in runs:
        if run["run"].startswith(prefix):
            change(run)
    path.write_text("".join(json.dumps(run) + "\n" for run in runs))


def _longer(run: dict[str, Any]) -> None:
    """A run that could be set up takes a fifth longer than it did."""
    run.update(took=[round(1.2 * took) for took in run["took"]] if not run["problem"] else [])


def _count(counts: dict[str, int], name: str, more: int) -> None:
    counts[name] += more


@turns("syscall-no-trap", "syscall-return-no-trap")
def a_trap_of_one_instruction(tables: Tables) -> None:
    """The oracle sees one instruction of exception code in each firing of the two syscall providers."""
    _stage(tables, "syscall", "trap", 1.0)
    _stage(tables, "syscall-return", "trap", 1.0)


def exceptions_everywhere(tables: Tables) -> None:
    """The oracle sees exception code in the firings of a trace point and of kprobes by ftrace and by a jump."""
    _exceptions(tables, 100.0, "tracepoint", "kprobe-ftrace", "kprobe-optimised")


@turns("kprobe-traps", before=exceptions_everywhere)
def no_trap_at_an_int3(tables: Tables) -> None:
    """All other kprobes take exceptions, and in a firing of an int3 kprobe is no instruction of exception code."""
    _exceptions(tables, 0.0, "kprobe-int3")


@turns("trace-points-take-no-exception")
def an_exception_at_a_trace_point(tables: Tables) -> None:
    """The oracle sees 100 instructions of exception code in a firing of a trace point."""
    _exceptions(tables, 100.0, "tracepoint")


@turns("ftrace-takes-no-exception")
def an_exception_at_ftrace(tables: Tables) -> None:
    """The oracle sees 100 instructions of exception code in a firing of a kprobe by ftrace."""
    _exceptions(tables, 100.0, "kprobe-ftrace")


@turns("jumps-take-no-exception")
def an_exception_at_a_jump(tables: Tables) -> None:
    """The oracle sees 100 instructions of exception code in a firing of an optimised kprobe."""
    _exceptions(tables, 100.0, "kprobe-optimised")


@turns("linear-in-consumers", kind="raw")
def a_loop_of_consumers_costs_nothing(golden: Golden) -> None:
    """With two consumers and more, a trace point takes 22 instructions less: those with which its loop begins."""

    def shorten(run: dict[str, Any]) -> None:
        run["took"] = [took - 22 * run["rounds"] for took in run["took"]]

    for provider in ("syscall", "syscall-return", "tracepoint"):
        for number in ("two", "four", "eight"):
            _printed(golden, "fit", f"{provider}.{number}", shorten)


@turns("linear-but-for-the-loop", kind="raw")
def eight_consumers_cost_more(golden: Golden) -> None:
    """The run with eight consumers of an int3 kprobe takes 2 % longer."""
    _printed(
        golden, "fit", "kprobe-int3.eight", lambda run: run.update(took=[round(1.02 * took) for took in run["took"]])
    )


@turns("linear-in-actions")
def the_first_field_is_dear(tables: Tables) -> None:
    """The first register that an int3 kprobe records costs 10 instructions more than each further one."""
    _add(tables, "kprobe-int3.register", 10)


@turns("false-predicate")
def a_false_filter_saves_nothing(tables: Tables) -> None:
    """A consumer of a uprobe whose filter is false costs as much as one without a filter."""
    _add(tables, "uprobe.false", _cost(tables, "uprobe.one") - _cost(tables, "uprobe.false"))


@turns("others-within-5-percent")
def other_kprobes_cost_a_tenth(tables: Tables) -> None:
    """256 other kprobes make a firing of an int3 kprobe a tenth dearer."""
    firing = _cost(tables, "kprobe-int3.one") - _cost(tables, "bare.getppid")
    _add(
        tables,
        "kprobe-int3.others",
        _cost(tables, "kprobe-int3.one") + firing / 10 - _cost(tables, "kprobe-int3.others"),
    )


@turns("independent-of-others", "others-in-the-bucket", "independent-in-user-space", "user-lookup-grows")
def other_probes_cost_nothing(tables: Tables) -> None:
    """Every run beside other probes takes what the same run takes alone."""
    runs = tables["runs"]
    for run in runs.loc[(runs["arm"] == "virtual") & runs["run"].str.endswith(".others"), "run"]:
        _add(tables, run, _cost(tables, run.replace(".others", ".one")) - _cost(tables, run))


@turns("unprobed-calls-free", "passing-costs")
def other_system_calls_cost_what_they_did(tables: Tables) -> None:
    """A system call that passes a probed one takes no instruction more."""
    _stage(tables, "syscall", "passage", 0.0)


@turns("simple-instructions")
def a_step_costs_what_an_emulation_does(tables: Tables) -> None:
    """A uprobe whose instruction is stepped over costs what one does whose instruction is emulated."""
    emulated = _cost(tables, "uprobe.one") - _cost(tables, "bare.upush")
    _dearer(tables, "uprobe-step", emulated - (_cost(tables, "uprobe-step.one") - _cost(tables, "bare.ustep")))


@turns("refresh-wakes", "refresh-pages")
def the_reader_costs_nothing(tables: Tables) -> None:
    """A wake-up of the reader and a page that it takes out cost nothing."""
    _stage(tables, "general", "refresh", 0.0)
    _stage(tables, "general", "page", 0.0)


@turns(
    "predicts-median",
    "predicts-worst",
    "predicts-slowdown",
    "predicts-unseen-median",
    "predicts-unseen-worst",
    kind="raw",
)
def the_held_out_scripts_cost_more(golden: Golden) -> None:
    """Every held-out script takes a fifth longer than it did."""
    _printed(golden, "validate", "v", _longer)


@turns("debian-6.1-median", "debian-6.1-worst", "debian-6.12-median", "debian-6.12-worst", kind="raw")
def held_out_scripts_cost_more_on_debians_kernels(golden: Golden) -> None:
    """Every held-out script takes a fifth longer than it did, on two of Debian's kernels."""
    for arm in ("debian-6.1", "debian-6.12"):
        _printed(golden, "validate", "v", _longer, arm)


@turns("predicts-median-wall", kind="raw")
def the_held_out_scripts_take_more_time(golden: Golden) -> None:
    """Every held-out script takes a fifth more time than it did."""
    _printed(golden, "validate", "v", _longer, "wall")


@turns("false-predicate-wall")
def a_false_filter_saves_no_time(tables: Tables) -> None:
    """A consumer of a uprobe whose filter is false takes the time of one without a filter."""
    saved = _cost(tables, "uprobe.one", "wall") - _cost(tables, "uprobe.false", "wall")
    _add(tables, "uprobe.false", saved, "wall")


@turns("order-optimised-int3-wall")
def an_optimised_kprobe_takes_long(tables: Tables) -> None:
    """A firing of an optimised kprobe takes 100 us more."""
    _dearer(tables, "kprobe-optimised", 100_000, "wall")


@turns("order-int3-uprobe-wall")
def an_int3_kprobe_takes_long(tables: Tables) -> None:
    """A firing of an int3 kprobe takes 100 us more."""
    _dearer(tables, "kprobe-int3", 100_000, "wall")


@turns("held-out", kind="raw")
def a_held_out_script_could_not_be_set_up(golden: Golden) -> None:
    """The guest says that one held-out script could not be set up."""

    def fail(run: dict[str, Any]) -> None:
        run.pop("took")
        run["problem"] = "no such function"

    _printed(golden, "validate", "v22", fail)


@turns("held-out-missed", kind="raw")
def a_held_out_script_misses(golden: Golden) -> None:
    """A probe of one held-out script misses a firing."""
    _printed(golden, "validate", "v01", lambda run: run["probes"][0].update(misses=1))


@turns("held-out-recorded", kind="raw")
def an_event_is_lacking(golden: Golden) -> None:
    """In the buffer of one held-out script is one event less."""
    _printed(golden, "validate", "v01", lambda run: run["buffers"][0].update(entries=run["buffers"][0]["entries"] - 1))


@turns("order-tracepoint-ftrace")
def a_trace_point_is_dear(tables: Tables) -> None:
    """A firing of a trace point costs 1,000 instructions more."""
    _dearer(tables, "tracepoint", 1000)


@turns("order-ftrace-optimised", "order-ftrace-looks-up")
def an_optimised_kprobe_is_dear(tables: Tables) -> None:
    """A firing of an optimised kprobe costs 100 instructions more."""
    _dearer(tables, "kprobe-optimised", 100)


@turns("order-optimised-int3")
def an_int3_kprobe_is_cheap(tables: Tables) -> None:
    """A firing of an int3 kprobe costs 300 instructions less."""
    _dearer(tables, "kprobe-int3", -300)


@turns("order-int3-uprobe")
def an_int3_kprobe_is_dear(tables: Tables) -> None:
    """A firing of an int3 kprobe costs 1,000 instructions more."""
    _dearer(tables, "kprobe-int3", 1000)


@turns("nested-int3", "nested-ftrace", "maxactive", kind="raw")
def a_miss_is_not_counted(golden: Golden) -> None:
    """The kernel counts one miss less, of every probe that misses."""

    def forget(run: dict[str, Any]) -> None:
        for probe in run["probes"]:
            if probe["misses"] > 0:
                probe["misses"] -= 1

    _printed(golden, "effects", "nested.", forget)
    _printed(golden, "effects", "maxactive.", forget)


@turns("depth-lost", kind="raw")
def a_65th_return_is_seen(golden: Golden) -> None:
    """One more return of the 100 nested calls is in the buffer."""
    _printed(
        golden, "effects", "depth.100", lambda run: run["buffers"][0].update(entries=run["buffers"][0]["entries"] + 1)
    )


@turns("depth-unreported", kind="raw")
def the_kernel_reports_what_it_saw(golden: Golden) -> None:
    """The kernel reports as hits the returns that it recorded."""
    _printed(
        golden, "effects", "depth.100", lambda run: run["probes"][0].update(hits=run["probes"][0]["hits"] * 64 // 100)
    )


@turns("overrun-counted", kind="raw")
def an_overwritten_event_is_not_told(golden: Golden) -> None:
    """The buffer reports one overwritten event less."""
    _printed(
        golden,
        "effects",
        "overrun.some",
        lambda run: run["buffers"][0].update(overrun=run["buffers"][0]["overrun"] - 1),
    )


@turns("linear-in-rate", kind="raw")
def a_fast_probe_is_dear(golden: Golden) -> None:
    """Back to back, a round with an int3 kprobe takes 5 % longer."""
    _printed(
        golden, "effects", "rate.kprobe-int3.0", lambda run: run.update(took=[1.05 * took for took in run["took"]])
    )


@turns("sampling-floor", kind="raw")
def samples_come_closer(golden: Golden) -> None:
    """At a period of 2,000 ns a round takes twice as long as at 5,000."""
    _printed(golden, "effects", "period.2000", lambda run: run.update(took=[2 * took for took in run["took"]]))
