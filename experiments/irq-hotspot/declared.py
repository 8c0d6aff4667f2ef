# SPDX-License-Identifier: MIT
"""The tables of irq-hotspot: their columns, types, units and meanings."""

from __future__ import annotations

from harness.measure.declared import KEY, Column, Table, columns_of, count, flag, number, string

from .answers import Load

_FUNCTION = string("function", "the kernel's function")
_ROLE = string("role", "what it is here: idle, raise, task work, handler NAME, or other")

RUNS = Table(
    "runs",
    "one workload of one trial, whether or not its files could be read",
    (*KEY, string("sampling", "the arm's irq_sampling: off, entry (the fix), handler (entries alone) or nmi")),
)
BUFFERS = Table(
    "buffers",
    "the profile buffer of one workload, as a whole",
    (
        *KEY,
        Column("step", "int64", "B", "bytes of text per counter"),
        count("counters", "counters in the buffer"),
        count("total", "all counts, of ticks and of entries"),
        count("out_of_text", "of them in the last counter, which belongs to no function"),
        number("shared", "count", "of the rest, in counters that hold bytes of several functions"),
        string("idle_function", "the function in which the kernel waits when it is idle; null: no CPU was seen idle"),
        number("idle_ticks", "count", "ticks in it; NaN: there is none"),
        number("idle_per_byte", "count/B", "those ticks per byte of the function; NaN: there is none"),
        number("idle_rank", "1", "its place among all functions by ticks, from 1; NaN: there is none"),
        number(
            "raise_ticks", "count", "ticks in krepro_edu_raise, where handlers interrupt the kernel; NaN: not there"
        ),
        number("task_work_ticks", "count", "ticks in krepro_edu_task_work, the load's own work; NaN: not there"),
        string("top_function", "the function with most ticks"),
        number("top_ticks", "count", "its ticks"),
        number("top_printed", "count", "what the paper's pseudo-code gives that function"),
        string("printed_top_function", "the function with most ticks by the paper's pseudo-code"),
        number("printed_top_ticks", "count", "its ticks by the paper's pseudo-code"),
        number("printed_top_real", "count", "what that function really has"),
        number("printed_total", "count", "all ticks by the paper's pseudo-code"),
        number(
            "printed_error", "1", "sum of |by the pseudo-code - decoded| over the ticks in text, 0 and up; NaN: none"
        ),
        number("readprofile_error", "1", "the same for the attribution of util-linux's readprofile"),
        count("printed_outside", "counts whose index by the paper's formula, RPos/2^N, lies beyond its 2^N counters"),
    ),
)
BRACKETS = Table(
    "brackets",
    "how exactly the buffer and the interrupts of one workload belong together",
    (
        *KEY,
        flag("exact", "whether every count compares exactly with the growth of /proc/interrupts"),
        count("tick_slack", "timer interrupts that may or may not be in the buffer"),
        count("retries", "attempts of the collector beyond the first"),
        number("window_s", "s", "from the begin to the end, in the guest's time"),
        number("counted_entries", "count", "handler entries by the kernel's own tally; NaN: a kernel without it"),
        number("counted_interrupted", "count", "interrupted addresses counted at interrupts, by that tally"),
        number("counted_clamped", "count", "of both, those outside the text, by that tally"),
        number("nmis", "count", "NMIs that the kernel took for samples, those in user mode included"),
    ),
)
INTERRUPTS = Table(
    "interrupts",
    "one row of /proc/interrupts, over all CPUs, of one workload",
    (
        *KEY,
        string("irq", "the line's number, or the name of the row: LOC, ERR, …"),
        string("actions", 'names of the actions on the line, ", " between them; empty: none'),
        count("interrupts", "interrupts between the two snapshots"),
    ),
)
ANSWERS = Table(
    "answers",
    "what one workload's program reports: the known answers",
    (
        *KEY,
        number("raised", "count", "interrupts of the edu device that the load raised; NaN: not this load, as below"),
        *columns_of(Load),
    ),
)
PROFILE = Table(
    "profile",
    "one function that may have a tick, or the counter of addresses out of text, of one workload",
    (
        *KEY,
        string("function", "the kernel's function, or *out of text*"),
        _ROLE,
        Column("address", "uint64", "B", "its first byte; 0 out of text"),
        Column("size", "uint64", "B", "to the next function; 0 out of text"),
        number("ticks", "count", "counts; a counter that several functions share is split by bytes"),
        number("low", "count", "counts in counters that are its own: it has at least these"),
        number("high", "count", "counts in all counters that hold a byte of it: it has at most these"),
        number("shared", "count", "of its ticks, those from shared counters"),
        number("ticks_per_byte", "count/B", "ticks over size, readprofile's third column; NaN out of text"),
        number("printed", "count", "ticks by the paper's pseudo-code; NaN out of text"),
    ),
)
HANDLERS_RAN = Table(
    "handlers",
    "one handler whose line had an interrupt, of one workload",
    (
        *KEY,
        string("handler", "its kind, or the action's name where the kind is not known"),
        string("function", "what the kernel calls for it; null: not told, or in a module; then no ticks or entries"),
        string("lines", "its lines in /proc/interrupts"),
        count("interrupts", "interrupts on them, each certainly sampled"),
        count("slack", "that many more may have been"),
        flag("shared", "whether another handler is called on one of its lines too"),
        number("entries", "count", "counts of its first byte's counter; NaN: the arm samples no entries"),
        flag("exclusive", "whether that counter holds nothing but the handler"),
        number("ticks", "count", "ticks in these and in functions that they alone call, entries subtracted"),
        number("ticks_high", "count", "the same, if every shared counter were all its own"),
    ),
)
MISREAD = Table(
    "misread",
    "the buffer of one workload, read in one way: as it is, or one off",
    (
        *KEY,
        string("reading", "as_it_is, step_counted (the step is taken for a counter), counter_early or function_early"),
        number("first_count", "count", "counts of the first function, _stext"),
        string("top_function", "the function with most counts"),
        number("top_ticks", "count", "its counts"),
        number("idle_ticks", "count", "counts under the names of idle functions"),
        number("entries", "count", "entries of the handlers that ran; NaN: the arm samples none, or none ran"),
        number("entries_own", "count", "of them, those under the handlers' own names"),
        number("entries_before", "count", "of them, those under the names of the functions right before the handlers"),
    ),
)
SWEEP = Table(
    "sweep",
    "the samples of one trial of arm n2, folded to counters of 2^n bytes",
    (
        *KEY,
        count("n", "the boot parameter profile=n that has such counters"),
        Column("step", "int64", "B", "bytes per counter"),
        number("neighbour_share", "1", "share of ticks in counters that hold several functions; NaN: no ticks"),
    ),
)
TRUTH = Table(
    "truth",
    "one kernel function that ran or was counted in the window of one workload's buffer, in a trial with an oracle",
    (
        *KEY,
        _FUNCTION,
        _ROLE,
        number("instructions", "instructions", "executed, exact, those in NMIs left out"),
        number("entries", "count", "its calls, exact"),
        number("interrupt", "instructions", "of the instructions, those in hard interrupts"),
        number("samples", "count", "of the ideal sampler; NaN: it did not run"),
        number("ticks", "count", "of /proc/profile: ticks and counted entries; NaN: the buffer could not be read"),
    ),
)
ERROR = Table(
    "error",
    "how far the first n samples of a profiler are from the truth, in one workload",
    (
        *KEY,
        string("source", "ideal sampler or /proc/profile"),
        count("n", "samples, in random order"),
        number("error", "1", "root of the summed squares of the differences of shares"),
        number("expected", "1", "the same of n independent unbiased samples"),
    ),
)
NMIS = Table(
    "nmis",
    "the NMIs that the oracle sent in one trial, and their cost in one workload",
    (
        *KEY,
        count("sent", "in the whole trial"),
        number("cost", "1", "share of the kernel's instructions that NMIs took; NaN: the kernel executed none"),
    ),
)
CELLS = Table(
    "cells",
    "one cell of the bias map by one sampler: the load begins its work at a phase of the tick, in each of its cycles",
    (
        *KEY,
        string("sampler", "tick, jittered tick, NMI or ideal sampler"),
        number("phase", "1", "where in the tick's period the work begins, 0 at the tick"),
        number("duty", "1", "part of a period that the work is made to take"),
        count("samples", "in the kernel"),
        count("inside", "of them, in the work (krepro_edu_task_work)"),
        number("told", "1", "the work's share of the samples; NaN: there are none"),
        number("exact", "1", "its share of the kernel's instructions, by the oracle"),
        number("low", "1", "end of the 95 % interval of independent samples (Clopper and Pearson); NaN: no samples"),
        number("high", "1", "its other end"),
        flag("outside", "whether the exact share lies outside of it"),
        number(
            "chance", "1", "probability of a count as unlikely as this if samples were independent; NaN: no samples"
        ),
    ),
)
PEERS = Table(
    "peers",
    "the work of workload peers beside one profiler, within the oracle's lap, and what the profiler tells of it",
    (
        *KEY,
        string("profiler", "the parameter profiler: none, tick, entry, jitter, nmi, perf, trace, account, times"),
        count("interrupts", "of the edu device"),
        number("told_ns", "ns", "time of the edu handler by the profiler; NaN: it tells none"),
        number("runs", "count", "runs of the edu handler by the profiler; NaN: it tells none"),
        number("exact_ns", "ns", "its exact instructions, times an instruction's time"),
        number("profile_error", "1", "part of the kernel's time in wrong functions; NaN: it tells handlers alone"),
        number("instructions", "instructions", "executed in the lap, exact, in user mode and in NMIs too"),
    ),
)
TABLES = [
    *(RUNS, BUFFERS, BRACKETS, INTERRUPTS, ANSWERS, PROFILE, HANDLERS_RAN, MISREAD, SWEEP, TRUTH, ERROR, NMIS, CELLS),
    PEERS,
]
