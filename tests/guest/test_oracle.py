# SPDX-License-Identifier: MIT
"""The oracle against work whose answer is known: every bit, every instruction, every page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from experiments.irq_hotspot.profile.buffer import decode

from harness.artefacts.store import Store, hash_tree
from harness.experiment.model import load_experiment
from harness.measure.symbols import SymbolMap, read_system_map
from harness.oracle.reader import LAP, Oracle
from harness.oracle.truth import agreement, kernel_truth
from harness.paths import EXPERIMENTS
from harness.run.executor import run_trials
from harness.run.prepared import prepare_trials
from harness.trial.model import TrialRecord
from harness.trial.plan import PlannedTrial, trial_seed
from tests.trials import made_experiment, run_arms

pytestmark = pytest.mark.timeout(1800)

PLACE = 0x20000000 >> 12
PAGES = 64
ACCESSES = 200_000
LOOP = 10_000_000
SEED = 7


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., dict[str, TrialRecord]]:
    """Trials of one workload, one per arm, with absolute paths; arms differ in their oracle."""

    def go(command: str, arms: dict[str, dict[str, object]], seed: int = 5) -> dict[str, TrialRecord]:
        folder = tmp_path / "experiment"
        folder.mkdir(exist_ok=True)
        whole = {name: {"kernel": "classic", "clock": "virtual"} | arm for name, arm in arms.items()}
        return run_arms(made_experiment({"work": command}, whole), folder, tmp_path / "out", seed)

    return go


def symbols(record: TrialRecord) -> SymbolMap:
    return read_system_map(record.system_map)


def bits(record: TrialRecord) -> dict[str, str]:
    return {
        name: value
        for name, value in hash_tree(record.path).items()
        if name != "qmp-events.json" and not name.startswith("oracle/")
    }


def expected_pages(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The program's own sequence, worked out here: pages and whether they were written."""
    x, mask = seed, 0xFFFFFFFF
    pages, writes = np.empty(n, dtype=np.int64), np.empty(n, dtype=bool)
    for i in range(n):
        pages[i], writes[i] = x >> 8 & PAGES - 1, bool(x >> 20 & 1)
        x ^= x << 13 & mask
        x ^= x >> 17
        x ^= x << 5 & mask
    return pages, writes


def test_attaching_changes_no_bit_and_the_oracle_itself_repeats_every_bit(run):
    every = {"oracle": ["functions", "pages", "sampler", "locks"], "oracle_locks": ["mutex_lock"]}
    arms = {"plain": {}, "functions": {"oracle": ["functions"]}, "every": every, "again": every}
    records = run(
        f"krepro-known loop 1000000; krepro-known pages {SEED} 20000 pair; cat /proc/interrupts; date +%N", arms
    )
    expected = bits(records["plain"])
    assert {"work/stdout", "console.log", "dmesg"} <= expected.keys()
    for name in ("functions", "every", "again"):
        assert bits(records[name]) == expected, name
    mine, again = (hash_tree(records[name].path / "oracle") for name in ("every", "again"))
    assert "oracle.json" in mine
    assert mine == again


def test_a_loop_of_ten_million_instructions_is_counted_within_a_ten_thousandth(run):
    record = run(f"krepro-known loop {LOOP}", {"a": {"oracle": ["functions"]}})["a"]
    table = Oracle(record.path).functions(symbols(record), kind=LAP)
    counted = int(table.loc[table["context"] == "user", "instructions"].sum())
    print(f"loop of {LOOP}: counted {counted}")
    assert abs(counted - LOOP) <= LOOP * 1e-4


@pytest.mark.parametrize("company", ["alone", "pair"])
def test_the_page_sequence_is_identical_and_another_process_is_left_out(run, company):
    record = run(f"krepro-known pages {SEED} {ACCESSES} {company}", {"a": {"oracle": ["pages"]}})["a"]
    runs = Oracle(record.path).pages().runs()
    mine = runs[(runs["page"] >= PLACE) & (runs["page"] < PLACE + PAGES)]
    assert not mine["kernel"].any()
    pages, writes = expected_pages(SEED, ACCESSES)
    assert int(mine["count"].sum()) == ACCESSES
    assert np.array_equal(np.repeat(mine["page"].to_numpy().astype(np.int64) - PLACE, mine["count"]), pages)
    assert np.array_equal(np.repeat(mine["write"].to_numpy(), mine["count"]), writes)
    assert (np.diff(runs["ns"]) >= 0).all()
    if company == "pair":  # the other one ran in between: virtual time passed that this one did not use
        assert np.diff(runs["ns"]).max() > 1e6


