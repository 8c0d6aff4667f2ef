# SPDX-License-Identifier: MIT
"""A guest of arm64: it boots, is restored and repeats every bit; its oracle and its PMU count work that is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from harness.artefacts.holdings import holdings
from harness.artefacts.store import Store, hash_tree
from harness.experiment.model import load_experiment
from harness.kernel.build import kernel_is_built
from harness.kernel.load import load_kernel
from harness.measure.analysis import Analysis
from harness.measure.symbols import SymbolMap, read_system_map
from harness.oracle.reader import LAP, Oracle
from harness.paths import EXPERIMENTS
from harness.run.executor import run_trials
from harness.run.prepared import prepare_trials
from harness.trial.model import TrialRecord
from harness.trial.plan import PlannedTrial, trial_seed
from tests.guest.test_oracle import ACCESSES, LOOP, PAGES, PLACE, SEED, bits, expected_pages
from tests.trials import made_experiment, run_arms

#: Long enough for its kernel.
pytestmark = [pytest.mark.deep, pytest.mark.timeout(5400), pytest.mark.usefixtures("kernel")]
KERNEL = "modern-6.1-arm64"


def is_built(store: Store) -> bool:
    """Whether the kernel is in the store. To tell takes the cross compiler: not asked where there never was one."""
    names = {holding.name for holding in holdings(store) if holding.kind == "kernel"}
    return KERNEL in names and kernel_is_built(store, load_kernel(KERNEL))


@pytest.fixture(scope="module")
def kernel(request: pytest.FixtureRequest) -> None:
    """No other test needs this kernel, and it takes seven minutes, for which a cold `./inv test` has no room."""
    if not (request.config.getoption("--build-kernels") or is_built(Store.default())):
        pytest.skip(f"its kernel is not built: ./inv build --kernel {KERNEL}, or ./inv test --faults --deep")


def run(target: Path, arms: dict[str, tuple[str, dict[str, object]]]) -> tuple[dict[str, TrialRecord], SymbolMap]:
    """Trials of arms, each with one command, and the kernel's symbols. Arms with one command have one workload."""
    named = {command: f"work-{i}" for i, command in enumerate(dict.fromkeys(command for command, _ in arms.values()))}
    (target / "experiment").mkdir(parents=True)
    whole = {
        name: {"kernel": KERNEL, "clock": "virtual", "workloads": [named[command]]} | arm
        for name, (command, arm) in arms.items()
    }
    experiment = made_experiment({name: command for command, name in named.items()}, whole)
    made = run_arms(experiment, target / "experiment", target / "out")
    return made, read_system_map(next(iter(made.values())).system_map)


def stdout(record: TrialRecord) -> str:
    (path,) = record.path.glob("work-*/stdout")
    return path.read_text()


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> tuple[dict[str, TrialRecord], SymbolMap]:
    """Known work under the virtual clock, by oracle."""
    loop, pages = f"krepro-known loop {LOOP}", f"krepro-known pages {SEED} {ACCESSES} pair"
    every = ("krepro-known loop 1000000; cat /proc/interrupts; date +%N", {"oracle": ["functions", "pages", "sampler"]})
    return run(
        tmp_path_factory.mktemp("arm64"),
        {
            "loop": (loop, {"oracle": ["functions"]}),
            "pages": (pages, {"oracle": ["pages"]}),
            "counters": (f"krepro-counter {LOOP // 2}", {"devices": ["counters"], "oracle": ["counters"]}),
            "plain": (every[0], {}),
            "every": every,
            "again": every,
            "counter": ("krepro-pmu", {"icount_shift": 0}),
        },
    )


def test_a_loop_is_counted_by_the_oracles_functions(known):
    records, names = known
    table = Oracle(records["loop"].path).functions(names, kind=LAP)
    counted = int(table.loc[table["context"] == "user", "instructions"].sum())
    assert abs(counted - LOOP) <= LOOP * 1e-4


def test_contexts_hold_what_must_be_in_them(known):
    records, names = known
    oracle = Oracle(records["loop"].path)
    table = oracle.functions(names)
    where = table.pivot_table(index="function", columns="context", values="instructions", aggfunc="sum", fill_value=0)
    in_them = {
        "gic_handle_irq": "interrupt",
        "el0_svc": "task",
        "do_mem_abort": "exception",
        "handle_softirqs": "softirq",
    }
    for function, context in in_them.items():
        assert where.loc[function].sum() == where.loc[function, context] > 0, function
    assert oracle.report.functions is not None
    assert oracle.report.functions.lost_frames == 0


