# SPDX-License-Identifier: MIT
"""What turns each claim of shim. The golden trials are of a quiet host, but for that of arm period-1us."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.shim.families import METRICS
from experiments.shim.observer.records import CHUNK, DELAYED, EVENT, INJECTED, SWITCH, TRUSTED, sample_type
from experiments.shim.observer.trust import Bounds, lengths, trusted
from tests.golden import Golden
from tests.mutation import turns
from tests.rawfiles import edit, records, said
from tests.shim_files import delay, look, recount

Samples = np.ndarray[Any, np.dtype[np.void]]

#: Each workload is decoded by itself.
BY_WORKLOAD = True
#: A trial without a record of the host counts as undisturbed: then its figures of time are told.
MAY_CHANGE = {"host-sched.json": {metric.name for metric in METRICS if metric.timing}}

#: Why trials are made.
NO_KVM = "emulated CPUs do not tell it, and there was no host with real ones"
CLOCK = "the paper's period is 2,500 cycles, and on the host of the committed trial 1 us has 2,300"
NO_PMU = "an emulated x86 CPU has no PMU"

#: The arms whose slot publishes counters of a PMU.
ARM64 = ("arm64", "arm64-tracepoint")
#: Those on a kernel that is none of ours.
DEBIAN = ("debian-tracepoint", "debian-bpf")


def record(golden: Golden, arm: str, **fields: Any) -> None:
    """Some fields of the record of an arm's trial."""
    at = next(i for i, trial in enumerate(golden.trials) if trial.arm == arm)
    golden.trials[at] = golden.trials[at].model_copy(update=fields)


def quiet(golden: Golden) -> None:
    """By the host's own figures no vCPU ever waited."""
    for path in golden.root.glob("raw/*/*/host-sched.json"):
        edit(path, vcpus=[vcpu | {"wait_ns": 0} for vcpu in said(path)["vcpus"]])
    for path in golden.root.glob("raw/*/*/*/*.host.csv"):
        readings = pd.read_csv(path)
        readings[["observer_wait_ns", "wait_ns"]] = 0
        readings.to_csv(path, index=False)


# -- what the paper says -----------------------------------------------------------------------------------


@turns("resolution-emulated")
def the_observer_is_slow(golden: Golden) -> None:
    """The observer takes one sample on the timer's target where it took ten."""
    recount(golden.raw("fast") / "timer", "fast", every=10)


