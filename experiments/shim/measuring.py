# SPDX-License-Identifier: MIT
"""The metrics of families.py from the tables of declared.py: one value per trial and name, or why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd

from harness.measure.raw import VIRTUAL_NS
from harness.measure.rows import Cut, MetricRows
from harness.measure.statistics import ratio

from .exact import EXACT_LOST, measure_exact
from .families import METRICS
from .gaps import GAPS_LOST, measure_gaps
from .hand import HAND_LOST, measure_hand
from .hello import HELLO_LOST, measure_hello
from .observer.answers import OBSERVER_SCOPE
from .onetrial import OneTrial, Row, Tables
from .published import PUBLISHED_LOST, measure_published
from .run import COUNTER

#: Of the time of known work, how much may be uncertain.
CLOSE = 0.01
#: Of the paper: from this period on, cycles, nearly all windows are trusted.
PAPER_PERIOD = 2500
#: Of the paper: the shortest period on another core, cycles.
PAPER_FASTEST = 30
NO_CACHES = "an emulated CPU has no caches, and moving their lines is what the paper's cost comes from"
EMULATED = "an emulated CPU looks as often as the emulator lets it, which says nothing of a machine"
#: Arms of one CPU under the virtual clock, alike but for what tells of a switch.
CALLBACK, OTHER_WAYS = "virtual", ("virtual-tracepoint", "virtual-bpf")
WRITERS = ("open_write", "open_read_write", "map_write", "map_private_write", "mprotect")


OF_RATES = ("thread_rate_error", "thread_rate_error_all")


def measure(tables: Tables) -> pd.DataFrame:
    """METRIC_COLUMNS; what a part that could not be decoded would have given is absent with that part's problem."""
    rows, by_trial = MetricRows(METRICS, tables["problems"]), Cut(tables, "arm", "trial")
    for arm, trial in tables["trials"][["arm", "trial"]].itertuples(index=False):
        one = OneTrial(rows, by_trial, arm, trial)
        for workload, part, reason in one.rows("problems")[["workload", "part", "reason"]].itertuples(index=False):
            for metric in LOST.get((workload, part), ()):
                one.put(metric, None, reason)
        for family in FAMILIES:
            family(one)
        if arm in OTHER_WAYS:
            _over_callback(one, tables["checks"])
    return rows.frame()


def refusal(one: OneTrial, workload: str, run: str) -> str:
    """Why no counter of instructions was used in a run."""
    refused = one.rows("counters", workload=workload, run=run, name=COUNTER, used=False)
    reasons = [f"{source}: {reason}" for source, reason in refused[["source", "reason"]].itertuples(index=False)]
    return f"no counter of {COUNTER}: " + ("; ".join(reasons) or "none was asked for")


def _over_callback(one: OneTrial, checks: pd.DataFrame) -> None:
    """What a switch costs more than with the callback, in instructions of the virtual clock."""
    row, callback = one.row("checks"), checks.loc[checks["arm"] == CALLBACK, "turn_ns"]
    if row:
        more = (row["turn_ns"] - callback.median()) / VIRTUAL_NS
        one.put("switch_over_callback", more, f"the arm {CALLBACK} took no part in this run")


def _slots(one: OneTrial) -> None:
    checks = one.row("checks", workload="check")
    if checks:
        one.put("slot_checks", checks["checks"])
        one.put("slot_wrong", checks["wrong"])
        one.put("slot_wrong_share", ratio(checks["wrong"], checks["checks"]), "nothing was compared")
    idle, offline = one.row("rights", what="idle CPU"), one.row("rights", what="offline CPU")
    if idle and offline:
        rights = one.rows("rights")
        one.put("write_refused", float((rights.loc[rights["what"].isin(WRITERS), "answer"] == "EACCES").all()))
        none = idle["reason"] or "it was not read"
        share = ratio(idle["given"], idle["asked"]) if idle["answer"] == "0/0" else 0
        one.put("idle_shown", None if idle["reason"] else share, none)
        shown = offline["answer"] == "-1/-1" if offline["answer"] else None
        one.put("offline_shown", shown, offline["reason"] or "it was not read")


