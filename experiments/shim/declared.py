# SPDX-License-Identifier: MIT
"""The tables of shim; its metrics are in families.py.

Cycles are of the guest's time-stamp counter, which both CPUs share. A window lies between two samples. A piece is a
part of an observation between two readings of the host's figures, about 20 ms.
"""

from __future__ import annotations

from harness.measure.declared import KEY, Column, Table, columns_of, count, flag, number, string

from .exact import EXACT_TABLES
from .gaps import GAPS_TABLES
from .hand import HAND_TABLES
from .hello import HELLO_TABLES
from .observer.answers import Observed, Signal, TimerSampled
from .published import PUBLISHED_TABLES

RUN = string("run", "the run of the observer, by the name of its files")
TSC_HZ = number("tsc_hz", "Hz", "the rate of the time-stamp counter")


def _cycles(name: str, meaning: str) -> Column:
    return Column(name, "int64", "cycles", meaning)


def _pid(name: str, meaning: str) -> Column:
    return Column(name, "int64", "1", meaning)


TABLES = [
    *PUBLISHED_TABLES,
    *EXACT_TABLES,
    *GAPS_TABLES,
    *HELLO_TABLES,
    *HAND_TABLES,
    Table(
        "checks",
        "one load whose threads compare the slot with their own gettid",
        (
            *KEY,
            count("checks", "comparisons"),
            count("wrong", "comparisons in which pid, tgid or both differed"),
            number("switches", "count", "switches that the load made; NaN: it does not count them"),
            number("turn_ns", "ns", "from one switch to the next: 100 comparisons and the switch; NaN: no comparison"),
        ),
    ),
    Table(
        "rights",
        "one thing that the map of the slots was asked",
        (
            *KEY,
            string("what", "the question"),
            string("answer", "errno's name, ok, yes or no, or pid/tgid of a slot; null: it could not be asked"),
            string("reason", "why it could not be asked; null: it was"),
            count("asked", "how often it was asked"),
            count("given", "how often this was the answer"),
        ),
    ),
    Table(
        "runs",
        "one run of the observer, as it counted itself",
        (
            *KEY,
            RUN,
            *columns_of(Observed),
            number("asked_ns", "ns", "the period that was asked for; 0: as fast as it can"),
            number("samples_per_s", "count/s", "samples in a second; NaN: it took no time"),
            number("period_mean_ns", "ns", "time per sample; NaN: no samples"),
            number("trusted_share", "1", "of the windows judged; NaN: none"),
        ),
    ),
    Table(
        "period_quantiles",
        "the period of one run of the observer, begin to begin",
        (
            *KEY,
            RUN,
            number("p10_ns", "ns", "a tenth of the windows is at most so long"),
            number("p50_ns", "ns", "the median"),
            number("p90_ns", "ns", "nine tenths are at most so long"),
            number("p99_ns", "ns", "all but a hundredth are at most so long"),
        ),
    ),
    Table(
        "periods",
        "one bucket of the histogram of the period of a run",
        (
            *KEY,
            RUN,
            _cycles("low", "the shortest period in it"),
            _cycles("high", "the first period above it"),
            count("windows", "windows of this length"),
            count("trusted", "of these, trusted"),
            TSC_HZ,
        ),
    ),
    Table(
        "threads",
        "one thread of the observed CPU, as a run of the observer saw it",
        (
            *KEY,
            RUN,
            _pid("pid", "its id; 0 idle, -1 never seen, -2 windows with a switch, -3 all threads without a row"),
            _pid("tgid", "its process"),
            string("thread", "its name and id"),
            _cycles("cycles", "length of its windows"),
            count("windows", "windows in which it alone had the CPU"),
            count("trusted", "of these, trusted"),
            _cycles("trusted_cycles", "length of the trusted ones"),
            number(
                "instructions", "instructions", "counted in its trusted windows; NaN: no counter of the observed CPU"
            ),
            TSC_HZ,
        ),
    ),
    Table(
        "counters",
        "one counter that a run of the observer asked for",
        (
            *KEY,
            RUN,
            flag("used", "whether its counts are used"),
            *columns_of(Signal),
        ),
    ),
    Table(
        "events",
        "one event that the observer lists",
        (
            *KEY,
            string("name", "what it counts"),
            string("source", "pmu or oracle"),
            string("scope", "whose events it counts"),
            string("reason", "why it cannot be had; null: it can"),
        ),
    ),
    Table(
        "recheck",
        "the trust test done again on the samples of a run, in exact arithmetic",
        (
            *KEY,
            RUN,
            count("samples", "samples in the file"),
            count("gaps", "neighbours in the file that are no window: samples between them were lost"),
            count("windows", "windows judged again"),
            count("trusted", "windows trusted by this test"),
            count("wrong", "windows whose flags in the file differ"),
            count("same_ids", "windows with one thread and one count of switches at both ends"),
            count("delayed", "windows with a delay at one of their ends"),
            count("long_delay", "of these, with a delay of more than twice what the bounds allow of the window"),
            count("long_delay_trusted", "of these, trusted by this test or by the program"),
            count("beyond", "windows with a delay of more than the bounds allow of the window"),
            count("beyond_trusted", "of these, trusted by this test or by the program"),
            count("short_trusted", "windows with a delay too short for them (not long_delay) that are trusted"),
            count("clean_all", "windows without a delay"),
            count("clean_all_trusted", "of these, trusted"),
            count("clean", "windows without a delay, in pieces that the host did not disturb"),
            count("clean_trusted", "of these, trusted"),
            string("unsound", "why the pieces that are left say nothing; null: they do, or nobody told the observer"),
        ),
    ),
    Table(
        "delays",
        "the delays put into the samples of a run",
        (
            *KEY,
            count("delays", "how many"),
            number("shortest_ns", "ns", "the shortest"),
            number("longest_ns", "ns", "the longest"),
        ),
    ),
    Table(
        "host",
        "one piece of an observation: how the host ran the two vCPUs",
        (
            *KEY,
            RUN,
            number("begin_s", "s", "its begin, since that of the observation"),
            number("waited", "1", "share of its time for which a vCPU waited for the host, the larger of the two"),
            flag("sound", "whether it counts: no vCPU waited for more than the limit"),
        ),
    ),
    Table(
        "switches",
        "one observation's switches against the kernel's sched_switch trace",
        (
            *KEY,
            count("events", "switches in the trace between the first and the last that was seen"),
            count("seen", "of these, seen"),
            number("missed", "count", "of these, not seen; NaN: nothing to compare"),
            number("missed_share", "1", "missed of events; NaN: nothing to compare"),
            count("compared", "switches seen whose thread was compared"),
            count("wrong", "of these, with another thread than the trace's"),
            count("unmatched", "switches seen that have no event in the trace"),
            count("drift", "switches that the slot did not count (negative: counted too often)"),
            count("torn", "switches seen while the slot was never at rest"),
            number("lag_median_us", "us", "slot's time less the trace's, median; NaN: nothing to compare"),
            number("lag_most_us", "us", "the largest; NaN: nothing to compare"),
            number("sound_share", "1", "of the time, in pieces that the host did not disturb; NaN: nobody told"),
            count("sound", "switches in the trace in these pieces; all, where nobody told"),
            count("sound_missed", "of these, not seen"),
            string("unsound", "why the pieces that are left say nothing; null: they do, or nobody told the observer"),
            number("per_s", "count/s", "switches in the trace while the observer ran; NaN: none"),
            count("overrun", "events that the kernel's trace lost"),
            count("log_lost", "switches seen that found no room in the ring"),
        ),
    ),
    Table(
        "intervals",
        "one bucket of how long threads, or idle, had the CPU at a time",
        (
            *KEY,
            string("source", "seen: by the observer; truth: sched_switch"),
            string("what", "idle or thread"),
            number("low", "us", "the shortest interval in it"),
            number("high", "us", "the first interval above it"),
            count("count", "intervals"),
        ),
    ),
    Table(
        "idle",
        "idle time of the observed CPU",
        (
            *KEY,
            number("seen_share", "1", "of the time, as the observer saw it; NaN: no time in common with the trace"),
            number("truth_share", "1", "of the time, by sched_switch"),
            number("load_share", "1", "of the time, as the load made it"),
            count("periods", "idle periods in the trace, in pieces that the host did not disturb"),
            count("missed", "of these, not seen"),
            count("periods_all", "idle periods in the trace"),
            count("missed_all", "of these, not seen"),
            number("seconds", "s", "the time that observer and trace have in common"),
            string("unsound", "why the pieces that are left say nothing; null: they do, or nobody told the observer"),
        ),
    ),
    Table(
        "slices",
        "one turn of a thread on the observed CPU: its timeline",
        (
            *KEY,
            string("track", "who says so: the observer or sched_switch"),
            string("name", "the thread"),
            number("start_s", "s", "since the begin of what both have in common"),
            number("duration_s", "s", "how long it had the CPU"),
        ),
    ),
    Table(
        "rates",
        "instructions of a thread in one interval of time",
        (
            *KEY,
            string("thread", "kind of its work, or its name, and its id"),
            _pid("pid", "its id"),
            number("start_s", "s", "begin of the interval, since the first sample"),
            number("seconds", "s", "its trusted windows in the interval"),
            count("windows", "how many these are"),
            number("instructions", "instructions", "counted in them"),
            number("per_s", "count/s", "instructions in a second of these windows"),
        ),
    ),
    Table(
        "thread_rates",
        "instructions of a thread of known work, over the whole observation",
        (
            *KEY,
            string("thread", "kind of its work and its id"),
            string("mix", "kind of its work"),
            number("known", "1", "instructions per cycle of the clock, by its own account"),
            number("seen", "1", "the same, by the observer's trusted windows"),
            number("error", "1", "seen over known, less 1"),
            number("seen_all", "1", "the same, by all windows of the thread"),
            number("error_all", "1", "seen_all over known, less 1"),
        ),
    ),
    Table(
        "known",
        "a counter over chunks of known work",
        (
            *KEY,
            count("chunks", "chunks of known work"),
            number("counted", "instructions", "by the counter; NaN: no chunk can be judged"),
            number("known", "instructions", "executed"),
            number("error", "1", "counted over known, less 1"),
            number("error_median", "1", "the same of each chunk, the median"),
            number("outside", "1", "share of the time between chunks, whose work is not known"),
            number("unsure", "1", "share of the time that lies between two samples at the ends"),
            string("source", "the counter's"),
            string("reason", "why no chunk can be judged; null: some can"),
        ),
    ),
    Table(
        "cost",
        "one phase beside the target, against the target alone before and after it",
        (
            *KEY,
            string("what", "observer, spin (a program that looks at nothing) or timer sampler"),
            count("phase", "its number, by its begin"),
            number("on", "cycles", "per iteration of the target's loop, beside it"),
            number("off", "cycles", "per iteration, before and after"),
            number("ratio", "1", "on over off"),
        ),
    ),
    Table(
        "timer",
        "one run of the timer sampler: perf's cpu-clock at its highest rate",
        (
            *KEY,
            string("when", "alone, or both: beside the observer"),
            *columns_of(TimerSampled),
        ),
    ),
]