@turns("resolution-three-orders-emulated")
def the_timer_is_slow(golden: Golden) -> None:
    """The timer sampler takes one sample where it took ten."""
    path = golden.raw("fast") / "timer" / "timer.json"
    timer = said(path)
    tids = {tid: samples // 10 for tid, samples in timer["tids"].items()}
    edit(path, samples=sum(tids.values()), samples_per_s=sum(tids.values()) / timer["seconds"], tids=tids)


def real(golden: Golden) -> None:
    """The CPUs that the observer and the timer sampler ran on are real."""
    record(golden, "fast", fidelity="kvm")


@turns("resolution", also=("resolution-emulated",), before=real, why=NO_KVM)
def the_observer_is_slow_on_real_cpus(golden: Golden) -> None:
    """On real CPUs the observer takes one sample on the timer's target where it took ten."""
    the_observer_is_slow(golden)


@turns("resolution-three-orders", also=("resolution-three-orders-emulated",), before=real, why=NO_KVM)
def the_timer_is_slow_on_real_cpus(golden: Golden) -> None:
    """On real CPUs the timer sampler takes one sample where it took ten."""
    the_timer_is_slow(golden)


def quiet_and_fast_clock(golden: Golden) -> None:
    """No vCPU ever waited, and 1 us is 4600 cycles of the guest's clock."""
    quiet(golden)
    folder = golden.raw("period-1us") / "trust"
    run = said(folder / "clean.shim.json")
    clocks = {name: run[name] | {"tsc": 2 * run[name]["tsc"]} for name in ("clock_begin", "clock_end")}
    edit(folder / "clean.shim.json", tsc_hz=2 * run["tsc_hz"], period_cycles=2 * run["period_cycles"], **clocks)
    for name, columns in (("periods", ["low", "high"]), ("ids", ["cycles", "trusted_cycles"])):
        table = pd.read_csv(folder / f"clean.{name}.csv")
        table[columns] *= 2
        table.to_csv(folder / f"clean.{name}.csv", index=False)
    with records(folder / "clean.samples.bin", sample_type(1)) as samples:
        samples["begin"] *= 2
        samples["end"] *= 2


@turns("trusted-at-1us", before=quiet_and_fast_clock, why=CLOCK)
def every_window_is_trusted(golden: Golden) -> None:
    """At 1 us the program trusts every window."""
    recount(golden.raw("period-1us") / "trust", "clean", share=1)


@turns(
    *("trusted-at-10us", "trusted-at-100us", "trusted-at-10us-switching", "trusted-at-100us-switching"),
    "untrusted-at-highest-rate",
)
def four_windows_of_five_are_trusted(golden: Golden) -> None:
    """The program trusts four windows of five, while one thread computes and while threads hand the CPU over."""
    for arm in ("fast", "period-10us", "period-100us"):
        recount(golden.raw(arm) / "trust", "clean", share=0.8)
        if arm != "fast":
            recount(golden.raw(arm) / "switches", "observer", share=0.8)


def quiet_and_native(golden: Golden) -> None:
    """No vCPU ever waited, and CPUs are real; at the highest rate the observer takes a sample in 30 cycles."""
    quiet(golden)
    for arm in ("fast", "period-1us"):
        record(golden, arm, fidelity="kvm")
    for path in (golden.raw("fast") / "cost").glob("on*.shim.json"):
        edit(path, samples=int(said(path)["seconds"] * said(path)["tsc_hz"] / 30))


@turns("cost-at-1us", "cost-at-highest-rate", before=quiet_and_native, why=NO_KVM)
def the_target_has_another_speed(golden: Golden) -> None:
    """Beside the observer the target does half as much in the same time at the highest rate, a fifth more at 1 us."""
    for arm, speed in (("fast", 0.5), ("period-1us", 1.2)):
        folder = golden.raw(arm) / "cost"
        with records(folder / "load.bin", CHUNK) as chunks:
            for begin, end in pd.read_csv(folder / "on.csv").itertuples(index=False):
                beside = (chunks["begin"] >= begin) & (chunks["end"] <= end)
                for done in ("iterations", "instructions"):
                    chunks[done][beside] = chunks[done][beside] * speed


@turns("timer-disturbs-in-time")
def interrupts_take_no_time(golden: Golden) -> None:
    """The target does twice as much in the same time beside the timer's sampler."""
    _do_more(golden.raw("fast") / "timer", 2)


@turns("timer-disturbs")
def interrupts_take_no_instructions(golden: Golden) -> None:
    """The target does four times as much in as many instructions of the clock while the timer's sampler runs."""
    _do_more(golden.raw("hand") / "disturb", 4)


def _do_more(folder: Path, times: float) -> None:
    """The target did so many times as much beside the timer's sampler."""
    begin, end = (said(folder / "timer.json")[clock]["tsc"] for clock in ("clock_begin", "clock_end"))
    with records(folder / "load.bin", CHUNK) as chunks:
        beside = (chunks["begin"] >= begin) & (chunks["end"] <= end)
        chunks["iterations"][beside] = chunks["iterations"][beside] * times


def pmu_of_the_observed_cpu(golden: Golden) -> None:
    """The guest has a PMU, and what the slot publishes of it is right: an instruction in each two cycles."""
    record(golden, "hardware", pmu="ok: 20000000 of 20000000 instructions")
    _publish(golden.raw("hardware") / "known", 2_000_200)
    path = golden.raw("hardware") / "known" / "known.samples.bin"
    samples = np.fromfile(path, dtype=sample_type(0))
    counted = np.zeros(len(samples), dtype=sample_type(1))
    for name in ("begin", "end", "pid", "tgid", "count", "flags", "number"):
        counted[name] = samples[name]
    counted["signals"][:, 0] = (samples["begin"] - samples["begin"][0]) // 2
    counted.tofile(path)


def _publish(folder: Path, counted: int) -> None:
    """The slot's counter is used, and had counted so much of its known loop."""
    run = said(folder / "known.shim.json")
    told = {"scope": "cpu", "known_expected": 2_000_000, "known_counted": counted, "reason": None}
    signal = {"name": "instructions", "source": "slot", "known_error": counted / 2_000_000 - 1} | told
    refused = [other for other in run["refused"] if other["source"] != "slot"]
    edit(folder / "known.shim.json", signals=[signal], refused=refused)


@turns("hardware-counter", before=pmu_of_the_observed_cpu, why=NO_PMU)
def the_pmu_counts_wrongly(golden: Golden) -> None:
    """The hardware's counter counts one instruction in twenty twice, in the known loop and after it."""
    folder = golden.raw("hardware") / "known"
    _publish(folder, 2_100_200)
    _count_more(folder, 1.05)


def _count_more(folder: Path, times: float) -> None:
    """The counter rises so much faster over the samples."""
    with records(folder / "known.samples.bin", sample_type(1)) as samples:
        signals = samples["signals"]
        samples["signals"] = signals[0] + ((signals - signals[0]) * times).astype(np.uint64)


# -- what the observer sees --------------------------------------------------------------------------------


@turns(
    "slot", "slot-tracepoint", "slot-virtual", "slot-virtual-tracepoint", "slot-arm64", "slot-arm64-tracepoint",
    "slot-bpf", "slot-virtual-bpf", "slot-debian-tracepoint", "slot-debian-bpf",
)  # fmt: skip
def one_slot_was_wrong(golden: Golden) -> None:
    """One comparison of a slot with gettid differs."""
    for arm in ("fast", "tracepoint", "virtual", "virtual-tracepoint", "bpf", "virtual-bpf", *DEBIAN, *ARM64):
        edit(golden.raw(arm) / "check" / "load.json", wrong=1)


@turns("original-is-stale")
def the_papers_place_is_right(golden: Golden) -> None:
    """Called where the paper calls it, the slot is always right."""
    edit(golden.raw("virtual-original") / "check" / "load.json", wrong=0)


@turns("load")
def the_load_is_slow(golden: Golden) -> None:
    """The load hands the CPU over a fourth as often."""
    delay(golden.raw("fast") / "switches", 4)


@turns(
    "switches-missed", "switches-missed-tracepoint", "switches-missed-all", "switches-missed-all-tracepoint",
    "switches-missed-bpf", "idle-periods", "idle-periods-none",
)  # fmt: skip
def no_switch_is_missed(golden: Golden) -> None:
    """The observer looks every 0.3 us, and nothing keeps it from that."""
    for arm in ("fast", "tracepoint", "bpf"):
        look(golden.raw(arm) / "switches", 0.3)
    look(golden.raw("fast") / "pattern", 0.3)


@turns("idle-share")
def the_slot_keeps_a_thread_that_sleeps(golden: Golden) -> None:
    """Where each tenth idle period begins, the slot still shows the thread that went to sleep."""
    with records(golden.raw("fast") / "pattern" / "observer.switches.bin", SWITCH) as log:
        idle = np.flatnonzero(log["pid"] == 0)[1::10]
        for name in ("pid", "tgid"):
            log[name][idle] = log[name][idle - 1]


@turns("gaps-seen", "gaps-seen-idle", "gaps-seen-short", "gaps-by-period")
def the_observer_looks_at_times(golden: Golden) -> None:
    """The observer looks once in 100 us, whatever it says of its period."""
    for arm in ("fast", "period-10us"):
        look(golden.raw(arm) / "gaps", 100)


@turns("wrong-threads", "wrong-threads-10us", "wrong-threads-tracepoint", "wrong-threads-bpf")
def the_trace_names_other_threads(golden: Golden) -> None:
    """The kernel's trace has another thread in some of its events."""
    for arm in ("fast", "period-10us", "tracepoint", "bpf"):
        with records(golden.raw(arm) / "switches" / "truth.bin", EVENT) as trace:
            trace["next"][len(trace) // 3 : len(trace) // 2] += 1000


@turns("unmatched-switches", also=("wrong-threads",))
def the_slot_forgets_a_switch(golden: Golden) -> None:
    """The slot does not count one switch in the middle of the observation."""
    with records(golden.raw("fast") / "switches" / "observer.switches.bin", SWITCH) as log:
        log["count"][len(log) // 2 :] -= np.uint64(1)


@turns("idle", "offline", "read-only")
def the_map_is_wrong(golden: Golden) -> None:
    """The idle CPU shows another task once, the offline CPU thread 7, and mprotect makes the map writable."""
    idle, offline = {"pid": 0, "tgid": 0, "seen": 999, "of": 1000}, {"pid": 7, "tgid": 7}
    edit(golden.raw("fast") / "rights" / "rights.json", idle=idle, offline=offline, mprotect="ok")


# -- trust -------------------------------------------------------------------------------------------------


@turns("delays-noticed", "delays-noticed-once", also=("clean-windows", "clean-windows-all"))
def an_interruption_hides_a_delay(golden: Golden) -> None:
    """The sample before a delayed one is interrupted for as long, and so the window between them is trusted."""
    _hide_delays(golden.raw("period-10us") / "trust")


def _hide_delays(folder: Path) -> None:
    """Each sample before a delayed one takes as long as that."""
    with records(folder / "injected.samples.bin", sample_type(0)) as samples:
        delayed = np.flatnonzero(samples["flags"] & DELAYED)
        samples["end"][delayed - 1] = samples["begin"][delayed - 1] + (samples["end"] - samples["begin"])[delayed]


@turns("delays-there", also=("clean-windows",))
def few_samples_are_written(golden: Golden) -> None:
    """Only the first 1,000 samples are written."""
    _keep_samples(golden.raw("period-10us") / "trust", 1000)


def _keep_samples(folder: Path, most: int) -> None:
    samples = np.fromfile(folder / "injected.samples.bin", dtype=sample_type(0))
    samples[:most].tofile(folder / "injected.samples.bin")
    edit(folder / "injected.shim.json", samples_written=most)


def _again(folder: Path, change: Callable[[Samples], None]) -> None:
    """What samples with delays took is changed, and their flags are those of the test done again."""
    with records(folder / "injected.samples.bin", sample_type(0)) as samples:
        change(samples)
        samples["flags"][1:] &= ~np.uint32(TRUSTED)
        samples["flags"][1:] |= TRUSTED * trusted(*lengths(samples), Bounds()).astype(np.uint32)


@turns("clean-windows-fast")
def samples_take_one_time(golden: Golden) -> None:
    """At the highest rate a sample takes as long as any other, and longer by its delay where it has one."""
    folder = golden.raw("fast") / "trust"
    delays = np.fromfile(folder / "injected.injected.bin", dtype=INJECTED)

    def change(samples: Samples) -> None:
        took = np.full(len(samples), np.median(samples["end"] - samples["begin"]), dtype=np.uint64)
        late, which = (samples["flags"] & DELAYED) != 0, np.searchsorted(delays["number"], samples["number"])
        took[late] += delays["delay"][which[late]]
        samples["end"] = samples["begin"] + took

    _again(folder, change)


@turns("clean-windows", "clean-windows-all")
def samples_are_interrupted(golden: Golden) -> None:
    """Each fiftieth sample takes half a microsecond longer."""

    def change(samples: Samples) -> None:
        samples["end"][::50] += np.uint64(1200)

    _again(golden.raw("period-10us") / "trust", change)


@turns("flags")
def one_flag_is_wrong(golden: Golden) -> None:
    """The program sets one flag that the test done again does not."""
    with records(golden.raw("fast") / "trust" / "clean.samples.bin", sample_type(1)) as samples:
        samples["flags"][10] ^= TRUSTED


# -- counters, idle time -----------------------------------------------------------------------------------


@turns("known-loop")
def the_counter_is_off(golden: Golden) -> None:
    """The counter rises 5 % faster over the samples."""
    _count_more(golden.raw("fast") / "known", 1.05)


@turns("wrong-counter")
def a_wrong_counter_is_used(golden: Golden) -> None:
    """The counter of the wrong CPU is used all the same."""
    path = golden.raw("fast") / "known" / "wrong.shim.json"
    refused = said(path)["refused"]
    used = [counter | {"reason": None} for counter in refused if counter["source"] == "oracle"]
    edit(path, signals=used, refused=[counter for counter in refused if counter["source"] != "oracle"])


@turns("refusal-reasons", "refusal-reasons-hardware")
def a_refusal_has_no_reason(golden: Golden) -> None:
    """One counter is refused without a reason."""
    for arm in ("fast", "hardware"):
        path = golden.raw(arm) / "known" / "known.shim.json"
        first, *rest = said(path)["refused"]
        edit(path, refused=[first | {"reason": None, "scope": "cpu"}, *rest])


# -- facts that need no time --------------------------------------------------------------------------------

VIRTUAL = ("virtual", "virtual-tracepoint")


@turns("read-only-virtual", "offline-virtual", "read-only-virtual-tracepoint", "offline-virtual-tracepoint")
def the_map_is_wrong_without_time(golden: Golden) -> None:
    """The CPU that was never there shows thread 0, and mprotect makes the map writable."""
    for arm in VIRTUAL:
        edit(golden.raw(arm) / "rights" / "rights.json", offline={"pid": 0, "tgid": 0}, mprotect="allowed")


@turns(
    "idle-virtual", "threads-virtual", "counted-virtual", "idle-there-virtual", "idle-virtual-tracepoint",
    "threads-virtual-tracepoint", "counted-virtual-tracepoint", "idle-there-virtual-tracepoint",
    "counted-virtual-bpf", "counted-debian-tracepoint", "counted-debian-bpf",
)  # fmt: skip
def an_interrupt_finds_another_line(golden: Golden) -> None:
    """Few interrupts of the idle task, one of them and one of a thread with another line; one switch is not counted."""
    for arm in (*VIRTUAL, "virtual-bpf", *DEBIAN):
        path = golden.raw(arm) / "exact" / "exact.json"
        switches = said(path)["kernel_switches"] - 1
        edit(path, idle=999, idle_wrong=1, threads_wrong=1, slot_switches=switches)


def _count(golden: Golden, more: int, names: tuple[str, ...], arms: tuple[str, ...]) -> None:
    """Of the bytes that are handed over so many switches more are counted, by those who are named."""
    for arm in arms:
        path = golden.raw(arm) / "hand" / "hand.json"
        turns_said = said(path)["turns"]
        edit(path, turns=turns_said | {name: turns_said[name] + more for name in names})


HANDS = ("hand", "hand-tracepoint", "hand-bpf")


@turns("by-hand", "by-hand-tracepoint", "by-hand-bpf")
def a_switch_is_not_seen_by_anyone(golden: Golden) -> None:
    """Lines, kernel and perf count twenty switches fewer."""
    _count(golden, -20, ("slot", "kernel", "perf"), HANDS)


@turns("by-hand-more")
def others_run_meanwhile(golden: Golden) -> None:
    """Lines, kernel and perf count a hundred switches more."""
    _count(golden, 100, ("slot", "kernel", "perf"), HANDS[:1])


@turns("counted-by-perf", "counted-by-perf-tracepoint", "counted-by-perf-bpf")
def perf_counts_one_more(golden: Golden) -> None:
    """perf counts a switch that the lines do not."""
    _count(golden, 1, ("perf",), HANDS)


@turns("tracepoint-switch-costs", "bpf-switch-costs")
def other_ways_are_slow(golden: Golden) -> None:
    """With the trace point and with a BPF program the threads take half as many turns in the same time."""
    for arm in ("virtual-tracepoint", "virtual-bpf"):
        path = golden.raw(arm) / "check" / "load.json"
        edit(path, **{name: said(path)[name] // 2 for name in ("checks", "switches")})


@turns("flags-virtual")
def one_flag_is_wrong_without_time(golden: Golden) -> None:
    """The program sets one flag that the test done again does not."""
    with records(golden.raw("virtual") / "trust" / "clean.samples.bin", sample_type(0)) as samples:
        samples["flags"][10] ^= TRUSTED


@turns("delays-noticed-virtual")
def an_interrupt_hides_a_delay(golden: Golden) -> None:
    """The sample before a delayed one takes as long, and so the window between them is trusted."""
    _hide_delays(golden.raw("virtual") / "trust")


@turns("delays-there-virtual")
def few_samples_are_written_without_time(golden: Golden) -> None:
    """Only the first 1,000 samples are written."""
    _keep_samples(golden.raw("virtual") / "trust", 1000)


@turns("published-known-loop", "published-known-loop-tracepoint")
def the_switch_publishes_too_little(golden: Golden) -> None:
    """What is published at the switch is 1 % short of the known loop."""
    for arm in ARM64:
        path = golden.raw(arm) / "counters" / "counters.json"
        loop, *rest = said(path)["checks"]
        edit(path, checks=[loop | {"counted": loop["expected"] * 99 // 100}, *rest])


@turns("published-idle", "published-idle-tracepoint")
def an_idle_cpu_is_busy(golden: Golden) -> None:
    """While the target sleeps its CPU executes 1 % of what it does while the target computes."""
    for arm in ARM64:
        path = golden.raw(arm) / "counters" / "counters.json"
        edit(path, idle=said(path)["busy"] // 100)


@turns("own-counter-lies")
def the_own_counter_sees_the_target(golden: Golden) -> None:
    """An event of the observer's own thread counts as little of an idle target as the target executes."""
    path = golden.raw("arm64") / "counters" / "counters.json"
    edit(path, observer_of_idle=said(path)["idle"])


@turns("own-counter-refused")
def the_own_counter_is_used(golden: Golden) -> None:
    """A counter of the observer's own thread is used all the same."""
    path = golden.raw("arm64") / "counters" / "counters.json"
    *rest, own = said(path)["checks"]
    edit(path, checks=[*rest, own | {"reason": None}])


@turns("multiplexed-refused")
def a_shared_counter_is_used(golden: Golden) -> None:
    """A counter that shared the PMU with others is used all the same."""
    path = golden.raw("arm64") / "counters" / "counters.json"
    edit(path, crowded=said(path)["crowded"] | {"reason": None})