def _switches(one: OneTrial) -> None:
    run = one.row("runs", workload="switches")
    if run and run["ppid"]:
        share = ratio(run["switches_missed"], run["switches_slot"])
        one.put("missed_switches_share_slot", share, "the slot counted no switch")
    period = one.row("period_quantiles", workload="switches", run="observer")
    _put_from_2500(one, "trusted_share_from_2500_switching", run, period)
    row = one.row("switches")
    if not row or not run:
        return
    few = "the trace and the switches seen have less than two in common"
    lost = f"{row['log_lost']} switches that were seen were lost on their way into the file"
    none = lost if row["log_lost"] else few
    whole = row["events"] > 0 and not row["log_lost"]
    sound_share = ratio(row["sound_missed"], row["sound"]) if whole and not row["unsound"] else None
    one.put("switches_per_s", row["per_s"], few)
    one.put("missed_switches_share_all", row["missed_share"] if whole else None, none)
    one.put("missed_switches_share", sound_share, lost if row["log_lost"] else row["unsound"] or few)
    one.put("sound_share", row["sound_share"], run["host_reason"] or "nobody told the observer")
    seen = row["compared"] > 0
    one.put("compared_switches", row["compared"] if seen else None, few)
    one.put("wrong_threads", row["wrong"] if seen else None, few)
    one.put("unmatched_switches", row["unmatched"] + abs(row["drift"]) if seen else None, few)


def _clean(one: OneTrial) -> None:
    run = one.row("runs", workload="trust", run="clean")
    if run:
        one.put("samples_per_s", run["samples_per_s"], "it took no time")
        one.put("trusted_share", run["trusted_share"], "no window was judged")
    period = one.row("period_quantiles", workload="trust", run="clean")
    if period:
        one.put("period_median_ns", period["p50_ns"], "no windows")
    _put_from_2500(one, "trusted_share_from_2500", run, period)
    check = one.row("recheck", run="clean")
    if check:
        one.put("flags_wrong", check["wrong"] if check["windows"] else None, "no window could be judged again")


def _put_from_2500(one: OneTrial, metric: str, run: Row | None, period: Row | None) -> None:
    """The trusted share of a run of the observer, if its median period is one of which the paper speaks."""
    if run and period:
        median = period["p50_ns"] * run["tsc_hz"] / 1e9
        short = f"the median period is {median:.0f} cycles; the paper speaks of {PAPER_PERIOD} and more"
        share = run["trusted_share"] if median >= PAPER_PERIOD else None
        one.put(metric, share, short if run["windows"] else "no window was judged")


def _injected(one: OneTrial) -> None:
    run, check = one.row("runs", workload="trust", run="injected"), one.row("recheck", run="injected")
    none = "no delay was put into any sample"
    if run:
        one.put("injected_trusted_program", run["injected_trusted"] if run["injected"] else None, none)
    if not check:
        return
    there = check["delayed"] > 0
    for metric, column in (
        ("injected_windows", "long_delay"),
        ("injected_trusted", "long_delay_trusted"),
        ("injected_beyond_windows", "beyond"),
        ("injected_beyond_trusted", "beyond_trusted"),
        ("injected_short_trusted", "short_trusted"),
    ):
        one.put(metric, check[column] if there else None, none)
    one.put("injected_flags_wrong", check["wrong"])
    share = ratio(check["clean_trusted"], check["clean"])
    every = "every window touched a delay"
    one.put("clean_trusted_share", None if check["unsound"] else share, check["unsound"] or every)
    one.put("clean_trusted_share_all", ratio(check["clean_all_trusted"], check["clean_all"]), every)


def _timer(one: OneTrial) -> None:
    for metric, run, when in (("rate_over_timer", "fast", "alone"), ("rate_over_timer_both", "both", "both")):
        observer, timer = one.row("runs", workload="timer", run=run), one.row("timer", when=when)
        if timer and when == "alone":
            one.put("timer_samples_per_s", timer["samples_per_s"] or None, timer["reason"] or "no samples")
        if timer and observer:
            rate = ratio(observer["samples_per_s"], timer["samples_per_s"])
            none = timer["reason"] or "the timer sampler took no sample"
            one.put(metric, rate, none)
            if metric == "rate_over_timer":
                one.put(f"native_{metric}", rate if _native(one) else None, none if _native(one) else EMULATED)


