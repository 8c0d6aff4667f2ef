# SPDX-License-Identifier: MIT
"""What turns each claim of shim. The golden trials are of a busy host: where time matters, `quiet` comes first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.shim.families import METRICS
from experiments.shim.observer.records import DELAYED, EVENT, SWITCH, TRUSTED, sample_type
from tests.golden import Golden
from tests.mutation import turns

Tables = dict[str, pd.DataFrame]
#: Each workload is decoded by itself.
BY_WORKLOAD = True
#: A trial without a record of the host counts as undisturbed: then its figures of time are told.
MAY_CHANGE = {"host-sched.json": {metric.name for metric in METRICS if metric.timing}}

#: The arms whose slot publishes counters of a PMU.
ARM64 = ("arm64", "arm64-tracepoint")
#: Those on a kernel that is none of ours.
DEBIAN = ("debian-tracepoint", "debian-bpf")


def quiet(tables: Tables) -> None:
    """The host disturbs neither trials nor pieces of them."""
    tables["trials"]["disturbed"] = None
    for name in ("switches", "recheck", "idle"):
        tables[name]["unsound"] = None
    switches, recheck, idle = tables["switches"], tables["recheck"], tables["idle"]
    switches["sound"], switches["sound_missed"] = switches["events"], switches["missed"]
    recheck["clean"], recheck["clean_trusted"] = recheck["clean_all"], recheck["clean_all_trusted"]
    idle["periods"], idle["missed"] = idle["periods_all"], idle["missed_all"]
    gaps = tables["gaps"]
    gaps["unsound"], gaps["gaps"], gaps["seen"] = None, gaps["gaps_all"], gaps["seen_all"]
    gaps["expected_sound"] = gaps["expected"]


def put(table: pd.DataFrame, column: str, value: Any, **where: Any) -> None:
    """A value into the rows of a table in which these columns have these values."""
    chosen = pd.Series(True, index=table.index)
    for name, wanted in where.items():
        chosen &= table[name] == wanted
    assert chosen.any(), where
    table.loc[chosen, column] = value


def edit(path: Path, **fields: Any) -> None:
    """Some fields of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


# -- what the paper says -----------------------------------------------------------------------------------


@turns("resolution", before=quiet)
def the_observer_is_slow(tables: Tables) -> None:
    """The observer takes 1,000 samples a second on the timer's target."""
    put(tables["runs"], "samples_per_s", 1e3, workload="timer", run="fast")


@turns("resolution-three-orders", before=quiet)
def the_timer_is_slow(tables: Tables) -> None:
    """The timer sampler takes 100 samples a second."""
    put(tables["timer"], "samples_per_s", 100.0, when="alone")


def quiet_and_fast_clock(tables: Tables) -> None:
    """The host disturbs nothing, and 1 us is 4600 cycles of the guest's clock."""
    quiet(tables)
    tables["runs"]["tsc_hz"] *= 2


@turns("trusted-at-1us", before=quiet_and_fast_clock)
def every_window_is_trusted(tables: Tables) -> None:
    """At 1 us every window is trusted."""
    put(tables["runs"], "trusted_share", 1.0, arm="period-1us")


@turns("trusted-at-10us-switching", before=quiet)
def a_switch_disturbs_no_window(tables: Tables) -> None:
    """At 10 us every window is trusted while threads hand the CPU over."""
    put(tables["runs"], "trusted_share", 1.0, arm="period-10us", workload="switches")


def quiet_and_switches_at_100us(tables: Tables) -> None:
    """The host disturbs nothing; 100 us has a workload switches too: a copy of the one at 10 us, all of it trusted."""
    quiet(tables)
    for name in ("runs", "period_quantiles"):
        table = tables[name]
        copy = table[(table["arm"] == "period-10us") & (table["workload"] == "switches")].assign(arm="period-100us")
        tables[name] = pd.concat([table, copy], ignore_index=True)
    put(tables["runs"], "trusted_share", 1.0, arm="period-100us", workload="switches")


@turns("trusted-at-100us-switching", before=quiet_and_switches_at_100us)
def switches_disturb_windows(tables: Tables) -> None:
    """At 100 us half of the windows are untrusted while threads hand the CPU over: in a copy of the run at 10 us."""
    put(tables["runs"], "trusted_share", 0.5, arm="period-100us", workload="switches")


@turns("trusted-at-10us", "trusted-at-100us", "untrusted-at-highest-rate", before=quiet)
def half_of_the_trusted_windows_are_not(tables: Tables) -> None:
    """Half of the trusted windows of every run are untrusted."""
    tables["runs"]["trusted_share"] /= 2


