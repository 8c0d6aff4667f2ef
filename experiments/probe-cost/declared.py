# SPDX-License-Identifier: MIT
"""What the tables and metrics of probe-cost are.

Costs in tables are ns of the guest's clock. Under the virtual clock with shift 0 an instruction takes 1 ns, so there
they are instructions; metrics of that arm say `instructions`.
"""

from __future__ import annotations

from harness.measure.declared import ARM, KEY, TRIAL, Metric, Table, columns_of, count, fact, number, string
from harness.measure.units import Unit

from .runs import Run

_COST: tuple[Unit, ...] = ("instructions", "ns")
_PROVIDER = string("provider", "the kind of probe, as the README's table calls it; `general`: what all kinds share")
_STAGE = string("stage", 'the stage of one firing; docs/file-formats.md, "Stages of a cost model", says what it is')
_POINT = string("point", "the trace point, of the stage consumer where points were measured one by one; else empty")
_SCRIPT = string("script", "name of the held-out script")

TABLES = [
    Table(
        "runs",
        "one run of probecost: some batches of the same rounds, with the same probes",
        (
            *KEY,
            *columns_of(Run),
            string("work", "what one round does"),
            number("per_round", "ns", "cost of one round: the median over batches; NaN: the run failed"),
            number("cold", "ns", "what a round of the first batch cost more than that; NaN: the run failed"),
            count("batches", "batches; 0: the run failed"),
            string("problem", "why the run could not be set up; null: it could"),
        ),
    ),
    Table(
        "stages",
        "one stage of one kind of probe, from one trial's runs that differ in it alone",
        (ARM, TRIAL, _PROVIDER, _STAGE, _POINT, number("value", "ns", "cost each time; negative: it saves that much")),
    ),
    Table(
        "traps",
        "what the oracle counted of the stage trap of one kind of probe",
        (
            ARM,
            TRIAL,
            _PROVIDER,
            number("exception", "instructions", "in the entry and exit code of exceptions, per firing"),
            number(
                "trampoline",
                "instructions",
                "outside of the kernel's text (trampolines, detours, displaced instructions), per firing",
            ),
        ),
    ),
    Table(
        "costs",
        "one stage of the cost model of an arm: the median over those of its trials that the host did not disturb",
        (
            ARM,
            _PROVIDER,
            _STAGE,
            _POINT,
            number("value", "ns", "the median over trials"),
            number("low", "ns", "lower end of its 95 % interval, or the least where trials are too few for one"),
            number("high", "ns", "upper end, or the largest"),
            count("trials", "trials that it is from"),
        ),
    ),
    Table(
        "validation",
        "one script that took no part in the fit: what its trial's own fit predicts that it costs, and what it cost; "
        "per batch",
        (
            ARM,
            TRIAL,
            _SCRIPT,
            string("source", "`held-out`: seen while the model was revised; `blind`: drawn by a seed; `advice`"),
            number("base", "ns", "cost without probes"),
            number("measured", "ns", "what the probes added"),
            number("predicted", "ns", "what they were predicted to add"),
            number("low", "ns", "lower end of the prediction's interval"),
            number("high", "ns", "upper end"),
            number("slowdown", "1", "cost with probes / cost without"),
            number("predicted_slowdown", "1", "the same, predicted"),
            number("error_added", "1", "predicted / measured - 1, of what was added"),
            number("error_slowdown", "1", "predicted / measured - 1, of the slowdown"),
            number("firings", "count", "firings that went into the prediction"),
            number("missable", "count", "of these, firings of probes whose misses the kernel counts (kprobes)"),
            number("misses", "count", "firings of such probes that the kernel counts as missed"),
            number(
                "events", "count", "events that the firings make in its buffers; NaN: its reader takes them out"
            ),
            number("events_lacking", "count", "of these, events that are not there; NaN: as for events"),
            string("problem", "why something of it is absent; null: nothing is"),
        ),
    ),
    Table(
        "workloads",
        "the workload of a held-out script as it was counted without its probes; per batch",
        (
            ARM,
            TRIAL,
            _SCRIPT,
            number("cost", "ns", "without probes"),
            number("syscalls", "count", "system calls, of all kinds"),
            number("switches", "count", "context switches"),
        ),
    ),
    Table(
        "firings",
        "one probe of a held-out script's workload; per batch",
        (ARM, TRIAL, _SCRIPT, string("probe", "PROVIDER POINT"), number("firings", "count", "how often it fired")),
    ),
    Table(
        "losses",
        "one run in which hits are lost, with a known answer; over all batches",
        (
            ARM,
            TRIAL,
            string("effect", "what loses them, and in which form"),
            number(
                "executed",
                "count",
                "how often the probed place was executed; of nested-*: as the oracle counted it, NaN without one; "
                "of all others: rounds times how often the workload's code executes it in one",
            ),
            number("hits", "count", "hits that the kernel reports of the probe"),
            number("misses", "count", "misses that the kernel reports of it; NaN: it has no such count"),
            number("recorded", "count", "events that reached the buffer; NaN: it was not looked at"),
            number("lost", "count", "events or entries that it reports as lost; NaN: it was not looked at"),
        ),
    ),
    Table(
        "rates",
        "one kind of probe at one amount of work between two firings",
        (
            ARM,
            TRIAL,
            _PROVIDER,
            number("base", "ns", "one round without the probe"),
            number("traced", "ns", "one round with it: one firing"),
        ),
    ),
    Table(
        "periods",
        "timer sampling at one period",
        (
            ARM,
            TRIAL,
            number("period", "ns", "that was asked for"),
            number("base", "ns", "one round without sampling"),
            number("traced", "ns", "one round with it"),
        ),
    ),
    Table(
        "by_hand",
        "something that a person can count on paper, beside what was counted of it; over all batches",
        (
            ARM,
            TRIAL,
            string("run", "name of the run, in guest/hand.sh or another script of the guest"),
            string("what", "what is counted; of instructions: in one round, more than in a run without them"),
            number("by_hand", "count", "on paper"),
            number("told", "count", "as probecost tells it: firings and passes are perf's, of an untraced run"),
            number(
                "second",
                "count",
                "the second opinion: the kernel's profile of probes, or a hist: trigger, in the traced run; NaN: none",
            ),
            number("exact", "count", "how often the oracle saw the probed function; NaN: it is none of the kernel's"),
            string("how", "how it comes about"),
        ),
    ),
]  # fmt: skip


