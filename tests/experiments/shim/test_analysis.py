# SPDX-License-Identifier: MIT
"""shim's analysis on made-up raw folders: each figure from files whose truth is known, or absent with its reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.shim.measuring import EMULATED, NO_CACHES
from harness.measure.analysis import Analysis
from harness.paths import EXPERIMENTS
from harness.report.figures import figure_style, write_figures
from harness.trial.model import TrialRecord
from tests.experiments.shim import files
from tests.experiments.shim.files import HZ, START

ANALYSIS = Analysis(EXPERIMENTS / "shim")
ALL = ("rights", "hello", "check", "exact", "switches", "trust", "timer", "cost", "known", "pattern", "phases", "gaps")
REFUSED = {
    "name": "instructions",
    "source": "oracle",
    "known_expected": 20_000_000,
    "known_counted": 40_000,
    "reason": "counted 40000 of 20000000 instructions",
}
RIGHTS: dict[str, Any] = {
    "open_write": "EACCES", "open_read_write": "EACCES", "map_write": "EACCES", "map_private_write": "EACCES",
    "mprotect": "EACCES",
    "idle": {"pid": 0, "tgid": 0, "seen": 1000, "of": 1000}, "offline": {"pid": -1, "tgid": -1}, "offline_reason": None,
    "online_again": {"pid": 0, "tgid": 0}, "unload_while_mapped": "EAGAIN", "after_off": {"pid": -1, "tgid": -1},
    "open_after_off": "ENOENT", "own_before_off": True, "own_after_on": True,
}  # fmt: skip
TIMER: dict[str, Any] = {
    "cpu": 1, "period_ns": 100_000, "asked_per_s": 10_000, "samples": 4000, "lost": 0, "throttled": 1, "seconds": 1.0,
    "samples_per_s": 4000.0, "tids": {"70": 4000}, "reason": None,
    "clock_begin": files.pair(START + 20_000_000), "clock_end": files.pair(START + 30_000_000),
}  # fmt: skip


def put(folder: Path, name: str, value: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(value))


def trial(root: Path, arm: str = "period-10us", workloads: tuple[str, ...] = ALL, **more: Any) -> TrialRecord:
    """A trial with all files of its workloads."""
    made = files.record(arm, root / arm / str(more.get("repetition", 0)), workloads, **more)
    files.host(made.path)
    for workload in workloads:
        WRITE[workload](made.path / workload)
    return made


def rights(folder: Path) -> None:
    put(folder, "rights.json", RIGHTS)


def check(folder: Path) -> None:
    files.load(folder, load="check", checks=5000, wrong=0, first_wrong=None, switches=400)


def hello(folder: Path) -> None:
    events = [{"name": "instructions", "begin": 140_616, "end": 143_085}]
    refused = [{"name": "bus-cycles", "reason": "perf_event_open: No such file or directory"}]
    put(folder, "hello.json", {"refused": refused, "trusted": True, "cycles": 9000, "words": 2, "events": events})


def exact(folder: Path) -> None:
    told = {
        "threads": 600,
        "threads_wrong": 1,
        "idle": 400,
        "idle_wrong": 2,
        "slot_switches": 97,
        "kernel_switches": 100,
    }
    put(folder, "exact.json", told)


def hand(folder: Path) -> None:
    told = {"sleeps": (400, 404, 404), "turns": (1000, 998, 999), "alone": (0, 3, 3), "outside": (None, 17, 15)}
    names = ("by_hand", "slot", "perf")
    counted = {part: dict(zip(names, counts, strict=True), kernel=counts[1]) for part, counts in told.items()}
    put(folder, "hand.json", counted)


def gaps(folder: Path) -> None:
    """300 times: a thread for 5 us, which every other time is missed, another for 50 us, and idle for 100 us."""
    files.shim(folder, "observer", switches_written=750, switches_seen=749, switches_missed=150, switches_slot=899)
    begin = (START + np.cumsum([0, *[10_000, 100_000, 200_000] * 300])[:900]).tolist()
    cpu = files.Cpu([70, 71, 0] * 300, begin)
    files.truth(folder, cpu.trace())
    cpu.log(set(range(3, 900, 6))).tofile(folder / "observer.switches.bin")


def switches(folder: Path) -> None:
    files.load(folder, load="switch", switches=990, how="pipe")
    cpu = files.cpu(1000)
    counts = {"switches_seen": 990, "switches_missed": 5, "switches_slot": 995, "switches_written": 995}
    files.shim(folder, "observer", seconds=0.02, clock_end=files.pair(START + HZ // 50), **counts)
    files.truth(folder, cpu.trace())
    cpu.log({10, 20, 30, 500, 501}).tofile(folder / "observer.switches.bin")
    # The host had the observer's CPU for a tenth of the middle.
    clocks = [cpu.begin[0], cpu.begin[450], cpu.begin[550], cpu.begin[-1] + 1]
    stolen = (clocks[2] - clocks[1]) * 10**8 // HZ
    files.readings(folder, "observer", clocks, [7, 7, 7 + stolen, 7 + stolen])


def trust(folder: Path) -> None:
    files.shim(folder, "clean", samples=3_000_000, seconds=1.5)
    files.steady(1001).tofile(folder / "clean.samples.bin")
    made, log = files.delayed(1001, {100, 300, 500, 700, 900})
    made.tofile(folder / "injected.samples.bin")
    log.tofile(folder / "injected.injected.bin")
    files.shim(folder, "injected", injected=5, injected_windows=10, injected_trusted=0, trusted=990)


def timer(folder: Path) -> None:
    files.load(folder)
    # The sampler's phase is slower by a half.
    files.shim(folder, "fast", samples=2_000_000, clock_end=files.pair(START + 10_000_000))
    chunks = files.chunks(20)
    chunks["iterations"][10:15] = 500_000
    chunks.tofile(folder / "load.bin")
    put(folder, "timer.json", TIMER)
    files.shim(folder, "both", samples=1_500_000)
    put(folder, "both.timer.json", TIMER | {"samples": 3000, "samples_per_s": 3000.0})


def cost(folder: Path) -> None:
    files.load(folder)
    files.shim(folder, "on1")
    files.shim(folder, "on2")
    chunks = files.chunks(100, cycles=1_000_000)
    chunks["iterations"][25:50] = chunks["iterations"][75:] = 400_000
    chunks["iterations"][5:15] = chunks["iterations"][55:70] = 450_000
    chunks.tofile(folder / "load.bin")
    for name, phases in (("on", [(25, 49), (75, 99)]), ("spin", [(5, 14), (55, 69)])):
        rows = "".join(f"{chunks['begin'][first]},{chunks['end'][last]}\n" for first, last in phases)
        (folder / f"{name}.csv").write_text(f"begin,end\n{rows}")


def known(folder: Path) -> None:
    files.load(folder)
    files.shim(folder, "known")
    files.steady(1001, ipc=1.002).tofile(folder / "known.samples.bin")
    files.chunks(10).tofile(folder / "load.bin")
    files.shim(folder, "wrong", signals=[], refused=[REFUSED])
    put(folder, "list.json", {"events": [files.NO_PMU, files.INSTRUCTIONS], "ppid": "callback"})


def pattern(folder: Path) -> None:
    files.load(folder, load="pattern")
    files.shim(folder, "observer", switches_slot=99, switches_seen=98, switches_missed=1, switches_written=98)
    # 1 ms busy, 3 ms idle; the observer misses one of the idle periods.
    begin = [START + (k // 2 * 8 + k % 2 * 2) * HZ // 2000 for k in range(100)]
    cpu = files.Cpu([(70, 0)[k % 2] for k in range(100)], begin, lag=0)
    files.truth(folder, cpu.trace())
    cpu.log({41, 61}).tofile(folder / "observer.switches.bin")
    # The host had the observer's CPU in the second of the idle periods that were missed.
    clocks = [begin[0], begin[60], begin[64], begin[-1] + 1]
    files.readings(folder, "observer", clocks, [0, 0, 2_000_000, 2_000_000])
    files.chunks(50, cycles=HZ // 1000, kind=1, gap=3 * HZ // 1000).tofile(folder / "load.bin")


def phases(folder: Path) -> None:
    files.load(folder, load="phases")
    files.shim(folder, "observer", switches_slot=1, switches_seen=1, switches_written=4)
    made = files.steady(1001, ipc=1.0)
    made["signals"][500:, 0] = made["signals"][500, 0] + np.arange(501, dtype=np.uint64) * np.uint64(50_000)
    made["pid"][500:], made["count"][500:] = 71, 6
    made.tofile(folder / "observer.samples.bin")
    cpu = files.Cpu([0, 70, 71, 0], [START - 10, START, START + 500 * 20_000, START + 1001 * 20_000], lag=0)
    files.truth(folder, cpu.trace())
    cpu.log().tofile(folder / "observer.switches.bin")
    second = files.chunks(5, ipc=2.5, kind=1, tid=71)
    second["begin"] += 5 * 2_000_000
    second["end"] += 5 * 2_000_000
    np.concatenate([files.chunks(5, ipc=0.98), second]).tofile(folder / "load.bin")
    ids = "pid,tgid,cycles,windows,trusted,trusted_cycles,instructions\n70,70,10000000,500,500,10000000,10000000\n"
    (folder / "observer.ids.csv").write_text(ids + "-2,-2,20000,500,490,0,0\n")


WRITE = {
    "rights": rights, "check": check, "switches": switches, "trust": trust, "timer": timer, "cost": cost,
    "known": known, "pattern": pattern, "phases": phases, "hello": hello, "exact": exact, "gaps": gaps,
    "hand": hand, "disturb": timer,
}  # fmt: skip


def measured(trials: list[TrialRecord]) -> pd.DataFrame:
    return ANALYSIS.metrics(ANALYSIS.tables(trials)).set_index(["arm", "trial", "metric"])


def all_of(trials: list[TrialRecord]) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Tables and metrics of these trials."""
    tables = ANALYSIS.tables(trials)
    return tables, ANALYSIS.metrics(tables)


