# SPDX-License-Identifier: MIT
"""The metrics of lock-trace."""

from __future__ import annotations

from harness.measure.declared import fact, timed
from harness.measure.units import Unit

_LOAD = "workload; without it, the sum over the trial's workloads"
_MEDIAN = "workload; without it, the median of the trial's workloads"
_FILTER = "filter (per-lock or paper), then workload; without a workload, the sum over the trial's"
_JUDGED = "filter (per-lock, paper, counter), then workload; without a workload, the sum over the trial's"
_KIND = "kind of lock"
_PAIR: tuple[Unit, ...] = ("instructions", "cycles")

METRICS = [
    # -- sums that must hold
    fact(
        "unbalanced", "count", "lower",
        "events unaccounted for: kept + dropped against all events, kept against written + lost, written against the "
        "events in the file", of=_LOAD,
    ),
    fact(
        "wrong_sums", "count", "lower",
        "how far the kernel's other sums are off: kinds of events, hooks within hooks", of=_LOAD,
    ),
    fact("nested", "count", "lower", "hooks that ran within a hook", of=_LOAD),
    fact("untracked", "count", "lower", "events of locks that found no place in the table of locks", of=_LOAD),
    fact(
        "lost", "count", "lower",
        "events that found no room in a ring; the sum leaves out the workloads whose rings nobody reads", of=_LOAD,
    ),
    fact(
        "missed", "count", "lower",
        "times that a kprobe's place was executed and the probe recorded nothing, by the kernel's count", of=_LOAD,
    ),
    # -- what is useful, and what it costs
    timed("useful", "1", "neither", "share of the events that the filter keeps", of=_MEDIAN),
    timed(
        "useful_programs", "1", "neither",
        "share of the events that the filter keeps, of all events while programs ran (files, pipes, sockets, forks)",
    ),
    timed(
        "waited_programs", "1", "neither",
        "share of the events of acquisitions that waited or were waited for, of all events while programs ran",
    ),
    timed("slowdown", "1", "lower", "time of the workload, over its time untraced", of=_MEDIAN),
    timed(
        "full_s", "s", "higher",
        "time that rings which nobody reads last: their size over the rate at which the load fills them", of="workload",
    ),
    timed("buffer_ratio", "1", "higher", "full_s, over that of the arm without a filter", of="workload"),
    timed(
        "full_work", "count", "higher",
        "operations of the load that fill rings which nobody reads: their size over the events that each has kept",
        of="workload",
    ),
    timed("buffer_work_ratio", "1", "higher", "full_work, over that of the arm without a filter", of="workload"),
    timed(
        "gigabyte_s", "s", "higher",
        "time that 1 GB a CPU lasts at the rate at which the load fills it: absent where CPUs are emulated",
        of="workload",
    ),
    timed(
        "first_loss_s", "s", "higher",
        "time from the start of the trace to the first event that found no room in a ring which nobody reads",
        of="workload",
    ),
    timed("first_loss_ratio", "1", "higher", "first_loss_s, over that of the arm without a filter", of="workload"),
    timed("pair", _PAIR, "lower", "median pair of acquire and release, less the readings", of=_KIND),
    timed("pair_median", _PAIR, "lower", "median pair, with the readings", of=_KIND),
    timed("pair_mean", _PAIR, "lower", "mean pair, with the readings", of=_KIND),
    timed(
        "pair_mean100", _PAIR, "lower",
        "mean of the first 100 pairs, with the readings: as the paper timed", of=_KIND,
    ),
    timed("pair_of_off", "1", "lower", "pair, over that of the arm without a trace", of=_KIND),
    timed(
        "overhead_of_all", "1", "lower",
        "what is added to a bare pair, over what the arm that keeps all events adds to it", of=_KIND,
    ),
    timed("pair_of_all", "1", "lower", "pair, over that of the arm that keeps all events", of=_KIND),
    timed("pair_mean100_of_off", "1", "lower", "pair_mean100, over that of the arm without a trace", of=_KIND),
    timed("pair_mean100_of_all", "1", "lower", "pair_mean100, over that of the arm that keeps all events", of=_KIND),
    # -- against what is known without the trace
    fact("selected", "count", "neither", "events that a replay of the full log selects", of=_JUDGED),
    fact("missing", "count", "lower", "events that the replay selects and the filter did not keep", of=_FILTER),
    fact("extra", "count", "lower", "events that the filter kept and the replay does not select", of=_FILTER),
    fact("different", "count", "lower", "events that both have, with another value in a field", of=_FILTER),
    fact("dropped_waits", "count", "lower", "acquisitions whose trylock failed, not kept by the filter", of=_JUDGED),
    fact(
        "dropped_holders", "count", "lower",
        "acquisitions during which another waited, by the log's times, not kept by the filter", of=_JUDGED,
    ),
    fact(
        "idle", "count", "lower",
        "acquisitions that the filter kept, and nobody waited, by the log's times", of=_JUDGED,
    ),
    fact(
        "idle_share", "1", "lower",
        "of the acquisitions that the filter kept: in how many nobody waited", of="filter (per-lock, paper, counter)",
    ),
    fact(
        "gap_kept", "1", "neither",
        "share of the events of the module's locks that a filter keeps",
        of="filter (per-lock, paper, counter), then workload",
    ),
    fact(
        "gap_dropped", "count", "lower",
        "events of the module's locks that a filter drops from the lock's first release on for which nobody held it",
        of="filter (per-lock, paper, counter), then workload",
    ),
    fact(
        "sites_different", "count", "lower",
        "call sites of which the kernel's sums are not those of the full log", of=_LOAD,
    ),
    fact("known_difference", "count", "lower", "how far counts are off from those that the module kept", of=_LOAD),
    fact("told_difference", "count", "lower", "how far contention_begin is off from the module's waits", of=_LOAD),
    fact(
        "told_share", "1", "neither",
        "waits of which contention_begin told, of those that the module is sure of", of="workload",
    ),
    fact("told_waits", "count", "neither", "waits for the module's locks of which contention_begin told", of=_LOAD),
    fact("known_counts", "count", "neither", "counts of the module that were compared"),
    fact("hand_difference", "count", "lower", "how far the trace is off from what is counted on paper", of=_LOAD),
    fact(
        "oracle_difference", "count", "lower",
        "calls that the oracle saw and the trace did not, or the reverse", of=_LOAD,
    ),
    fact("oracle_calls", "count", "neither", "calls that the oracle saw", of=_LOAD),
    fact("lock_stat_contentions", "count", "neither", "LOCK_STAT's contentions of the module's locks", of="workload"),
    fact(
        "lock_stat_difference", "count", "neither",
        "LOCK_STAT's contentions of the module's locks, less the trace's", of="workload",
    ),
]  # fmt: skip