def _cost(one: OneTrial) -> None:
    few = "no phase of the kind has chunks in it and beside it"
    middle = one.rows("cost").groupby(["workload", "what"])["ratio"].median().to_dict()
    timer = one.row("timer", when="alone")
    if timer:
        cost = middle.get((timer["workload"], "timer sampler"), math.nan) - 1
        one.put("timer_cost", cost, timer["reason"] or few)
    if len(one.rows("runs", workload="cost")):
        observer, spin = (middle.get(("cost", what), math.nan) for what in ("observer", "spin"))
        one.put("observer_cost", observer - 1, few)
        one.put("spin_cost", spin - 1, few)
        one.put("observer_over_spin", observer / spin - 1, few)
        _native_cost(one, observer / spin - 1, few)


def _native(one: OneTrial) -> bool:
    """Whether its CPUs are real ones."""
    trial = one.row("trials")
    return trial is not None and str(trial["fidelity"]).startswith("kvm")


def _native_cost(one: OneTrial, cost: float, few: str) -> None:
    """The same where the CPUs have caches; what the paper says of 30 cycles, if the observer is as fast."""
    cached, runs = _native(one), one.rows("runs", workload="cost")
    one.put("native_cost", cost if cached else None, few if cached else NO_CACHES)
    period = float((runs["period_mean_ns"] * runs["tsc_hz"] / 1e9).median())
    slow = f"the mean period is {period:.0f} cycles; the paper speaks of {PAPER_FASTEST}"
    fast = period <= 2 * PAPER_FASTEST
    one.put("native_cost_at_30", cost if cached and fast else None, (few if fast else slow) if cached else NO_CACHES)


def _counters(one: OneTrial) -> None:
    counters = one.rows("counters", workload="known", name=COUNTER)
    used = {run: rows[rows["used"]] for run, rows in counters.groupby("run")}
    if "known" in used:
        if used["known"].empty:
            for metric in ("known_error", "counter_check_error"):
                one.put(metric, None, refusal(one, "known", "known"))
        else:
            one.put("counter_check_error", abs(used["known"]["known_error"].iloc[0]), "was not checked")
    known = one.row("known")
    if known:
        unclear = known["reason"]
        if not unclear and (known["outside"] > CLOSE or known["unsure"] > CLOSE):
            between, ends = (f"{100 * known[name]:.2g} %" for name in ("outside", "unsure"))
            unclear = f"{between} of the time was between chunks, {ends} at the ends"
        one.put("known_error", None if unclear else abs(known["error"]), unclear)
    if "wrong" in used:
        refused = counters[(counters["run"] == "wrong") & ~counters["used"] & (counters["scope"] != OBSERVER_SCOPE)]
        tried = len(used["wrong"]) > 0 or refused["known_counted"].notna().any()
        one.put("wrong_counter_refused", used["wrong"].empty if tried else None, refusal(one, "known", "wrong"))
    if "known" in used and "wrong" in used:
        every = one.rows("counters", workload="known", used=False)
        one.put("refusal_reasons", every["reason"].fillna("").ne("").mean(), "no counter was refused")


def _hardware(one: OneTrial) -> None:
    """The hardware's counter, where there is one: the same error as `known_error`, of what the slot publishes."""
    runs = one.rows("runs", workload="known", run="known")
    trial = one.row("trials")
    if runs.empty or trial is None:
        return
    counter = one.row("counters", workload="known", run="known", name=COUNTER, source="slot")
    if not str(trial["pmu"]).startswith("ok"):
        one.put("pmu_known_error", None, f"PMU {trial['pmu']}")
    elif counter is None or not counter["used"]:
        one.put("pmu_known_error", None, refusal(one, "known", "known"))
    else:
        one.put("pmu_known_error", abs(counter["known_error"]), "was not checked")


def _idle(one: OneTrial) -> None:
    idle = one.row("idle")
    if idle:
        few = "the trace and the switches seen cover no time together"
        why = idle["unsound"] or few
        one.put("idle_share_error", abs(idle["seen_share"] - idle["truth_share"]), few)
        one.put("idle_periods", idle["periods"] or None, why)
        share = None if idle["unsound"] else ratio(idle["missed"], idle["periods"])
        one.put("idle_periods_missed_share", share, why)
        one.put("idle_periods_missed", idle["missed_all"] if idle["periods_all"] else None, few)


