# SPDX-License-Identifier: MIT
"""From the tables of irq-hotspot to one value per trial and metric; declared_metrics.py says what each means."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from harness.measure.rows import Cut, MetricRows
from harness.measure.statistics import ratio
from harness.oracle.truth import against_independent, distance, shares

from .byhand import by_hand_metrics
from .declared_metrics import METRICS
from .decoding import ANSWER, BRACKET, BUFFER, CALLED, HANDLERS, LINES, NMIS, SWEEP, SWEEP_WORKLOAD, TRUTH
from .handlers import BY_NMI, ENTRIES_SAMPLED, FIX, HANDLERS_LOOP
from .mixed import doubling, misread_metrics, mixed_metrics
from .peers import WORKLOAD as BESIDE
from .peers import peer_costs, peer_metrics
from .printed import WORKLOAD as MIXED
from .spread import off_cost, spread_metrics
from .stepped import WORKLOAD as STEP
from .stepped import blind_chance, map_metrics
from .trialrows import Tables, TrialRows

_NO_ENTRIES = "entries are not sampled in this arm"
#: What the rows of `handlers` come from.
_HANDLER_PARTS = (LINES, BRACKET, CALLED, BUFFER, HANDLERS)
#: More uncertain ticks than this share of the timer interrupts make a count per interrupt absent.
MOST_UNCERTAIN = 0.02
#: A ratio of ticks to time is told from so many expected ticks of an arm's trials: their standard error is a fifth.
LEAST_TICKS = 25


def measure(tables: Tables) -> pd.DataFrame:
    """METRIC_COLUMNS; a value that a trial should have and has not is NaN with its reason."""
    out = MetricRows(METRICS, tables["problems"])
    cuts = Cut(tables, "arm", "trial"), Cut(tables, "arm", "trial", "workload")
    for arm, index in tables["trials"][["arm", "trial"]].itertuples(index=False):
        trial = TrialRows(cuts, arm, index, out)
        _handler_metrics(trial)
        _buffer_metrics(trial)
        if "idle" in trial.workloads:
            _idle_metrics(trial)
        if "edu" in trial.workloads:
            _edu_metrics(trial)
            _truth_metrics(trial)
        if "edu-light" in trial.workloads:
            _light_metrics(trial)
        if MIXED in trial.workloads:
            mixed_metrics(trial)
        if STEP in trial.workloads:
            map_metrics(trial)
        if BESIDE in trial.workloads:
            peer_metrics(trial)
        by_hand_metrics(trial, *_HANDLER_PARTS)
        spread_metrics(trial)
        misread_metrics(trial)
        _known_answers(trial)
        _nmi_metrics(trial)
    _sweep_metrics(out)
    doubling(tables, out)
    blind_chance(tables, out)
    peer_costs(tables, out)
    off_cost(tables, out)
    return _without_few_ticks(out.frame())


def _handler_metrics(trial: TrialRows) -> None:
    """The blind spot (section 3.3) and the fix's entry counts (section 4)."""
    problem = trial.problem(*_HANDLER_PARTS)
    handlers = trial.rows("handlers")
    unknown = sorted(set(handlers.loc[handlers["function"].isna(), "handler"]))
    names = f"the functions of {', '.join(unknown)} are not known" if unknown else None
    none = "no handler ran" if handlers.empty else None
    trial.put("handler_ticks", float(handlers["ticks"].sum()), problem, names, none)
    trial.put("handler_ticks_bound", float(handlers["ticks_high"].sum()), problem, names, none)
    trial.put("handler_interrupts", float(handlers["interrupts"].sum()), problem)
    for label, rows in handlers.groupby("handler", sort=True):
        trial.put(f"handler_interrupts.{label}", float(rows["interrupts"].sum()), problem)
        known = rows[rows["function"].notna()]
        missing = "its handler's function is not known" if known.empty else None
        trial.put(f"handler_ticks.{label}", float(known["ticks"].sum()), problem, missing)
        if missing is None:
            value, why = _entries_ratio(known)
            trial.put(f"entries_per_interrupt.{label}", value, problem, why)


def _entries_ratio(rows: pd.DataFrame) -> tuple[float, str | None]:
    """Entries per interrupt of one handler: of its workloads, the ratio that is farthest from 1."""
    if rows["entries"].isna().all():
        return math.nan, _NO_ENTRIES
    if not rows["exclusive"].all():
        return math.nan, "the handler shares its counter with another function at this step"
    low, high = rows["interrupts"], rows["interrupts"] + rows["slack"]
    inside = (rows["entries"] >= low) & (rows["entries"] <= high)
    if inside.all() and rows["slack"].any():
        span = f"{int(low.sum())} to {int(high.sum())} interrupts, {int(rows['entries'].sum())} entries"
        return math.nan, f"the bracket was not exact: {span}, no contradiction"
    # Outside its interval, a count is compared with the end that it is nearer to.
    ratio = (rows["entries"] / rows["entries"].clip(low, high)).where(~inside, 1.0).to_numpy(dtype=np.float64)
    return float(ratio[int(np.argmax(np.abs(ratio - 1)))]), None


