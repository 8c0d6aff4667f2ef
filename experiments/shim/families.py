# SPDX-License-Identifier: MIT
"""The metrics of shim. Those that are timed are false when the host keeps a vCPU waiting."""

from __future__ import annotations

from harness.measure.declared import fact, timed

from .exact import EXACT_METRICS
from .gaps import GAPS_METRICS
from .hand import HAND_METRICS
from .hello import HELLO_METRICS
from .published import PUBLISHED_METRICS

METRICS = [
    *PUBLISHED_METRICS,
    *EXACT_METRICS,
    *GAPS_METRICS,
    *HELLO_METRICS,
    *HAND_METRICS,
    # -- the slot and the map
    fact("slot_checks", "count", "neither", "comparisons of a thread's slot with its own gettid"),
    fact("slot_wrong", "count", "lower", "of these, comparisons that differed"),
    fact("slot_wrong_share", "1", "lower", "the same, of all comparisons"),
    timed(
        "switch_over_callback", "instructions", "lower",
        "a switch and 100 comparisons under the virtual clock, less the same with the callback of arm virtual",
    ),
    fact("write_refused", "1", "higher", "whether all five ways to write through the map are answered EACCES"),
    fact("idle_shown", "1", "higher", "share of 1,000 readings of an idle CPU's slot that show the idle task"),
    fact("offline_shown", "1", "higher", "whether the slot of an offline CPU shows -1 for pid and tgid"),
    # -- switches
    timed("switches_per_s", "count/s", "neither", "switches in the kernel's trace in a second of the observation"),
    timed("missed_switches_share", "1", "lower", "switches not seen, in the pieces that the host did not disturb"),
    timed("missed_switches_share_all", "1", "lower", "switches not seen, of all of an undisturbed trial"),
    timed("missed_switches_share_slot", "1", "lower", "switches not seen, of those that the slot counted"),
    fact("sound_share", "1", "higher", "share of an observation's time in pieces that the host did not disturb"),
    fact("compared_switches", "count", "neither", "switches seen whose thread was compared with the trace's"),
    fact("wrong_threads", "count", "lower", "of these, with another thread"),
    fact("unmatched_switches", "count", "lower", "switches seen that the trace has not, and those the slot miscounted"),
    # -- periods and trust
    timed("samples_per_s", "count/s", "higher", "samples of the observer in a second, at the arm's period"),
    timed(
        "trusted_share", "1", "higher",
        "windows that are trusted, of those judged, at the arm's period, while one thread computes (workload trust)",
    ),
    timed("trusted_share_from_2500", "1", "higher", "the same, where the median period is 2500 cycles or more"),
    timed(
        "trusted_share_from_2500_switching", "1", "higher",
        "the same while threads of the observed CPU hand it over every 31 us (workload switches)",
    ),
    timed("period_median_ns", "ns", "neither", "median time from one sample to the next"),
    fact("flags_wrong", "count", "lower", "windows whose flags differ from the trust test done again"),
    fact("injected_windows", "count", "neither", "windows with a delay of more than twice what the bounds allow"),
    fact("injected_trusted", "count", "lower", "of these, trusted by the test done again or by the program"),
    fact("injected_beyond_windows", "count", "neither", "windows with a delay of more than the bounds allow"),
    fact("injected_beyond_trusted", "count", "lower", "of these, trusted by the test done again or by the program"),
    fact("injected_short_trusted", "count", "neither", "windows with a delay too short for them, and trusted"),
    fact("injected_flags_wrong", "count", "lower", "windows of that run whose flags differ from the test done again"),
    fact("injected_trusted_program", "count", "lower", "windows with such a delay that the program counts as trusted"),
    timed(
        "clean_trusted_share", "1", "higher",
        "windows of at least 10 us without a delay, in undisturbed pieces, trusted",
    ),
    timed("clean_trusted_share_all", "1", "higher", "the same of all pieces of an undisturbed trial"),
    # -- the timer sampler, and what looking costs
    timed("timer_samples_per_s", "count/s", "neither", "samples of perf's cpu-clock in a second, at its highest rate"),
    timed(
        "rate_over_timer", "1", "higher",
        "samples of the observer per sample of the timer sampler, one after the other",
    ),
    timed("native_rate_over_timer", "1", "higher", "the same on real CPUs: absent where they are emulated"),
    timed("rate_over_timer_both", "1", "higher", "the same, both at once"),
    timed("timer_cost", "1", "lower", "by what share the timer sampler slows its target"),
    timed("observer_cost", "1", "lower", "by what share the target is slower beside the observer than beside nobody"),
    timed("spin_cost", "1", "lower", "by what share it is slower beside a program that looks at nothing"),
    timed(
        "observer_over_spin", "1", "lower",
        "by what share it is slower beside the observer than beside that program",
    ),
    timed("native_cost", "1", "lower", "the same on CPUs with caches: absent where they are emulated"),
    timed("native_cost_at_30", "1", "lower", "the same at a mean period of at most 60 cycles; the paper has 30"),
    # -- counters
    timed("known_error", "1", "lower", "counted instructions over those of known work, less 1, without its sign"),
    fact("counter_check_error", "1", "lower", "the same of the counter's own check before it is used"),
    fact("pmu_known_error", "1", "lower", "the same of the hardware's counter, if it counts the observed CPU"),
    fact("wrong_counter_refused", "1", "higher", "whether a counter of another CPU than the known loop's is refused"),
    fact("refusal_reasons", "1", "higher", "of the counters refused, the share that says why"),
    # -- idle and rates
    timed("idle_share_error", "1", "lower", "idle share of the time as seen, less that of the trace, without its sign"),
    timed("idle_periods", "count", "neither", "idle periods in the trace, in pieces that the host did not disturb"),
    timed("idle_periods_missed_share", "1", "lower", "of these, the share that was not seen"),
    timed("idle_periods_missed", "count", "lower", "idle periods of the whole trace that were not seen"),
    timed(
        "thread_rate_error", "1", "lower",
        "the worst error of a thread's rate of instructions, by trusted windows, without its sign",
    ),
    timed("thread_rate_error_all", "1", "lower", "the same by all windows of the thread, trusted or not"),
]  # fmt: skip