def _rates(one: OneTrial) -> None:
    run = one.row("runs", workload="phases")
    rates = one.rows("thread_rates")
    if len(rates):
        one.put("thread_rate_error", rates["error"].abs().max())
        one.put("thread_rate_error_all", rates["error_all"].abs().max())
    elif run and one.rows("counters", workload="phases", name=COUNTER, used=True).empty:
        for metric in OF_RATES:
            one.put(metric, None, refusal(one, "phases", "observer"))
    elif len(one.rows("rates")):
        for metric in OF_RATES:
            one.put(metric, None, "no thread of known work was seen")


FAMILIES: tuple[Callable[[OneTrial], None], ...] = (
    _slots, _switches, _clean, _injected, _timer, _cost, _counters, _hardware, _idle, _rates,
    measure_published, measure_exact, measure_gaps, measure_hello, measure_hand,
)  # fmt: skip
_OF_SWITCHES = (
    "switches_per_s", "missed_switches_share", "missed_switches_share_all", "sound_share", "compared_switches",
    "wrong_threads", "unmatched_switches",
)  # fmt: skip
_OF_INJECTED = (
    "injected_windows", "injected_trusted", "injected_beyond_windows", "injected_beyond_trusted",
    "injected_short_trusted", "injected_flags_wrong", "clean_trusted_share", "clean_trusted_share_all",
)  # fmt: skip
_OF_COST = ("observer_cost", "spin_cost", "observer_over_spin", "native_cost", "native_cost_at_30")
_OF_KNOWN = ("known_error", "counter_check_error", "pmu_known_error", "refusal_reasons")
#: What each part of a workload gives: absent when the part could not be decoded.
LOST: dict[tuple[str, str], tuple[str, ...]] = {
    ("rights", "rights"): ("write_refused", "idle_shown", "offline_shown"),
    ("counters", "counters"): PUBLISHED_LOST,
    ("exact", "exact"): EXACT_LOST,
    ("gaps", "gaps"): GAPS_LOST,
    ("hello", "hello"): HELLO_LOST,
    ("hand", "hand"): HAND_LOST,
    ("disturb", "disturb"): ("timer_samples_per_s", "timer_cost"),
    ("gaps", "observer: periods"): ("gaps_seen_over_expected",),
    ("check", "check"): ("slot_checks", "slot_wrong", "slot_wrong_share"),
    ("switches", "observer"): (
        *_OF_SWITCHES,
        "missed_switches_share_slot",
        "trusted_share_from_2500_switching",
    ),
    ("switches", "observer: periods"): ("trusted_share_from_2500_switching",),
    ("switches", "switches"): (*_OF_SWITCHES, "missed_switches_share_slot"),
    ("trust", "clean"): ("samples_per_s", "trusted_share", "trusted_share_from_2500", "flags_wrong"),
    ("trust", "clean: periods"): ("period_median_ns", "trusted_share_from_2500"),
    ("trust", "clean: samples"): ("flags_wrong",),
    ("trust", "injected"): ("injected_trusted_program",),
    ("trust", "injected: samples"): _OF_INJECTED,
    ("timer", "fast"): ("rate_over_timer", "native_rate_over_timer"),
    ("timer", "timer sampler: alone"): ("timer_samples_per_s", "rate_over_timer", "native_rate_over_timer"),
    ("timer", "both"): ("rate_over_timer_both",),
    ("timer", "timer sampler: both"): ("rate_over_timer_both",),
    ("timer", "cost"): ("timer_cost",),
    ("cost", "cost"): _OF_COST,
    ("known", "known"): _OF_KNOWN,
    ("known", "counter"): ("known_error",),
    ("known", "wrong"): ("wrong_counter_refused", "refusal_reasons"),
    ("pattern", "idle"): ("idle_share_error", "idle_periods", "idle_periods_missed_share", "idle_periods_missed"),
    ("phases", "observer"): OF_RATES,
    ("phases", "rates"): OF_RATES,
}