@pytest.mark.parametrize("kernel", ["classic", "modern-6.1", pytest.param("modern-7.3", marks=pytest.mark.deep)])
def test_lock_calls_by_lock_and_site_add_up_to_the_entries(run, kernel):
    arm = {"kernel": kernel, "oracle": ["locks", "functions"], "oracle_locks": ["mutex_lock", "mutex_unlock"]}
    reads = "exec 3</proc/version 4</proc/devices; read -r a <&3; read -r b <&4; echo ${#a} ${#b}"
    record = run(reads, {"a": arm})["a"]
    oracle, names = Oracle(record.path), symbols(record)
    table = oracle.locks(names)
    report = oracle.report.locks
    assert report is not None
    assert (report.told, report.untold, report.calls >= len(table)) == (table["count"].sum(), 0, True)
    counted = oracle.functions(names).groupby("function")["entries"].sum()
    assert counted["mutex_lock"] > 97
    for name, count in table.groupby("target")["count"].sum().items():
        assert count == counted[name]
    # The shell reads byte by byte, and each read() of a seq_file takes the mutex that the open file has of its own.
    lengths = {int(word) + 1 for word in (record.path / "work/stdout").read_text().split()}
    by_lock = table[table["caller"] == "seq_read_iter"].groupby(["lock", "target"])["count"].sum().unstack()
    assert lengths <= set(by_lock["mutex_lock"])
    assert (by_lock["mutex_lock"] == by_lock["mutex_unlock"]).all()


def test_a_mode_that_cannot_be_is_absent_with_the_reason(run):
    record = run("true", {"a": {"clock": "wall", "oracle": ["functions", "sampler"]}})["a"]
    report = Oracle(record.path).report
    assert report.absent("functions") is None
    assert "virtual clock" in str(report.absent("sampler"))
    assert "did not run" in str(report.absent("pages"))


def test_every_nmi_sent_reaches_the_guest_and_its_time_is_told_apart(run):
    record = run(f"krepro-known loop {LOOP}", {"a": {"oracle": ["nmi", "functions"]}})["a"]
    oracle = Oracle(record.path)
    table = oracle.functions(symbols(record))
    entries = table[table["function"] == "asm_exc_nmi"]
    assert set(entries["context"]) == {"nmi"}
    assert oracle.report.nmi is not None
    assert oracle.report.nmi.refused == 0
    assert oracle.report.nmi.sent > 100
    assert oracle.report.nmi.sent - int(entries["entries"].sum()) in (0, 1)  # the last one may come after the end


def test_a_guest_can_read_how_many_instructions_it_executed(run):
    arm = {"devices": ["counters"], "oracle": ["counters"]}
    record = run(f"krepro-counter {LOOP // 2}", {"a": arm})["a"]
    report = Oracle(record.path).report
    assert report.absent("counters") is None
    said = json.loads((record.path / "work/stdout").read_text())
    (counted,) = np.subtract(said["after"], said["before"])
    print(f"loop of {LOOP}: the guest read {counted}")
    assert LOOP <= counted <= 1.01 * LOOP  # with eight interrupts of the timer
    assert report.counters is not None
    assert report.counters.instructions[0] >= said["after"][0]


def test_a_guest_without_counters_is_told_why(run):
    command = "krepro-counter; echo $?"
    records = run(f"{command} 2>&1", {"none": {}, "silent": {"devices": ["counters"]}})
    assert "no device" in (records["none"].path / "work/stderr").read_text()
    assert "nobody publishes" in (records["silent"].path / "work/stderr").read_text()


@pytest.mark.deep
def test_any_cpu_can_read_the_counter_of_another(run):
    arm = {"kernel": "modern-6.1", "clock": "wall", "cpus": 2, "devices": ["counters"], "oracle": ["counters"]}
    loop = f"taskset 1 krepro-counter {LOOP} & taskset 2 krepro-counter {LOOP}; wait"
    record = run(loop, {"a": arm})["a"]
    assert Oracle(record.path).report.absent("counters") is None
    said = [json.loads(line) for line in (record.path / "work/stdout").read_text().splitlines()]
    assert sorted(answer["cpu"] for answer in said) == [0, 1]
    for answer in said:
        counted = np.subtract(answer["after"], answer["before"])
        print(answer["cpu"], counted)
        assert 2 * LOOP <= counted[answer["cpu"]] <= 1.05 * 2 * LOOP
        assert counted[1 - answer["cpu"]] > 0