def _buffer_metrics(trial: TrialRows) -> None:
    """Figures of the buffer as a whole, and how exactly it was bracketed."""
    # Arms of the sweep may have other workloads for other ends.
    only = SWEEP_WORKLOAD if trial.arm in SWEEP else None
    buffers, brackets = trial.rows("buffers", only), trial.rows("brackets", only)
    problem = trial.problem(BUFFER, workload=only)
    every = trial.rows("buffers")
    trial.put("step_bytes", float(every["step"].max()), problem if every.empty else None)
    trial.put("counters", float(every["counters"].max()), problem if every.empty else None)
    in_text = float((buffers["total"] - buffers["out_of_text"]).sum())
    trial.put("neighbour_share", ratio(float(buffers["shared"].sum()), in_text), problem)
    outside = ratio(float(buffers["out_of_text"].sum()), float(buffers["total"].sum()))
    trial.put("out_of_text_share", outside, problem)
    uncertain = trial.problem(BRACKET, workload=only)
    trial.put("bracket_exact", float(brackets["exact"].astype("float64").mean()), uncertain)
    trial.put("bracket_retries", float(brackets["retries"].sum()), uncertain)
    for workload in trial.workloads if only is None else [only]:
        why = trial.problem(BUFFER, workload=workload)
        for name in ("printed_error", "readprofile_error"):
            trial.put(f"{name}.{workload}", trial.value("buffers", name, workload), why)
        beyond, total = (trial.value("buffers", name, workload) for name in ("printed_outside", "total"))
        trial.put(f"printed_outside.{workload}", ratio(beyond, total), why)


def _idle_metrics(trial: TrialRows) -> None:
    """Idle on top (the paper's first table), and the double counting of ticks (fault 6)."""
    problem = trial.problem(CALLED, BUFFER, workload="idle")
    ticks, rank = trial.value("buffers", "idle_ticks", "idle"), trial.value("buffers", "idle_rank", "idle")
    missing = "no CPU was seen idle" if math.isnan(rank) else None
    total = trial.value("buffers", "total", "idle")
    trial.put("idle_rank", rank, problem, missing)
    trial.put("idle_share", ratio(ticks, total), problem, missing)
    trial.put("idle_per_byte", trial.value("buffers", "idle_per_byte", "idle"), problem, missing)
    entries = float(trial.rows("handlers", "idle")["entries"].fillna(0).sum())
    timer, slack = trial.timer_interrupts("idle"), trial.value("brackets", "tick_slack", "idle")
    trial.put(
        "samples_per_timer_interrupt",
        ratio(total - entries, timer),
        trial.problem(*_HANDLER_PARTS, workload="idle"),
        "ticks take no samples in this arm" if trial.sampling == BY_NMI else None,
        f"{slack:.0f} of {timer:.0f} timer interrupts are uncertain" if slack > MOST_UNCERTAIN * timer else None,
    )


def _edu_metrics(trial: TrialRows) -> None:
    """Time in the edu handler: known, as ticks see it, and where the ticks went instead (fault 5)."""
    answer = trial.problem(ANSWER, workload="edu")
    bracket = trial.problem(ANSWER, BRACKET, workload="edu")
    sampled = trial.problem(ANSWER, *_HANDLER_PARTS, workload="edu")
    handled, raised, each = (trial.value("answers", name, "edu") for name in ("handled", "raised_kernel", "handler_ns"))
    window, timer = trial.value("brackets", "window_s", "edu"), trial.timer_interrupts("edu")
    known, known_in_kernel = handled * each / 1e9, raised * each / 1e9
    unreported = "the workload did not report it" if math.isnan(known) else None
    trial.put("handler_time_known", known, answer, unreported)
    trial.put("handler_time_share", ratio(known, window), bracket, unreported)
    # What one sample stands for: a tick's period, or the mean time between two NMIs of the same window.
    nmis = trial.value("brackets", "nmis", "edu")
    period = ratio(window, nmis if trial.sampling == BY_NMI else timer)
    handlers = trial.rows("handlers", "edu")
    rows = handlers[handlers["handler"] == "edu"]
    by_nmi = trial.sampling == BY_NMI
    no_ticks = "ticks take no samples in this arm, and NMIs are not put off" if by_nmi else None
    no_run = "the edu handler did not run" if rows.empty or rows["ticks"].isna().all() else None
    ticks = float(rows["ticks"].sum())
    trial.put("handler_time_ratio", ratio(ticks * period, known), sampled, no_run)
    both = (
        "the interrupted address is also counted at every interrupt in this arm" if trial.sampling == "entry" else None
    )
    none = None if known_in_kernel > 0 else "no interrupt was raised from kernel mode"
    displaced = ratio(trial.value("buffers", "raise_ticks", "edu") * period, known_in_kernel)
    lines = trial.problem(LINES, workload="edu")
    trial.put("displaced_ticks_due", ratio(known_in_kernel, period), bracket, lines, no_ticks, none)
    trial.put(
        "displaced_time_ratio",
        displaced,
        trial.problem(ANSWER, LINES, BRACKET, BUFFER, workload="edu"),
        no_ticks,
        both,
        none,
    )