def _cost(name: str, meaning: str, of: str) -> Metric:
    return Metric(name, _COST, "lower", meaning, of=of, timing=True)


def _ratio(name: str, meaning: str, of: str | None = None, *, timing: bool = True) -> Metric:
    return Metric(name, "1", "lower", meaning, of=of, timing=timing)


METRICS = [
    _cost("cost", "cost of one stage each time, by provider and stage; negative: it saves that much", "provider.stage"),
    _cost("firing", "cost of one recorded firing", "provider"),
    _ratio(
        "trap_share",
        "stage trap / one recorded firing: code of exceptions, and of trampolines, detours and displaced instructions",
        "provider",
    ),
    fact(
        "exception", "instructions", "lower",
        "instructions of a firing in the entry and exit code of exceptions, as the oracle counted them", of="provider",
    ),
    _ratio("cold", "what a firing of the first batch costs more / cost of a firing, of the worst provider"),
    _ratio(
        "nonlinear_consumers",
        "|cost of a further consumer / of one of the third and fourth - 1|, one to eight, of the worst provider",
    ),
    _ratio(
        "nonlinear_consumers_loop_apart",
        "the same without the second consumer of trace points, with which a loop over consumers begins",
    ),
    _ratio(
        "nonlinear_actions", "|cost of the first recorded field / of each further one - 1|, of the worst kind of field"
    ),
    _ratio(
        "false_over_true",
        "cost of a recording consumer whose filter is false / of one without a filter, of the worst provider",
    ),
    _ratio("others_kernel", "what other enabled probes add / cost of a firing, of the worst provider in the kernel"),
    _ratio("others_user", "what other enabled probes add / cost of a firing, of the worst provider in user space"),
    Metric(
        "stepped_over_emulated", "1", "neither",
        "cost of a uprobe firing whose instruction is executed out of line / of one whose instruction is emulated",
        timing=True,
    ),
    Metric("order", "1", "neither", "cost of a firing of one provider / of another", of="dear_over_cheap", timing=True),
    _ratio("error", "predicted / measured - 1, of the cost that a held-out script adds", "script"),
    Metric("slowdown", "1", "neither", "cost with probes / without, of a held-out script", of="script", timing=True),
    _ratio("error_added_median", "median over held-out scripts of |error of the added cost|"),
    _ratio("error_added_worst", "largest over held-out scripts of |error of the added cost|"),
    _ratio("error_slowdown_median", "median over held-out scripts of |error of the slowdown|"),
    _ratio("error_slowdown_worst", "largest over held-out scripts of |error of the slowdown|"),
    _ratio("error_blind_median", "median |error of the added cost|, of all scripts that seeds have drawn in the arm"),
    _ratio("error_blind_worst", "largest |error of the added cost| of these"),
    fact("blind_scripts", "count", "higher", "scripts that seeds have drawn in the arm"),
    _ratio("blind_failed", "of these, such as could not be set up or predicted", timing=False),
    fact("blind_inside", "1", "higher", "of these, such as cost what the prediction's interval has; no failed one"),
    fact("advice_right", "1", "higher", "of pairs of scripts, such as whose cheaper one is the one that was predicted"),
    _ratio("advice_error", "largest |predicted - measured| of what a script adds to its workload, after / before"),
    fact("held_out_scripts", "count", "higher", "held-out scripts that were measured and predicted"),
    _ratio(
        "held_out_missed",
        "misses that the kernel counts / firings, of those probes of held-out scripts whose misses it counts (kprobes)",
        timing=False,
    ),
    _ratio(
        "held_out_lacking",
        "events that are not in the buffers / events that the counted firings make, over held-out scripts",
        timing=False,
    ),
    _ratio("nested_missed", "misses that the kernel reports / executions of the inner place", "pair", timing=False),
    _ratio("maxactive_enough_missed", "returns missed / calls, with slots for all tasks", timing=False),
    _ratio("maxactive_short_missed", "returns missed / calls, with three slots for eight tasks", timing=False),
    *(
        fact(f"depth_{depth}_{what}", "1", "neither", f"{told} / executed, of {depth} nested calls")
        for depth in (64, 100)
        for what, told in (("recorded", "returns recorded"), ("reported", "hits that the kernel reports"))
    ),
    fact("overrun_accounted", "1", "neither", "(events kept + events reported as overwritten) / executed"),
    _ratio("overrun_lost", "events reported as overwritten / executed, with a buffer of 16 KiB", timing=False),
    _ratio("table_lost", "entries reported as dropped / executed, with a full table of an aggregation", timing=False),
    fact("feedback_pages", "count", "neither", "pages per refresh where the reader's own read is probed"),
    _ratio("rate_spread", "largest cost of a firing / least - 1, over rates of firing, of the worst provider"),
    Metric(
        "sampling_floor", "ns", "neither", "the longest period asked for that costs what the shortest does", timing=True
    ),
    _ratio("sampling_slowdown_worst", "slowdown at the shortest period of sampling"),
    fact("hand_right", "count", "higher", "counts of our programs that are told as a person has them on paper"),
    fact("hand_right_outside", "count", "higher", "the same of a program of Debian's"),
    fact("second_difference", "count", "lower", "|told - second opinion|, over all counts on paper that have one"),
]  # fmt: skip