def values(one: TrialRecord) -> dict[str, float]:
    return measured([one])["value"].loc[one.arm, one.repetition].to_dict()


def test_every_figure_of_a_whole_trial(tmp_path):
    metrics = values(trial(tmp_path))
    exact = {
        "write_refused": 1, "idle_shown": 1, "offline_shown": 1, "slot_checks": 5000, "slot_wrong": 0,
        "wrong_threads": 0, "unmatched_switches": 0, "missed_switches_share": 3 / 900,
        "missed_switches_share_all": 5 / 999,
        "compared_switches": 995,
        "missed_switches_share_slot": 5 / 995, "samples_per_s": 2e6, "trusted_share": 0.99, "flags_wrong": 0,
        "injected_windows": 10, "injected_trusted": 0, "injected_flags_wrong": 0, "clean_trusted_share": 1,
        "timer_samples_per_s": 4000, "rate_over_timer": 500, "rate_over_timer_both": 500, "timer_cost": 1,
        "observer_cost": 0.25, "spin_cost": 5 / 45, "observer_over_spin": 1.125 - 1,
        "known_error": 0.002, "counter_check_error": 1.5e-5, "wrong_counter_refused": 1, "refusal_reasons": 1,
        "idle_periods": 48, "idle_periods_missed_share": 1 / 48, "idle_periods_missed": 2,
        "thread_rate_error": 1 / 0.98 - 1, "injected_beyond_windows": 10, "injected_beyond_trusted": 0,
        "injected_short_trusted": 0, "clean_trusted_share_all": 1, "trusted_share_from_2500": 0.99,
        "slot_wrong_share": 0, "thread_rate_error_all": 1 / 0.98 - 1, "hello_events": 1, "hello_instructions": 2469,
        "interrupts_of_threads": 600, "interrupted_wrong": 1, "interrupts_of_idle": 400, "interrupted_idle_wrong": 2,
        "switches_miscounted": 3, "gaps_seen": 1, "gaps_seen_short": 0.5, "gaps_seen_idle": 1,
    }  # fmt: skip
    assert {name: metrics[name] for name in exact} == pytest.approx(exact, abs=1e-7)
    # 5 us at a period of 10 us: a half, within a bucket of the period's histogram.
    assert metrics["gaps_seen_over_expected"] == pytest.approx(1, rel=0.05)
    assert metrics["switches_per_s"] == pytest.approx(2e9 / 70_000, rel=0.05)
    assert 9728 < metrics["period_median_ns"] < 10240
    # The periods that were missed are 3 of 4 ms each, of 197 ms.
    assert metrics["idle_share_error"] == pytest.approx(6 / 197, rel=0.05)
    assert metrics["sound_share"] == pytest.approx(0.9, abs=0.02)