def _light_metrics(trial: TrialRows) -> None:
    """A handler that does next to nothing against one that works (fault 6): entries, and exact instructions."""
    loads = ("edu-light", "edu")

    def first(parts: tuple[str, ...]) -> str | None:
        return next((why for load in loads if (why := trial.problem(*parts, workload=load))), None)

    handlers = trial.rows("handlers")
    edu = handlers[handlers["handler"] == "edu"].set_index("workload")["entries"]
    light, heavy = (float(edu.get(load, math.nan)) for load in loads)
    no_entries = _NO_ENTRIES if math.isnan(light) or math.isnan(heavy) else None
    trial.put("light_entries_ratio", ratio(light, heavy), first(_HANDLER_PARTS), no_entries)
    truth = trial.rows("truth")
    inside = truth[truth["role"] == "handler edu"]
    light, heavy = (float(inside.loc[inside["workload"] == load, "instructions"].sum()) for load in loads)
    no_oracle = "no oracle ran" if truth.empty else None
    trial.put("light_instructions_ratio", ratio(light, heavy), first((TRUTH,)), no_oracle)


def _known_answers(trial: TrialRows) -> None:
    """What the workloads did, against what the machine reports."""

    def interrupts(label: str, workload: str) -> tuple[float, str | None]:
        handlers = trial.rows("handlers", workload)
        rows = handlers[handlers["handler"] == label]
        if rows.empty:
            return math.nan, f"no {label} interrupt"
        if rows["slack"].any():
            return math.nan, "the bracket was not exact"
        if rows["shared"].any():
            return math.nan, "another device has interrupts on the same line"
        return float(rows["interrupts"].sum()), None

    def problem(workload: str) -> str | None:
        return trial.problem(ANSWER, *_HANDLER_PARTS, workload=workload)

    if "edu" in trial.workloads:
        raised, handled = (trial.value("answers", name, "edu") for name in ("raised", "handled"))
        count, why = interrupts("edu", "edu")
        trial.put("handled_per_raise", ratio(handled, raised), trial.problem(ANSWER, workload="edu"))
        trial.put("interrupts_per_raise", ratio(count, raised), problem("edu"), why)
    if "disk" in trial.workloads:
        count, why = interrupts("disk", "disk")
        if math.isnan(count):
            count, why = interrupts("virtio", "disk")
        trial.put("interrupts_per_read", ratio(count, trial.value("answers", "reads", "disk")), problem("disk"), why)
    if "net" in trial.workloads:
        received = trial.value("answers", "bytes", "net")
        missing = "the workload did not report it" if math.isnan(received) else None
        trial.put("received_bytes", received, trial.problem(ANSWER, workload="net"), missing)