def quiet_and_native(tables: Tables) -> None:
    """The host disturbs nothing, and its CPUs are real; the observer is as fast as the paper's, and costs nothing."""
    quiet(tables)
    tables["trials"]["fidelity"] = "kvm"
    put(tables["runs"], "period_mean_ns", 10.0, arm="fast", workload="cost")
    tables["cost"]["ratio"] = 1.0


@turns("cost-at-1us", "cost-at-highest-rate", before=quiet_and_native)
def the_observer_doubles_its_targets_time(tables: Tables) -> None:
    """The target takes twice as long beside the observer."""
    put(tables["cost"], "ratio", 2.0, workload="cost", what="observer")


def pmu_of_the_observed_cpu(tables: Tables) -> None:
    """The guest has a PMU, and what the slot publishes of it is right."""
    put(tables["trials"], "pmu", "ok: 20000000 of 20000000 instructions", arm="hardware")
    where = {"arm": "hardware", "run": "known", "source": "slot"}
    right = {"used": True, "known_expected": 2e6, "known_counted": 2_000_200.0, "known_error": 1e-4, "reason": None}
    for column, value in right.items():
        put(tables["counters"], column, value, **where)


@turns("hardware-counter", before=pmu_of_the_observed_cpu)
def the_pmu_counts_wrongly(tables: Tables) -> None:
    """What the slot publishes of the hardware's counter is 5 % off over the known loop."""
    for column, value in (("known_counted", 2_100_000.0), ("known_error", 0.05)):
        put(tables["counters"], column, value, arm="hardware", run="known", source="slot")


# -- what the observer sees --------------------------------------------------------------------------------


@turns(
    "slot", "slot-tracepoint", "slot-virtual", "slot-virtual-tracepoint", "slot-arm64", "slot-arm64-tracepoint",
    "slot-bpf", "slot-virtual-bpf", "slot-debian-tracepoint", "slot-debian-bpf",
    kind="raw",
)  # fmt: skip
def one_slot_was_wrong(golden: Golden) -> None:
    """One comparison of a slot with gettid differs."""
    for arm in ("fast", "tracepoint", "virtual", "virtual-tracepoint", "bpf", "virtual-bpf", *DEBIAN, *ARM64):
        edit(golden.raw(arm) / "check" / "load.json", wrong=1)


@turns("original-is-stale", kind="raw")
def the_papers_place_is_right(golden: Golden) -> None:
    """Called where the paper calls it, the slot is always right."""
    edit(golden.raw("virtual-original") / "check" / "load.json", wrong=0)


@turns("load", before=quiet)
def the_load_is_fast(tables: Tables) -> None:
    """The load switches 31,000 times a second."""
    tables["switches"]["per_s"] = 31_000.0


@turns(
    "switches-missed", "switches-missed-tracepoint", "switches-missed-all", "switches-missed-all-tracepoint",
    "switches-missed-bpf", before=quiet,
)  # fmt: skip
def no_switch_is_missed(tables: Tables) -> None:
    """The observer sees every switch."""
    for column in ("missed", "missed_share", "sound_missed"):
        tables["switches"][column] = 0