def test_the_page_sequence_is_identical_and_another_process_is_left_out(known):
    runs = Oracle(known[0]["pages"].path).pages().runs()
    mine = runs[(runs["page"] >= PLACE) & (runs["page"] < PLACE + PAGES)]
    assert not mine["kernel"].any()
    pages, writes = expected_pages(SEED, ACCESSES)
    assert int(mine["count"].sum()) == ACCESSES
    assert np.array_equal(np.repeat(mine["page"].to_numpy().astype(np.int64) - PLACE, mine["count"]), pages)
    assert np.array_equal(np.repeat(mine["write"].to_numpy(), mine["count"]), writes)


def test_a_guest_reads_the_oracles_counter(known):
    said = json.loads(stdout(known[0]["counters"]))
    (counted,) = np.subtract(said["after"], said["before"])
    assert LOOP <= counted <= 1.01 * LOOP


def test_attaching_changes_no_bit_and_every_bit_repeats(known):
    plain, every, again = (known[0][name] for name in ("plain", "every", "again"))
    for record in (every, again):
        assert bits(record) == bits(plain)
    assert hash_tree(every.path / "oracle") == hash_tree(again.path / "oracle")


def test_the_pmu_counts_known_work(known):
    record = known[0]["counter"]
    assert record.pmu is not None
    assert record.pmu.startswith("ok: 20000")
    assert record.fidelity == "virtual+pmu"
    assert stdout(record).startswith("ok: 20000")


def test_two_cpus_and_ssh(tmp_path):
    arms: dict[str, tuple[str, dict[str, object]]] = {
        "ssh": ("uname -m; grep -c ^processor /proc/cpuinfo; krepro-pmu", {"clock": "wall", "cpus": 2}),
        "mailbox": ("nproc", {"clock": "wall", "session": "mailbox", "cpus": 2, "oracle": ["counters"],
                              "devices": ["counters"]}),
    }  # fmt: skip
    records, _ = run(tmp_path, arms)
    said = stdout(records["ssh"])
    assert said.startswith("aarch64\n2\nabsent: ")
    assert records["ssh"].fidelity == records["mailbox"].fidelity == "emulated"
    assert stdout(records["mailbox"]) == "2\n"
    assert Oracle(records["mailbox"].path).report.absent("counters") is None


# -- shim: the counters that the slot publishes ----------------------------------------------------------------


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> pd.DataFrame:
    """Metrics of shim's arms of arm64, a column an arm."""
    target, folder = tmp_path_factory.mktemp("counted"), EXPERIMENTS / "shim"
    experiment = load_experiment(folder)
    plan = [PlannedTrial(arm, 0, trial_seed(1, k)) for k, arm in enumerate(("arm64", "arm64-tracepoint"))]
    prepared = prepare_trials(Store.default(), experiment, folder, plan, target, "tcg")
    records = [record.relocated(target) for record in run_trials(prepared.trials)]
    assert [(record.status, record.reason) for record in records] == [("ok", None)] * 2
    analysis = Analysis(folder)
    metrics = analysis.metrics(analysis.tables(records))
    return metrics.pivot_table(index="metric", columns="arm", values="value", dropna=False)


ARMS = pytest.mark.parametrize("arm", ["arm64", "arm64-tracepoint"])


@ARMS
def test_the_slot_is_the_running_threads(counted, arm):
    assert counted.loc["slot_wrong", arm] == 0


@ARMS
def test_a_published_counter_counts_a_known_loop_of_the_observed_thread(counted, arm):
    assert counted.loc["pmu_published_error", arm] <= 0.001


@ARMS
def test_a_published_counter_of_an_idle_cpu_stands_nearly_still(counted, arm):
    assert counted.loc["pmu_idle_share", arm] <= 0.001


@ARMS
def test_an_event_of_the_observers_own_thread_is_refused(counted, arm):
    assert counted.loc["pmu_own_refused", arm] == 1


@ARMS
def test_a_published_counter_that_had_to_share_is_refused(counted, arm):
    assert counted.loc["pmu_crowded_refused", arm] == 1
