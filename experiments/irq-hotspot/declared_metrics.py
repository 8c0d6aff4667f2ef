# SPDX-License-Identifier: MIT
"""The families of metrics of irq-hotspot; those that are timed are measured by the guest's clock."""

from __future__ import annotations

from harness.measure.declared import fact, timed

_HANDLER, _WORKLOAD = "handler", "workload"
_PROFILER = "profiler: ticks (the profile buffer, whatever it samples) or sampler (the ideal one)"

METRICS = [
    # -- the blind spot, and the fix's entry counts --
    fact(
        "handler_ticks", "count", "neither",
        "ticks inside the functions of handlers that ran, entries subtracted; in all workloads", of=_HANDLER,
    ),
    fact(
        "handler_ticks_bound", "count", "neither",
        "handler_ticks, if every counter that a handler shares were all the handler's",
    ),
    fact("handler_interrupts", "count", "neither", "growth of /proc/interrupts on handlers' lines", of=_HANDLER),
    fact(
        "entries_per_interrupt", "1", "neither",
        "counts of the handler's first byte over the interrupts on its lines; of the trial's workloads the ratio that "
        "is farthest from 1", of=_HANDLER,
    ),
    fact(
        "entries", "count", "neither",
        "counts of the first byte of the workload's device's handler: what a person can count on paper (byhand.py)",
        of=_WORKLOAD,
    ),
    # -- the buffer as a whole --
    fact("step_bytes", "B", "lower", "bytes of text per counter"),
    fact("counters", "count", "higher", "counters in the buffer"),
    fact("neighbour_share", "1", "lower", "share of the ticks in text that lie in counters of several functions"),
    fact("neighbour_rise", "1", "lower", "neighbour_share less that of the next smaller N in the same repetition"),
    fact("neighbour_rise_total", "1", "lower", "neighbour_share at N=7 less that at N=2 in the same repetition"),
    fact("out_of_text_share", "1", "lower", "share of all counts in the last counter, which has no function"),
    fact("bracket_exact", "1", "higher", "share of the workloads whose counts compare exactly with the interrupts"),
    fact("bracket_retries", "count", "lower", "attempts of the collector beyond the first"),
    fact(
        "printed_error", "1", "lower",
        "sum of |ticks by the paper's pseudo-code - decoded ticks| over the decoded ticks", of=_WORKLOAD,
    ),
    fact("readprofile_error", "1", "lower", "the same for util-linux's readprofile; 2: all are wrong", of=_WORKLOAD),
    fact(
        "printed_outside", "1", "lower",
        "share of the counts whose index by the paper's formula, RPos/2^N, lies beyond its 2^N counters", of=_WORKLOAD,
    ),
    # -- the idle workload --
    fact("idle_rank", "1", "neither", "place of the idle function among all functions by ticks, from 1"),
    fact("idle_share", "1", "neither", "share of all counts in the idle function"),
    fact("idle_per_byte", "count/B", "neither", "ticks of the idle function per byte of it, the third column"),
    fact(
        "samples_per_timer_interrupt", "1", "neither",
        "counts that are no handler entries, over timer interrupts, in workload idle",
    ),
    # -- time in the edu handler, workload edu --
    timed("handler_time_known", "s", "neither", "handler runs times the measured time of one"),
    timed("handler_time_share", "1", "neither", "handler_time_known over the time between the brackets"),
    timed(
        "handler_time_ratio", "1", "neither",
        "samples inside the handler times the mean time between two (ticks, or NMIs), over the known time",
    ),
    timed(
        "displaced_time_ratio", "1", "neither",
        "ticks in the function that the handler interrupts, times a tick's period, over the known time of the handlers "
        "that interrupted it; absent where displaced_ticks_due of the arm's trials sums to less than 25",
    ),
    timed(
        "displaced_ticks_due", "count", "neither",
        "the known time of the handlers that interrupted kernel mode, in ticks' periods",
    ),
    fact("light_entries_ratio", "1", "neither", "entries of the edu handler in edu-light over those in edu"),
    fact(
        "light_instructions_ratio", "1", "neither",
        "exact instructions of the edu handler in edu-light over those in edu",
    ),
    # -- the paper's tables, workload mixed --
    fact(
        "row_counts", "count", "neither",
        "counts of the function that does the job of the paper's row today", of="the paper's row",
    ),
    fact(
        "rows_counted", "count", "neither",
        "rows of the paper's table whose job the workload does and whose function of today has a count",
        of="before or after the fix",
    ),
    fact("sampled_ticks", "1", "neither", "samples of the tick over timer interrupts: the rest was in user mode"),
    timed("tick_hz", "Hz", "neither", "timer interrupts over the time between the brackets"),
    fact(
        "idle_doubling", "1", "neither",
        "counts of the idle function over those in arm tick-mixed of the same repetition",
    ),
    fact(
        "user_interrupted", "1", "neither",
        "share of the interrupts with a handler that interrupted user mode, whose address the fix leaves out",
    ),
    # -- a buffer that is read one off --
    fact(
        "misread_entries", "1", "neither",
        "share of the handlers' entries that come out under the name of the function before; in all workloads",
        of="reading",
    ),
    fact(
        "misread_named", "1", "neither",
        "share of the handlers' entries that come out under the handlers' own names; in all workloads", of="reading",
    ),
    fact(
        "misread_idle", "1", "neither",
        "counts under the idle functions' names over those read as it is", of="reading",
    ),
    # -- known answers --
    fact("handled_per_raise", "1", "neither", "interrupts that the edu handler counted over those raised"),
    fact("interrupts_per_raise", "1", "neither", "growth of /proc/interrupts on the edu line over those raised"),
    fact("interrupts_per_read", "1", "neither", "disk interrupts over blocks read, workload disk"),
    fact("received_bytes", "B", "neither", "bytes that workload net received"),
    # -- exact truth, workload edu --
    fact(
        "truth", "1", "neither",
        "exact share of the kernel's instructions: handler (the edu handler) or interrupts (all hard interrupts)",
        of="handler or interrupts",
    ),
    fact(
        "known_instructions", "1", "neither",
        "exact instructions of the edu handler's loops over the known ones: two for each loop, and one for each run",
    ),
    fact("fix_cost", "instructions", "lower", "exact instructions of the second sampling point over the calls of it"),
    fact("estimate", "1", "neither", "the edu handler's share of a profiler's samples", of=_PROFILER),
    fact("missed", "1", "lower", "part of the edu handler's share that a profiler misses", of=_PROFILER),
    fact("error", "1", "lower", "part of the kernel's time that a profiler puts into wrong functions", of=_PROFILER),
    fact(
        "error_of_independent", "1", "lower",
        "root of the summed squares of the differences of shares, over the same that as many independent unbiased "
        "samples have on average; below 1 where each part of the time has its share of the samples", of=_PROFILER,
    ),
    # -- the bias map: loads in step with the tick --
    fact(
        "map_outside", "1", "lower",
        "share of the map's cells whose exact share is outside the 95 % interval of independent samples", of=_PROFILER,
    ),
    fact("map_error", "1", "lower", "mean over the cells of |share told - exact share|", of=_PROFILER),
    fact(
        "map_blind", "1", "lower",
        "largest exact share of a cell in which the work has no sample; 0: there is none", of=_PROFILER,
    ),
    fact(
        "map_all", "1", "higher",
        "smallest exact share of a cell in which the work has all samples; 1: there is none", of=_PROFILER,
    ),
    fact("map_inside", "count", "neither", "the arm's own samples in the work, in all cells of the map"),
    fact(
        "map_blind_chance", "1", "higher",
        "in the cell of map_blind.ticks of arm map-tick, same repetition: probability of a count as unlikely as this "
        "arm's if its samples were independent",
    ),
    # -- one profiler at a time beside the same work, workload peers --
    fact(
        "peer_told", "1", "higher",
        "time of the edu handler that the arm's profiler tells, over its exact instructions times the time of one",
    ),
    fact("peer_error", "1", "lower", "|peer_told - 1|"),
    fact("peer_runs", "count", "neither", "runs of the edu handler that the arm's profiler tells"),
    fact(
        "peer_by_hand", "1", "neither",
        "time of the edu handler that the arm's profiler tells, over 1,000 times 40,001 instructions of 8 ns",
    ),
    fact(
        "peer_profile_error", "1", "lower",
        "part of the kernel's time that the arm's profiler puts into wrong functions; absent: it tells handlers alone",
    ),
    fact(
        "peer_cost", "instructions", "lower",
        "exact instructions of the work beyond those in arm peer-none of the same repetition, for each edu interrupt",
    ),
    # -- loads of many functions --
    fact(
        "interrupt_share", "1", "neither",
        "exact share of the kernel's instructions in hard interrupts", of=_WORKLOAD,
    ),
    fact(
        "profile_error", "1", "lower",
        "part of the kernel's time that the profile buffer puts into wrong functions, the idle one left out",
        of=_WORKLOAD,
    ),
    fact("sampler_error", "1", "lower", "the same for the ideal sampler", of=_WORKLOAD),
    fact(
        "profile_of_independent", "1", "lower",
        "as error_of_independent, for the profile buffer, the idle function left out", of=_WORKLOAD,
    ),
    fact("sampler_of_independent", "1", "lower", "the same for the ideal sampler", of=_WORKLOAD),
    # -- what the patches cost while they are off --
    fact(
        "off_cost", "instructions", "lower",
        "exact instructions of a call on the patched kernel, all switches off, less those on the stock kernel in the "
        "same repetition", of="function",
    ),
    fact("entries_counted", "1", "neither", "entries of the edu handler in the buffer over its exact entries"),
    fact("entries_as_time", "1", "neither", "the entries' share of all counts over the handler's share of time"),
    fact("nmis_received", "1", "higher", "NMIs that the kernel took for samples over those that the oracle sent"),
    fact("nmi_cost", "1", "lower", "share of the kernel's instructions that NMIs took", of=_WORKLOAD),
]  # fmt: skip