# -- the controlled interrupt handler: contexts, and what profilers make of it ------------------------------


@pytest.fixture(scope="module")
def hot(tmp_path_factory) -> list[tuple[TrialRecord, SymbolMap]]:
    """Ten seeds of a load whose handler takes a third of the time."""
    folder, target = EXPERIMENTS / "irq-hotspot", tmp_path_factory.mktemp("hot")
    experiment = load_experiment(folder)
    arm = experiment.arms["tick"].model_copy(update={"oracle": ["functions", "sampler"], "workloads": ["edu"]})
    experiment = experiment.model_copy(update={"arms": {**experiment.arms, "tick": arm}})
    plan = [PlannedTrial("tick", k, trial_seed(1, k)) for k in range(10)]
    store = Store.default()
    prepared = prepare_trials(store, experiment, folder, plan, target, "tcg")
    records = run_trials(prepared.trials)
    names = read_system_map(prepared.builds["classic"].kernel.file("System.map"))
    assert [record.status for record in records] == ["ok"] * 10
    return [(record.relocated(target), names) for record in records]


@pytest.mark.deep
def test_contexts_hold_what_must_be_in_them(hot):
    record, names = hot[0]
    table = Oracle(record.path).functions(names)
    where = table.pivot_table(index="function", columns="context", values="instructions", aggfunc="sum", fill_value=0)
    entries = table.pivot_table(index="function", columns="context", values="entries", aggfunc="sum", fill_value=0)
    for function in ("krepro_edu_irq", "krepro_edu_work", "__handle_irq_event_percpu", "timer_interrupt"):
        assert where.loc[function, "interrupt"] > 0
        assert where.loc[function].sum() == where.loc[function, "interrupt"], function
    for function in ("krepro_edu_raise", "krepro_edu_task_work", "do_sys_openat2", "vfs_write"):
        assert where.loc[function].sum() == where.loc[function, "task"], function
    assert where.loc["run_timer_softirq"].sum() == where.loc["run_timer_softirq", "softirq"]
    assert where.loc["exc_page_fault"].sum() == where.loc["exc_page_fault", "exception"]
    answer = json.loads((record.path / "edu/stdout").read_text())
    assert entries.loc["krepro_edu_irq", "interrupt"] == answer["handled"]
    # It begins with its own loop: two instructions a round, and one that returns. Half of those timed had no loop.
    calls = answer["handled"] - answer["calibration_raises"] // 2
    assert entries.loc["krepro_edu_work", "interrupt"] == calls
    assert where.loc["krepro_edu_work", "interrupt"] == calls * (2 * answer["handler_loops"] + 1)


@pytest.mark.deep
def test_the_sampler_agrees_with_the_counts_and_the_tick_does_not(hot):
    fair: list[float] = []
    ticked: Counter[str] = Counter()
    true: Counter[str] = Counter()
    for record, names in hot:
        oracle = Oracle(record.path)
        counts = oracle.functions(names).groupby("function")["instructions"].sum()
        samples = oracle.samples(names)
        samples = samples[samples["region"] == 0]  # as the counts are; the collector's window is longer
        assert not samples["interrupts"].all(), "it sees code with interrupts off"
        seen = samples[~samples["idle"]]["function"].value_counts().reindex(counts.index).fillna(0)
        fair.append(agreement(counts, seen))
        truth = kernel_truth(oracle, names, 0)
        true.update(truth["instructions"].to_dict())
        profile = decode((record.path / "edu/profile").read_bytes(), names)
        ticked.update(dict(zip(names.name.tolist(), profile.ticks.tolist(), strict=True)))
    # A trial has some tens of ticks in the kernel: those of all seeds together.
    tick = agreement(list(true.values()), [ticked[name] for name in true])
    print(f"sampler p: {np.round(fair, 3)}, tick p: {tick:.1e} of {sum(ticked.values())} ticks")
    assert sum(p > 0.01 for p in fair) >= 9
    assert tick < 1e-6


# -- what it costs ----------------------------------------------------------------------------------------