def _truth_metrics(trial: TrialRows) -> None:
    """The handler's share of kernel time, exact and as each profiler has it, and what each has in wrong functions."""
    truth, problem = trial.rows("truth", "edu"), trial.problem(TRUTH, workload="edu")
    if truth.empty and problem is None:
        return  # an arm without an oracle
    edu = (truth["role"] == "handler edu").to_numpy()
    exact = float(shares(truth["instructions"])[edu].sum())
    trial.put("truth.handler", exact, problem)
    trial.put("truth.interrupts", ratio(float(truth["interrupt"].sum()), float(truth["instructions"].sum())), problem)
    handled, calibrated, loops = (
        trial.value("answers", name, "edu") for name in ("handled", "calibration_raises", "handler_loops")
    )
    counted = float(truth.loc[truth["function"] == HANDLERS_LOOP, "instructions"].sum())
    known = (handled - calibrated / 2) * (2 * loops + 1)
    answer = trial.problem(ANSWER, workload="edu")
    uncalibrated = "the workload did not report it" if math.isnan(known) else None
    trial.put("known_instructions", ratio(counted, known), problem, answer, uncalibrated)
    if trial.sampling in ENTRIES_SAMPLED:
        fix = truth[truth["function"].isin(FIX)]
        calls = float(fix.loc[fix["function"] == FIX[0], "entries"].sum())
        trial.put("fix_cost", ratio(float(fix["instructions"].sum()), calls), problem)
    buffer = trial.problem(BUFFER, workload="edu")
    for name, column, why in (("ticks", "ticks", buffer), ("sampler", "samples", None)):
        counts = truth[column]
        ran = (truth["instructions"] > 0) | (counts > 0)  # rows of zeros would change the last bit
        none = "the ideal sampler did not run" if counts.isna().any() else None
        reasons = (problem, why, none)
        estimate = float(shares(counts)[edu].sum())
        trial.put(f"estimate.{name}", estimate, *reasons)
        trial.put(f"missed.{name}", 1 - ratio(estimate, exact), *reasons)
        both = truth.loc[ran, "instructions"], counts[ran]
        trial.put(f"error.{name}", distance(*both), *reasons)
        trial.put(f"error_of_independent.{name}", against_independent(*both), *reasons)
    entered = truth.set_index("function")["entries"]
    handlers = trial.rows("handlers", "edu")
    counted = float(handlers.loc[handlers["handler"] == "edu", "entries"].sum(min_count=1))
    handler_problem = trial.problem(*_HANDLER_PARTS, workload="edu")
    no_entries = _NO_ENTRIES if math.isnan(counted) else None
    exactly = float(entered.get("krepro_edu_irq", math.nan))
    trial.put("entries_counted", ratio(counted, exactly), problem, handler_problem, no_entries)
    # What a reader of the buffer takes a count for: a share of all counts, against the share of time.
    as_time = ratio(ratio(counted, float(truth["ticks"].sum())), exact)
    trial.put("entries_as_time", as_time, problem, handler_problem, no_entries)


def _nmi_metrics(trial: TrialRows) -> None:
    """Whether every NMI became a sample, and what taking them cost."""
    if trial.sampling != BY_NMI:
        return
    rows, problem = trial.rows("nmis"), trial.problem(NMIS)
    received = ratio(float(trial.rows("brackets")["nmis"].sum(min_count=1)), float(rows["sent"].max()))
    missing = (
        "the oracle sent no NMIs" if rows.empty else "the kernel has no NMI sampler" if math.isnan(received) else None
    )
    trial.put("nmis_received", received, problem, trial.problem(BRACKET), missing)
    for workload in trial.workloads:
        none = "the oracle sent no NMIs" if rows.empty else None
        trial.put(
            f"nmi_cost.{workload}", trial.value("nmis", "cost", workload), trial.problem(NMIS, workload=workload), none
        )


def _without_few_ticks(frame: pd.DataFrame) -> pd.DataFrame:
    """Without displaced_time_ratio where the trials of an arm have too few ticks between them to tell it."""
    due = frame[frame["metric"] == "displaced_ticks_due"].groupby("arm")["value"].sum()
    few = due[due < LEAST_TICKS]
    rows = (frame["metric"] == "displaced_time_ratio") & frame["arm"].isin(few.index) & frame["value"].notna()
    reasons = frame.loc[rows, "arm"].map(
        lambda arm: f"{few[arm]:.1f} ticks are due in all trials, fewer than {LEAST_TICKS}"
    )
    frame.loc[rows, "value"], frame.loc[rows, "reason"] = math.nan, reasons
    return frame


def _sweep_metrics(out: MetricRows) -> None:
    """From one N to the next, and from the finest to the coarsest, in the same repetition."""
    frame = out.frame()
    rows = frame[frame["metric"] == "neighbour_share"]
    shares = dict(
        zip(zip(rows["arm"], rows["trial"], strict=True), zip(rows["value"], rows["reason"], strict=True), strict=True)
    )

    def rise(metric: str, arm: str, finer: str, trial: int) -> None:
        value, why = shares[arm, trial]
        before, other = shares.get((finer, trial), (math.nan, f"this repetition has no trial of {finer}"))
        reason = next((text for text in (why, other) if isinstance(text, str)), None)
        out.put(arm, trial, metric, value - before, reason=reason)

    for arm, trial in shares:
        if arm in SWEEP[1:]:
            rise("neighbour_rise", arm, SWEEP[SWEEP.index(arm) - 1], trial)
        if arm == SWEEP[-1]:
            rise("neighbour_rise_total", arm, SWEEP[0], trial)