@turns("wrong-threads", "wrong-threads-10us", "wrong-threads-tracepoint", "wrong-threads-bpf", kind="raw")
def the_trace_names_other_threads(golden: Golden) -> None:
    """The kernel's trace has another thread in some of its events."""
    for arm in ("fast", "period-10us", "tracepoint", "bpf"):
        path = golden.raw(arm) / "switches" / "truth.bin"
        trace = np.fromfile(path, dtype=EVENT)
        trace["next"][len(trace) // 3 : len(trace) // 2] += 1000
        trace.tofile(path)


@turns("unmatched-switches", also=("wrong-threads",), kind="raw")
def the_slot_forgets_a_switch(golden: Golden) -> None:
    """The slot does not count one switch in the middle of the observation."""
    path = golden.raw("fast") / "switches" / "observer.switches.bin"
    log = np.fromfile(path, dtype=SWITCH)
    log["count"][len(log) // 2 :] -= np.uint64(1)
    log.tofile(path)


@turns("idle", "offline", "read-only", kind="raw")
def the_map_is_wrong(golden: Golden) -> None:
    """The idle CPU shows another task once, the offline CPU thread 7, and mprotect makes the map writable."""
    idle, offline = {"pid": 0, "tgid": 0, "seen": 999, "of": 1000}, {"pid": 7, "tgid": 7}
    edit(golden.raw("fast") / "rights" / "rights.json", idle=idle, offline=offline, mprotect="ok")


# -- trust -------------------------------------------------------------------------------------------------


@turns("delays-noticed", "delays-noticed-once", kind="raw")
def an_interruption_hides_a_delay(golden: Golden) -> None:
    """The sample before a delayed one is interrupted for as long, and so the window between them is trusted."""
    _hide_delays(golden.raw("period-10us") / "trust")


def _hide_delays(folder: Path) -> None:
    """Each sample before a delayed one takes as long as that."""
    samples = np.fromfile(folder / "injected.samples.bin", dtype=sample_type(0))
    delayed = np.flatnonzero(samples["flags"] & DELAYED)
    samples["end"][delayed - 1] = samples["begin"][delayed - 1] + (samples["end"] - samples["begin"])[delayed]
    samples.tofile(folder / "injected.samples.bin")


@turns("delays-there", kind="raw")
def few_samples_are_written(golden: Golden) -> None:
    """Only the first 1,000 samples are written."""
    _keep_samples(golden.raw("period-10us") / "trust", 1000)


def _keep_samples(folder: Path, most: int) -> None:
    samples = np.fromfile(folder / "injected.samples.bin", dtype=sample_type(0))
    samples[:most].tofile(folder / "injected.samples.bin")
    edit(folder / "injected.shim.json", samples_written=most)


@turns("clean-windows", "clean-windows-all", "clean-windows-fast", before=quiet)
def every_clean_window_is_trusted(tables: Tables) -> None:
    """Every window without a delay is trusted."""
    recheck = tables["recheck"]
    recheck["clean_trusted"], recheck["clean_all_trusted"] = recheck["clean"], recheck["clean_all"]


@turns("flags", kind="raw")
def one_flag_is_wrong(golden: Golden) -> None:
    """The program sets one flag that the test done again does not."""
    path = golden.raw("fast") / "trust" / "clean.samples.bin"
    samples = np.fromfile(path, dtype=sample_type(1))
    samples["flags"][10] ^= TRUSTED
    samples.tofile(path)


# -- counters, idle time -----------------------------------------------------------------------------------


def quiet_and_chunks_close(tables: Tables) -> None:
    """The host disturbs nothing, and chunks of known work follow each other closely."""
    quiet(tables)
    tables["known"][["outside", "unsure"]] = 0.001


@turns("known-loop", before=quiet_and_chunks_close)
def the_counter_is_off(tables: Tables) -> None:
    """The counter is 5 % off over the known work."""
    tables["known"]["error"] = 0.05


@turns("wrong-counter", kind="raw")
def a_wrong_counter_is_used(golden: Golden) -> None:
    """The counter of the wrong CPU is used all the same."""
    path = golden.raw("fast") / "known" / "wrong.shim.json"
    refused = json.loads(path.read_text())["refused"]
    used = [counter | {"reason": None} for counter in refused if counter["source"] == "oracle"]
    edit(path, signals=used, refused=[counter for counter in refused if counter["source"] != "oracle"])


@turns("refusal-reasons", "refusal-reasons-hardware", kind="raw")
def a_refusal_has_no_reason(golden: Golden) -> None:
    """One counter is refused without a reason."""
    for arm in ("fast", "hardware"):
        path = golden.raw(arm) / "known" / "known.shim.json"
        first, *rest = json.loads(path.read_text())["refused"]
        edit(path, refused=[first | {"reason": None, "scope": "cpu"}, *rest])


# -- facts that need no time --------------------------------------------------------------------------------

VIRTUAL = ("virtual", "virtual-tracepoint")


@turns("read-only-virtual", "offline-virtual", "read-only-virtual-tracepoint", "offline-virtual-tracepoint", kind="raw")
def the_map_is_wrong_without_time(golden: Golden) -> None:
    """The CPU that was never there shows thread 0, and mprotect makes the map writable."""
    for arm in VIRTUAL:
        edit(golden.raw(arm) / "rights" / "rights.json", offline={"pid": 0, "tgid": 0}, mprotect="allowed")


@turns(
    "idle-virtual", "threads-virtual", "counted-virtual", "idle-there-virtual", "idle-virtual-tracepoint",
    "threads-virtual-tracepoint", "counted-virtual-tracepoint", "idle-there-virtual-tracepoint",
    "counted-virtual-bpf", "counted-debian-tracepoint", "counted-debian-bpf", kind="raw",
)  # fmt: skip
def an_interrupt_finds_another_line(golden: Golden) -> None:
    """Few interrupts of the idle task, one of them and one of a thread with another line; one switch is not counted."""
    for arm in (*VIRTUAL, "virtual-bpf", *DEBIAN):
        path = golden.raw(arm) / "exact" / "exact.json"
        switches = json.loads(path.read_text())["kernel_switches"] - 1
        edit(path, idle=999, idle_wrong=1, threads_wrong=1, slot_switches=switches)


@turns("tracepoint-switch-costs", "bpf-switch-costs")
def other_ways_are_slow(tables: Tables) -> None:
    """A switch takes 10 us more with the trace point and with a BPF program."""
    for arm in ("virtual-tracepoint", "virtual-bpf"):
        tables["checks"].loc[tables["checks"]["arm"] == arm, "turn_ns"] += 10_000


@turns("flags-virtual", kind="raw")
def one_flag_is_wrong_without_time(golden: Golden) -> None:
    """The program sets one flag that the test done again does not."""
    path = golden.raw("virtual") / "trust" / "clean.samples.bin"
    samples = np.fromfile(path, dtype=sample_type(0))
    samples["flags"][10] ^= TRUSTED
    samples.tofile(path)


@turns("delays-noticed-virtual", kind="raw")
def an_interrupt_hides_a_delay(golden: Golden) -> None:
    """The sample before a delayed one takes as long, and so the window between them is trusted."""
    _hide_delays(golden.raw("virtual") / "trust")


@turns("delays-there-virtual", kind="raw")
def few_samples_are_written_without_time(golden: Golden) -> None:
    """Only the first 1,000 samples are written."""
    _keep_samples(golden.raw("virtual") / "trust", 1000)


# -- times between two switches -----------------------------------------------------------------------------


def quiet_and_every_gap_seen(tables: Tables) -> None:
    """The host disturbs nothing; there are 1,000 gaps of each length, and as many are seen as by chance."""
    quiet(tables)
    for column in ("gaps", "seen", "expected_sound"):
        tables["gaps"][column] = 1000


@turns("gaps-seen", "gaps-seen-short", "gaps-seen-idle", "gaps-by-period", before=quiet_and_every_gap_seen)
def half_of_the_gaps_are_missed(tables: Tables) -> None:
    """Half of the gaps are not seen."""
    tables["gaps"]["seen"] = 500


@turns("published-known-loop", "published-known-loop-tracepoint", kind="raw")
def the_switch_publishes_too_little(golden: Golden) -> None:
    """What is published at the switch is 1 % short of the known loop."""
    for arm in ARM64:
        path = golden.raw(arm) / "counters" / "counters.json"
        loop, *rest = json.loads(path.read_text())["checks"]
        edit(path, checks=[loop | {"counted": loop["expected"] * 99 // 100}, *rest])


@turns("published-idle", "published-idle-tracepoint", kind="raw")
def an_idle_cpu_is_busy(golden: Golden) -> None:
    """While the target sleeps its CPU executes 1 % of what it does while the target computes."""
    for arm in ARM64:
        path = golden.raw(arm) / "counters" / "counters.json"
        edit(path, idle=json.loads(path.read_text())["busy"] // 100)


@turns("own-counter-lies", kind="raw")
def the_own_counter_sees_the_target(golden: Golden) -> None:
    """An event of the observer's own thread counts as little of an idle target as the target executes."""
    path = golden.raw("arm64") / "counters" / "counters.json"
    edit(path, observer_of_idle=json.loads(path.read_text())["idle"])


@turns("own-counter-refused", kind="raw")
def the_own_counter_is_used(golden: Golden) -> None:
    """A counter of the observer's own thread is used all the same."""
    path = golden.raw("arm64") / "counters" / "counters.json"
    *rest, own = json.loads(path.read_text())["checks"]
    edit(path, checks=[*rest, own | {"reason": None}])


@turns("multiplexed-refused", kind="raw")
def a_shared_counter_is_used(golden: Golden) -> None:
    """A counter that shared the PMU with others is used all the same."""
    path = golden.raw("arm64") / "counters" / "counters.json"
    edit(path, crowded=json.loads(path.read_text())["crowded"] | {"reason": None})


@turns("idle-share", "idle-periods", "idle-periods-none", before=quiet)
def all_idle_time_is_seen(tables: Tables) -> None:
    """The observer sees every idle period, from its begin to its end."""
    idle = tables["idle"]
    idle["seen_share"] = idle["truth_share"]
    idle["missed"] = idle["missed_all"] = 0
