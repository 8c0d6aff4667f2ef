# SPDX-License-Identifier: MIT
"""The tables that lock-trace decodes its trials into."""

from __future__ import annotations

from harness.measure.declared import KEY, Column, Table, columns_of, count, flag, number, string

from .locks.status import LockTraceStatus

_FILTER = string(
    "filter",
    "per-lock, paper; counter: what the paper's other sentence keeps; waits: where somebody waited",
)
_CLASS = string(
    "class", "the lock's class: a static symbol, a slab cache and the place in its object, or where it was set up"
)
_TYPE = string("type", "spinlock, rwlock:R, rwlock:W, mutex, rwsem:R, rwsem:W")
_CYCLES = "of the guest's time stamp counter; under the virtual clock an instruction is a cycle"


def _times(prefix: str, what: str) -> tuple[Column, Column]:
    return number(f"{prefix}_total", "ns", f"sum of {what}"), number(f"{prefix}_max", "ns", f"longest of {what}")


TABLES = [
    Table(
        "runs",
        "one workload of a trial, in the workload's own words",
        (
            *KEY,
            string("trace", "off, all, paper, per-lock, tracepoint, validate, contended, kprobes, contention, perf"),
            number("seconds", "s", "time it took; NaN: it did not say"),
            number("operations", "count", "operations that it made; NaN: it did not say"),
        ),
    ),
    Table(
        "traces",
        "what the kernel counted of one traced workload; kept, dropped and lost are of the arm's own filter, of "
        "validate those of the per-lock filter",
        (
            *KEY,
            number("traced_s", "s", "from the start of the trace to its stop"),
            count("kept", "events that the filter kept"),
            count("dropped", "events that the filter dropped"),
            count("lost", "events that were kept and found no room in a ring, of all streams"),
            number(
                "useful", "1", "share of the events that the filter kept; NaN: no filter ran, or there was no event"
            ),
            number("first_loss_s", "s", "from the start of the trace to the first lost event; NaN: none was lost"),
            count("ring_events", "events that the rings of all CPUs hold"),
            *columns_of(LockTraceStatus),
        ),
    ),
    Table(
        "probes",
        "a kprobe on a function of the kernel's locks while one workload ran, where these trace",
        (
            *KEY,
            string("probe", "attempt, acquired or release, and the function"),
            count("hits", "events that it recorded"),
            count("missed", "times that its place was executed within another probe, or found no room for its return"),
        ),
    ),
    Table(
        "told_waits",
        "a lock of the module, and what the kernel's trace point contention_begin told of it",
        (
            *KEY,
            string("name", "of the lock, as the module has it"),
            _TYPE,
            count("low", "waits by the module's own counts, at least"),
            count("high", "the same, at most"),
            count("told", "events before a sleep, or before a spin of a kind of lock that cannot sleep"),
            count("difference", "how far these are outside of low to high"),
        ),
    ),
    Table(
        "sums",
        "two counts of one traced workload that must be equal",
        (
            *KEY,
            string("check", "which two"),
            flag("balance", "what became of the events: kept, dropped, written, lost, in the file"),
            count("left", "the first"),
            count("right", "the second"),
            count("difference", "left less right"),
        ),
    ),
    Table(
        "contention",
        "the locks of one class that one call site took",
        (
            *KEY,
            _CLASS,
            _TYPE,
            string("caller", "function and offset that took it"),
            count("locks", "different locks"),
            number("acquisitions", "count", "times it was got; NaN: the arm does not see it"),
            count("contended", "of them, met somebody incompatible when they came"),
            count("failed", "failed trylocks"),
            count("abandoned", "waits that were given up"),
            count("depth_max", "most others that held or waited when one came"),
            *_times("wait", "waits, from the attempt to the acquisition"),
            number("wait_mean", "ns", "mean of all acquisitions; of tracepoint, of those that waited"),
            count("holds", "acquisitions whose release was seen"),
            *_times("hold", "holds; NaN: the arm does not see them"),
            number("hold_mean", "ns", "mean hold"),
            number(
                "contended_waits", "count", "contended acquisitions and waits given up, by the events; NaN: no event"
            ),
            *_times("contended_wait", "these waits; NaN: none, or events were lost"),
        ),
    ),
    Table(
        "blame",
        "waits for the locks of one class that began at one call site, and holds of one call site during them; nothing "
        "of an arm that lost events, or that sees no holds",
        (
            *KEY,
            _CLASS,
            string("type", "of the wait: spinlock, rwlock:R, rwlock:W, mutex, rwsem:R, rwsem:W"),
            string("caller", "function and offset that waited"),
            string("holder_caller", "function and offset that had taken the lock"),
            count("waits", "different waits"),
            count("holds", "different holds"),
            number("blamed_total", "ns", "sum of the times in which the one waited and the other held"),
            number("blamed_max", "ns", "longest of these times"),
            number("hold_total", "ns", "sum of these holds, from begin to end"),
        ),
    ),
    Table(
        "let_go",
        "arm contended: waits for the locks of one class that began at one call site, and releases at another one that "
        "somebody waited for then; since when the lock was held is unknown",
        (
            *KEY,
            _CLASS,
            _TYPE,
            string("caller", "function and offset that waited"),
            string("release_caller", "function and offset that let go"),
            count("waits", "different waits"),
            count("releases", "different releases"),
            count("pairs", "of a wait and a release"),
            count("own", "of them, of a thread and itself"),
        ),
    ),
    Table(
        "useful",
        "one lock that was acquired, as the per-lock filter saw it",
        (*KEY, _CLASS, count("acquisitions", "times it was got"), count("kept", "of them, kept by the filter")),
    ),
    Table(
        "filters",
        "what a filter kept of one workload, beside what a replay of the full log selects",
        (
            *KEY,
            _FILTER,
            count("log", "events in the full log"),
            number("selected", "count", "events that the replay selects; NaN: see reason"),
            number("equal", "count", "of them, kept and alike in all fields"),
            number("missing", "count", "selected and not kept"),
            number("extra", "count", "kept and not selected"),
            number("different", "count", "selected and kept, but a field differs"),
            number("waits", "count", "acquisitions of the full log whose trylock failed"),
            number("dropped_waits", "count", "of them, not kept"),
            number("dropped_holders", "count", "acquisitions that were waited for, by the log's times, and not kept"),
            number("acquisitions", "count", "acquisitions that were kept"),
            number("idle", "count", "of them, neither waited nor were waited for, by the log's times"),
            string("reason", "why nothing can be told; null: it can"),
        ),
    ),
    Table(
        "differences",
        "an example of what a filter kept wrongly; at most five of a kind",
        (*KEY, _FILTER, string("what", "missing, extra or different"), string("event", "the event in words")),
    ),
    Table(
        "gaps",
        "the events of the module's locks in one workload, and how many of them a filter kept",
        (
            *KEY,
            _FILTER,
            count("events", "events of the module's locks in the full log"),
            count("kept", "of them, kept by the filter"),
            count("after", "events of a lock from its first release on for which nobody held it"),
            count("after_dropped", "of them, dropped by the filter"),
        ),
    ),
    Table(
        "by_hand",
        "an answer that is counted on paper, and what the trace says",
        (
            *KEY,
            string("what", "what is counted"),
            number("by_hand", "count", "by what the program does in each of its operations"),
            number("traced", "count", "by the trace"),
            number("difference", "count", "between them"),
        ),
    ),
    Table(
        "site_sums",
        "the kernel's sums of each lock, type and call site, beside the same sums of the full log",
        (
            *KEY,
            number("compared", "count", "locks, types and call sites; NaN: see reason"),
            number("different", "count", "of them, with another sum"),
            string("fields", "the sums that differ; null: none"),
            string("reason", "why nothing can be told; null: it can"),
        ),
    ),
    Table(
        "pair",
        "what one acquire and release of a free lock costs, by kind of lock",
        (
            *KEY,
            string("kind", "kind of lock; none: the two readings of the clock alone"),
            number(
                "mean_first", "cycles", f"mean of the first 100 pairs with the readings, as the paper timed; {_CYCLES}"
            ),
            number("mean", "cycles", "mean of all pairs, with the readings"),
            number("median", "cycles", "median of all pairs, with the readings"),
            number("net", "cycles", "that median less the median of the readings alone"),
            count("pairs", "pairs that were timed"),
        ),
    ),
    Table(
        "quantiles",
        "how the costs of pairs are distributed",
        (
            *KEY,
            string("kind", "as in pair"),
            number("quantile", "1", "share of the pairs that cost at most that"),
            number("cycles", "cycles", _CYCLES),
        ),
    ),
    Table(
        "fill",
        "how full the rings were at one time; at most 400 rows a workload",
        (
            *KEY,
            number("seconds", "s", "since the start of the trace"),
            count("events", "calls of the hooks until then"),
            count("written", "events written into rings until then"),
            count("lost", "events lost until then"),
            count("in_ring", "events written and not yet read"),
        ),
    ),
    Table(
        "known",
        "one count that the module keeps of one of its locks, and what the trace has",
        (
            *KEY,
            string("name", "the module's name of the lock; null: see reason"),
            string("type", "as in contention"),
            string(
                "quantity", "attempts, acquired, tried, released, failed, abandoned, inits, orphans, conflicts, waits"
            ),
            number("low", "count", "least that it may be"),
            number("high", "count", "most that it may be"),
            number("traced", "count", "what the trace has"),
            number("difference", "count", "how far outside"),
            string("reason", "why nothing can be told; null: it can"),
        ),
    ),
    Table(
        "oracle",
        "calls of the locks' functions between two marks, by the oracle and by the trace",
        (
            *KEY,
            string("role", "begins (lock, trylock) or ends (unlock) an acquisition; null: see reason"),
            _TYPE,
            number("locks", "count", "different locks"),
            number("calls", "count", "calls that the oracle saw"),
            number("traced", "count", "events that say the same"),
            number("differing", "count", "locks whose counts differ"),
            number("difference", "count", "sum of the differences, lock by lock"),
            string("reason", "why nothing can be told; null: it can"),
        ),
    ),
    Table(
        "oracle_locks",
        "a lock of which oracle and trace have different counts; at most ten a workload",
        (
            *KEY,
            _CLASS,
            string("role", "as in oracle"),
            string("lock", "address"),
            _TYPE,
            count("calls", "calls that the oracle saw"),
            count("traced", "events that say the same"),
            count("difference", "between them"),
        ),
    ),
    Table(
        "block",
        "an acquisition of the block with the longest chain of waiters, of one workload in an arm's first trial",
        (
            *KEY,
            _CLASS,
            string("caller", "function and offset that took the lock"),
            Column("pid", "int64", "1", "the thread"),
            Column("context", "int64", "1", "0 task, 1 softirq, 2 interrupt, 3 NMI"),
            number("begin_s", "s", "the attempt, since the start of the trace; NaN: a trylock, or not seen"),
            number("acquired_s", "s", "the acquisition; NaN: never"),
            number("end_s", "s", "the release, or when the wait was given up"),
            flag("contended", "somebody incompatible held the lock or waited"),
            count("depth", "others that held or waited at the attempt"),
            flag("abandoned", "the wait was given up"),
        ),
    ),
    Table(
        "lock_stat",
        "what LOCK_STAT has of one class of locks",
        (
            *KEY,
            _CLASS,
            string("mode", "R or W of a lock that is taken for reading and for writing; empty: neither"),
            *(
                count(name, f"LOCK_STAT's {name}")
                for name in ("con_bounces", "contentions", "acq_bounces", "acquisitions")
            ),
            *(
                number(f"{what}_{which}_us", "us", f"LOCK_STAT's {what}time-{which}")
                for what in ("wait", "hold")
                for which in ("min", "max", "total", "mean")
            ),
        ),
    ),
]