def test_an_observation_that_the_host_disturbed_for_most_of_the_time_says_nothing(tmp_path):
    one = trial(tmp_path, workloads=("switches", "trust"))
    clocks = [START + k * HZ // 100 for k in range(4)]
    for workload, run in (("switches", "observer"), ("trust", "injected")):
        files.readings(one.path / workload, run, clocks, [0, 10**6, 2 * 10**6, 2 * 10**6])
    metrics = measured([one]).loc[(one.arm, 0)]
    reason = "the host descheduled a vCPU for more than 3 % of the time in 2 of 3 pieces of the observation"
    for name in ("missed_switches_share", "clean_trusted_share"):
        assert np.isnan(metrics.loc[name, "value"])
        assert metrics.loc[name, "reason"] == reason
    assert metrics.loc["missed_switches_share_all", "value"] == 5 / 999
    assert metrics.loc["sound_share", "value"] == pytest.approx(1 / 3)


def test_where_nobody_tells_the_observer_of_the_host_the_whole_observation_counts(tmp_path):
    one = trial(tmp_path, workloads=("switches",))
    why = "no device: the machine has no devices: [counters]"
    answer = json.loads((one.path / "switches" / "observer.shim.json").read_text())
    put(one.path / "switches", "observer.shim.json", answer | {"host_readings": 0, "host_reason": why})
    metrics = measured([one]).loc[(one.arm, 0)]
    assert metrics.loc["missed_switches_share", "value"] == metrics.loc["missed_switches_share_all", "value"] == 5 / 999
    assert metrics.loc["sound_share", "reason"] == why


def test_only_the_hardware_is_absent_in_a_whole_trial(tmp_path):
    metrics = measured([trial(tmp_path)])
    absent = metrics[metrics["value"].isna()]
    assert absent.droplevel(["arm", "trial"])["reason"].to_dict() == {
        "native_cost": NO_CACHES,
        "native_cost_at_30": NO_CACHES,
        "native_rate_over_timer": EMULATED,
        "pmu_known_error": "PMU absent: TCG emulates no PMU",
    }


def test_how_much_finer_it_is_than_a_timer_is_told_of_real_cpus(tmp_path):
    one = trial(tmp_path, workloads=("timer",), fidelity="kvm")
    assert measured([one]).loc[("period-10us", 0, "native_rate_over_timer"), "value"] == 500


def test_a_timer_sampler_that_lost_samples_took_them(tmp_path):
    one = trial(tmp_path, workloads=("timer",))
    put(one.path / "timer", "timer.json", TIMER | {"samples": 3000, "lost": 1000})
    assert measured([one]).loc[("period-10us", 0, "timer_samples_per_s"), "value"] == 4000


def test_switches_are_compared_with_those_on_paper_and_with_perfs(tmp_path):
    one = trial(tmp_path, "hand", ("hand", "disturb"), clock="virtual", fidelity="virtual")
    metrics = values(one)
    assert metrics["by_hand_missing"] == 2
    assert metrics["by_hand_more_share"] == 7 / 1400
    assert metrics["perf_difference"] == 1 + 2
    assert metrics["timer_cost"] == 1
    assert "rate_over_timer" not in metrics


def test_what_the_paper_says_of_cost_is_told_where_there_are_caches_and_of_30_cycles_at_such_a_period(tmp_path):
    slow = measured([trial(tmp_path / "slow", workloads=("cost",), fidelity="kvm")]).loc[("period-10us", 0)]
    assert slow.loc["native_cost", "value"] == pytest.approx(0.125)
    assert np.isnan(slow.loc["native_cost_at_30", "value"])
    assert "the paper speaks of 30" in slow.loc["native_cost_at_30", "reason"]
    fast = trial(tmp_path / "fast", workloads=("cost",), fidelity="kvm")
    for run in ("on1", "on2"):
        path = fast.path / "cost" / f"{run}.shim.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"samples": 50_000_000}))
    assert measured([fast]).loc[("period-10us", 0, "native_cost_at_30"), "value"] == pytest.approx(0.125)


def test_what_a_switch_costs_more_than_with_the_callback_is_in_instructions(tmp_path):
    arms = [trial(tmp_path, arm, ("check",), clock="virtual", fidelity="virtual") for arm in ("virtual", "virtual-bpf")]
    files.load(arms[1].path / "check", load="check", checks=4000, wrong=0, switches=400)
    more = (1e9 / 40 - 1e9 / 50) / 8
    assert measured(arms).loc[("virtual-bpf", 0, "switch_over_callback"), "value"] == pytest.approx(more)
    alone = measured(arms[1:]).loc[("virtual-bpf", 0, "switch_over_callback")]
    assert alone["reason"] == "the arm virtual took no part in this run"


def test_of_a_trial_that_the_host_disturbed_only_figures_of_time_are_left_out(tmp_path):
    trials = [trial(tmp_path, workloads=("check", "timer"), repetition=k) for k in range(3)]
    files.host(trials[1].path, 0.12)
    metrics = measured(trials)
    assert set(metrics.xs("rate_over_timer", level="metric").index.get_level_values("trial")) == {0, 2}
    assert set(metrics.xs("slot_wrong", level="metric").index.get_level_values("trial")) == {0, 1, 2}
    shown = ANALYSIS.summary(*all_of(trials), [])
    assert shown["Trials that the host disturbed"]["trial"].tolist() == [1]


def test_where_the_host_disturbed_all_trials_facts_are_told_and_figures_drawn_and_marked(tmp_path):
    one = trial(tmp_path)
    files.host(one.path, 0.12)
    metrics = measured([one]).loc[(one.arm, 0)]
    facts = {
        "write_refused", "idle_shown", "offline_shown", "slot_wrong", "wrong_threads", "unmatched_switches",
        "flags_wrong", "injected_trusted", "injected_windows", "wrong_counter_refused", "refusal_reasons",
    }  # fmt: skip
    assert metrics.loc[sorted(facts), "value"].notna().all()
    timed = metrics.loc[["rate_over_timer", "trusted_share", "missed_switches_share_all", "idle_share_error"]]
    assert timed["value"].isna().all()
    assert timed["reason"].str.contains("left out: the host descheduled vCPU 1").all()
    figures = ANALYSIS.figures(*all_of([one]))
    assert "; host disturbed" in figures["trust"].axes[0].get_xlabel()
    one = trial(tmp_path / "quiet")
    assert "; host disturbed" not in ANALYSIS.figures(*all_of([one]))["trust"].axes[0].get_xlabel()


def test_what_is_absent_for_a_reason_of_its_own_keeps_it_in_a_trial_that_is_left_out(tmp_path):
    one = trial(tmp_path, workloads=("known",))
    files.host(one.path, 0.12)
    metrics = measured([one]).loc[(one.arm, 0)]
    assert metrics.loc["pmu_known_error", "reason"] == "PMU absent: TCG emulates no PMU"
    assert "left out" in metrics.loc["known_error", "reason"]


def test_no_trial_at_all():
    tables = ANALYSIS.tables([])
    assert ANALYSIS.metrics(tables).empty
    metrics = ANALYSIS.metrics(tables)
    assert ANALYSIS.figures(tables, metrics) == {}
    assert ANALYSIS.summary(tables, metrics, []) == {}
    assert all(set(table["here"]) == {"—"} for table in ANALYSIS.paper(tables, metrics, []).values())
    assert len(ANALYSIS.profiles(tables, metrics)) == 0
    line = ANALYSIS.timeline(tables, metrics)
    assert line is not None
    assert line.empty


def test_the_host_does_not_matter_to_the_virtual_clock(tmp_path):
    one = trial(tmp_path, "virtual", ("check",), clock="virtual")
    (one.path / "host-sched.json").unlink()
    metrics = measured([one])
    assert metrics.loc[("virtual", 0, "slot_wrong"), "value"] == 0


def test_a_counter_that_was_refused_is_no_figure(tmp_path):
    one = trial(tmp_path, workloads=("known", "phases"))
    for workload, run in (("known", "known"), ("phases", "observer")):
        files.shim(one.path / workload, run, signals=[], refused=[files.NO_PMU, REFUSED])
    metrics = measured([one]).loc[(one.arm, 0)]
    for name in ("known_error", "counter_check_error", "thread_rate_error"):
        assert np.isnan(metrics.loc[name, "value"])
        assert "oracle: counted 40000 of 20000000 instructions" in metrics.loc[name, "reason"]


def test_a_wrong_counter_that_was_used_is_told(tmp_path):
    one = trial(tmp_path, workloads=("known",))
    files.shim(one.path / "known", "wrong")
    assert values(one)["wrong_counter_refused"] == 0


def test_a_counter_is_not_judged_by_work_that_is_not_known(tmp_path):
    one = trial(tmp_path, workloads=("known",))
    files.chunks(8, gap=100_000).tofile(one.path / "known" / "load.bin")
    metrics = measured([one]).loc[(one.arm, 0)]
    assert metrics.loc["known_error", "reason"] == "4.2 % of the time was between chunks, 0.24 % at the ends"
    # Samples are missing around the begin of the first chunk: it is left out.
    made = files.steady(1001, ipc=1.002)
    np.delete(made, np.s_[5:60]).tofile(one.path / "known" / "known.samples.bin")
    files.shim(one.path / "known", "known", samples_written=1001 - 55, samples_lost=55)
    chunks = files.chunks(10)
    chunks["begin"] += 1_000_000
    chunks["end"] += 1_000_000
    chunks.tofile(one.path / "known" / "load.bin")
    assert values(one)["known_error"] == pytest.approx(0.002, abs=1e-6)
    assert ANALYSIS.tables([one])["known"]["chunks"].tolist() == [8]
    files.chunks(3)[1:1].tofile(one.path / "known" / "load.bin")
    assert measured([one]).loc[(one.arm, 0, "known_error"), "reason"] == "no chunk of known work lies between samples"


def test_without_slots_switches_are_absent_with_the_reason(tmp_path):
    one = trial(tmp_path, workloads=("switches", "pattern"))
    for workload in one.workloads:
        files.shim(one.path / workload, "observer", ppid=None, ppid_reason="no /dev/ppid_map")
    metrics = measured([one]).loc[(one.arm, 0)]
    assert metrics.loc["wrong_threads", "reason"] == "no slots: no /dev/ppid_map"
    assert metrics.loc["idle_share_error", "reason"] == "no slots: no /dev/ppid_map"


def test_a_file_that_is_damaged_or_not_there_is_a_reason_and_no_more(tmp_path):
    one = trial(tmp_path, workloads=("switches", "trust", "timer"))
    (one.path / "switches" / "truth.bin").write_bytes(bytes(25))
    (one.path / "timer" / "both.timer.json").unlink()
    metrics = measured([one]).loc[(one.arm, 0)]
    assert (
        metrics.loc["wrong_threads", "reason"]
        == "period-10us/0/switches/truth.bin, byte 24: is cut short: 1 bytes after record 1"
    )
    assert metrics.loc["rate_over_timer", "value"] == 500
    assert metrics.loc["rate_over_timer_both", "reason"].endswith(
        "both.timer.json: cannot be read: No such file or directory"
    )


def test_the_timer_sampler_may_be_absent(tmp_path):
    one = trial(tmp_path, workloads=("timer",))
    put(
        one.path / "timer",
        "timer.json",
        {"cpu": 1, "period_ns": 1, "samples": None, "reason": "perf_event_open: ENOENT"},
    )
    metrics = measured([one]).loc[(one.arm, 0)]
    assert metrics.loc["rate_over_timer", "reason"] == "perf_event_open: ENOENT"
    assert np.isnan(metrics.loc["timer_samples_per_s", "value"])


def test_flags_that_the_program_set_wrongly_are_counted(tmp_path):
    one = trial(tmp_path, workloads=("trust",))
    made = files.steady(1001)
    made["flags"][[7, 8, 9]] ^= 1
    made.tofile(one.path / "trust" / "clean.samples.bin")
    assert values(one)["flags_wrong"] == 3


def test_a_delayed_window_that_is_trusted_is_counted_from_the_file(tmp_path):
    one = trial(tmp_path, workloads=("trust",))
    made, log = files.delayed(1001, {100, 300, 500, 700, 900})
    made["flags"][301] |= 1
    made.tofile(one.path / "trust" / "injected.samples.bin")
    metrics = values(one)
    assert (metrics["injected_trusted"], metrics["injected_beyond_trusted"], metrics["injected_flags_wrong"]) == (
        1,
        1,
        1,
    )
    log[:4].tofile(one.path / "trust" / "injected.injected.bin")
    reason = measured([one]).loc[(one.arm, 0, "injected_trusted"), "reason"]
    assert reason.endswith("injected.injected.bin: holds 4 records, 5 were written")
    log.tofile(one.path / "trust" / "injected.injected.bin")
    files.shim(one.path / "trust", "injected", injected=5, injected_windows=8, injected_long=1)
    reason = measured([one]).loc[(one.arm, 0, "injected_trusted"), "reason"]
    assert reason == "10 windows touch a delay by the file, 9 by the program"


def test_samples_too_fast_to_be_written_are_not_judged_again(tmp_path):
    one = trial(tmp_path, "fast", ("trust",))
    (one.path / "trust" / "clean.samples.bin").unlink()
    metrics = measured([one]).loc[("fast", 0)]
    assert metrics.loc["flags_wrong", "reason"].endswith("clean.samples.bin: cannot be read: No such file or directory")
    files.shim(one.path / "trust", "clean", samples_written=0, samples_skipped=1001)
    metrics = measured([one]).loc[("fast", 0)]
    assert "flags_wrong" not in metrics.index
    assert metrics.loc["trusted_share", "value"] == 0.99


def test_an_idle_cpu_that_once_shows_another_task_is_told(tmp_path):
    one = trial(tmp_path, workloads=("rights",))
    put(one.path / "rights", "rights.json", RIGHTS | {"idle": {"pid": 0, "tgid": 0, "seen": 999, "of": 1000}})
    assert values(one)["idle_shown"] == 0.999
    put(one.path / "rights", "rights.json", RIGHTS | {"idle": {"pid": 7, "tgid": 7, "seen": 1000, "of": 1000}})
    assert values(one)["idle_shown"] == 0


def test_a_hardware_counter_of_the_observers_own_thread_is_not_believed(tmp_path):
    own = files.INSTRUCTIONS | {"source": "pmu", "scope": "observer"}
    one = trial(tmp_path, workloads=("known", "phases"), pmu="ok: 20000000 of 20000000 instructions")
    for workload, run in (("known", "known"), ("phases", "observer")):
        counts = {"switches_written": 4} if workload == "phases" else {}
        files.shim(one.path / workload, run, signals=[own], refused=[], **counts)
    metrics = measured([one]).loc[(one.arm, 0)]
    for name in ("pmu_known_error", "known_error", "counter_check_error", "thread_rate_error"):
        assert np.isnan(metrics.loc[name, "value"]), name
        assert metrics.loc[name, "reason"].endswith("pmu: counts the observer's own thread, not the observed CPU")
    tables = ANALYSIS.tables([one])
    assert tables["threads"].loc[tables["threads"]["workload"] == "phases", "instructions"].isna().all()
    # What the slot publishes of the observed CPU is believed.
    files.shim(one.path / "known", "known", signals=[own | {"source": "slot", "scope": "cpu"}], refused=[])
    assert measured([one]).loc[(one.arm, 0, "pmu_known_error"), "value"] == pytest.approx(1.5e-5)


def test_a_period_that_is_shorter_than_the_papers_is_not_held_against_it(tmp_path):
    one = trial(tmp_path, workloads=("trust",))
    (one.path / "trust" / "clean.periods.csv").write_text("low,high,windows,trusted\n2400,2401,1000,990\n")
    metrics = measured([one]).loc[(one.arm, 0)]
    assert metrics.loc["trusted_share", "value"] == 0.99
    reason = metrics.loc["trusted_share_from_2500", "reason"]
    assert reason == "the median period is 2400 cycles; the paper speaks of 2500 and more"


def test_a_map_that_lets_itself_be_written(tmp_path):
    one = trial(tmp_path, workloads=("rights",))
    put(one.path / "rights", "rights.json", RIGHTS | {"mprotect": "ok", "offline": None, "offline_reason": "one CPU"})
    metrics = measured([one]).loc[(one.arm, 0)]
    assert metrics.loc["write_refused", "value"] == 0
    assert metrics.loc["offline_shown", "reason"] == "one CPU"
    for offline in ({"pid": 0, "tgid": -1}, {"pid": -1, "tgid": 0}):
        put(one.path / "rights", "rights.json", RIGHTS | {"offline": offline})
        assert values(one)["offline_shown"] == 0


@pytest.mark.deep
def test_every_figure_is_drawn_and_written(tmp_path):
    made = all_of([trial(tmp_path, arm) for arm in ("fast", "period-10us", "period-100us")])
    with figure_style():
        figures = ANALYSIS.figures(*made)
    assert list(figures) == ["periods", "trust", "rates", "intervals", "idle", "timeline", "cost", "timer", "gaps"]
    for path in write_figures(figures, tmp_path / "figures"):
        assert path.stat().st_size < 1 << 20, path.name
    labels = {text.get_text() for legend in figures["trust"].legends for text in legend.get_texts()}
    assert any("not comparable" in label for label in labels)


def test_one_workload_gives_its_own_figures(tmp_path):
    assert list(ANALYSIS.figures(*all_of([trial(tmp_path, workloads=("cost",))]))) == ["cost"]
    assert ANALYSIS.figures(*all_of([trial(tmp_path, "b", workloads=("check",))])) == {}


def test_figures_of_one_trial_are_of_the_fastest_arm_whatever_the_order_of_the_plan(tmp_path):
    trials = [trial(tmp_path, arm, workloads=("switches", "phases")) for arm in ("period-100us", "fast")]
    figures = ANALYSIS.figures(*all_of(trials))
    assert [axes.get_title() for axes in figures["timeline"].axes] == [
        "phases, arm fast, trial 0",
        "switches, arm fast, trial 0",
    ]
    assert "arm fast, trial 0" in figures["rates"].axes[0].get_title()


def test_summaries_of_what_there_is(tmp_path):
    shown = ANALYSIS.summary(*all_of([trial(tmp_path)]), [])
    assert {"Observer, workload trust", "Switches against sched_switch", "Counters not used"} <= shown.keys()
    assert all(len(table) for table in shown.values())


def test_the_timeline_and_the_profiles_for_viewers(tmp_path):
    tables, metrics = all_of([trial(tmp_path)])
    line = ANALYSIS.timeline(tables, metrics)
    assert line is not None
    assert (line["start_s"] >= 0).all()
    assert (line["duration_s"] >= 0).all()
    seen = line[line["process"].str.endswith("pattern") & (line["track"] == "seen by the observer")]
    assert set(seen["name"]) == {"idle", "one 70"}
    for _, track in line.groupby(["process", "track"]):
        ends = track["start_s"] + track["duration_s"]
        assert (track["start_s"].to_numpy()[1:] >= ends.to_numpy()[:-1] - 1e-12).all()
    stacks = ANALYSIS.profiles(tables, metrics).set_index(["profile", "stack"])["weight"]
    assert stacks["period-10us, phases/observer: time", "CPU;one 70"] == pytest.approx(5e6)
    assert ("period-10us, phases/observer: time", "CPU;(switching)") in stacks
    assert stacks["period-10us, phases/observer: instructions", "CPU;one 70"] == 10_000_000


@pytest.mark.parametrize(
    ("program", "said", "why"),
    [
        ("observer", {"trusted": 1}, "1 windows trusted and 10 not, of 1000"),
        ("timer", {"samples_per_s": 40_000.0}, "samples_per_s is 40000, and its samples and seconds say 4000"),
        ("counter", {"known_error": 0.5}, "known_error is 0.5, and its counts say 1.555e-05"),
    ],
)
def test_what_a_program_says_must_follow_from_its_own_counts(tmp_path, program, said, why):
    one = trial(tmp_path, workloads=("trust", "timer"))
    if program == "timer":
        put(one.path / "timer", "timer.json", TIMER | said)
    elif program == "observer":
        files.shim(one.path / "trust", "clean", **said)
    else:
        files.shim(one.path / "trust", "clean", signals=[files.INSTRUCTIONS | said])
    assert why in " ".join(ANALYSIS.tables([one])["problems"]["reason"])
