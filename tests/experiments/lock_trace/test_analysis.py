# SPDX-License-Identifier: MIT
"""lock-trace's analysis on made-up raw folders: tables, metrics with their reasons, the contention table, figures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from experiments.lock_trace.decoding import PAIR_KINDS, PROBED
from experiments.lock_trace.locks.acquisitions import acquisitions, by_key, failures
from experiments.lock_trace.locks.events import (
    ACQUIRED,
    ALL,
    ATTEMPT,
    PER_LOCK,
    RELEASE,
    SPIN,
    STREAM_PAPER,
    STREAM_PER_LOCK,
    VALIDATE,
    WAITS,
)
from experiments.lock_trace.locks.replay import paper_filter, per_lock_filter

from harness.measure.analysis import Analysis
from harness.paths import EXPERIMENTS
from harness.report.figures import figure_style, write_figures
from harness.trial.model import TrialRecord
from tests.experiments.lock_trace.test_locks import MAP
from tests.lock_traces import LOCKS, SITE, Made, encode, per_lock_expected, write_events
from tests.oracle_files import write_oracle
from tests.records import trial_record

ANALYSIS = Analysis(EXPERIMENTS / "lock-trace")
ARMS = {"all": ALL, "per-lock": PER_LOCK, "validate": VALIDATE}
LAP = (900, 1_000_000)


def threads() -> list[Made]:
    """Thread 0 alone, twice; then thread 1 has to wait for thread 0."""
    kinds = [(ATTEMPT, 0, 1), (ACQUIRED, 0, 1), (RELEASE, 0, 1), (ATTEMPT, 0, 2), (ACQUIRED, 0, 2), (RELEASE, 0, 2)]
    kinds += [(ATTEMPT, 0, 3), (ACQUIRED, 0, 3), (ATTEMPT, 1, 4), (WAITS, 1, 4)]
    kinds += [(RELEASE, 0, 3), (ACQUIRED, 1, 4), (RELEASE, 1, 4)]
    return [Made(0, kind, SPIN, thread, number) for kind, thread, number in kinds]


def put_trace(folder: Path, arm: int, *, lost: int = 0) -> None:
    made = threads()
    expected = per_lock_expected(made)
    log = encode(made, expected.conflict, expected.depth)
    streams = {"log": log}
    for name, stream, found in (
        ("per-lock", STREAM_PER_LOCK, per_lock_filter(log)),
        ("paper", STREAM_PAPER, paper_filter(log)),
    ):
        streams[name] = log[found.kept].copy()
        streams[name]["stream"] = stream
    mine = {ALL: ["log"], PER_LOCK: ["per-lock"], VALIDATE: ["log", "per-lock", "paper"]}[arm]
    events = np.concatenate([streams[name] for name in mine])
    said: dict[str, Any] = {"events": len(log), "kinds": np.bincount(log["kind"], minlength=8).tolist()}
    if arm == PER_LOCK:
        said |= {"dropped": [0, len(log) - len(events), 0]}
    if lost:
        kept = [len(events) + lost, 0, 0]
        said |= {"lost": [lost, 0, 0], "kept": kept, "first_loss": 1500, "events": len(log) + lost, "ring_order": 3}
        said["kinds"][1] += lost
    sums = by_key(acquisitions(log), failures(log), ["lock", "type", "site"]).fillna(0)
    lines = ["lock\ttype\tsite\tsymbol\tacquisitions\tcontended\tfailed\tabandoned\tkept\twait_total"]
    if arm != ALL:
        for row in sums.to_dict("records"):
            # Who had to wait did so for 30; it is on another CPU than the rest, as all are.
            names = [row["lock"], row["type"], hex(row["site"]), "x", row["acquisitions"], row["contended"]]
            lines.append("\t".join(map(str, [*names, 0, 0, 1, 30 * row["contended"]])))
    said |= {"locks": int(arm != ALL), "sites": len(lines) - 1}
    write_events(folder, events, arm=arm, **said)
    (folder / "sites.tsv").write_text("\n".join(lines) + "\n")
    locks = "entry\taddress\tgeneration\tkind\tname\toffset\tinit_site\n"
    row = f"1\t{LOCKS[0]:#x}\t0\tslab\tfilp\t72\t-\n"
    (folder / "locks.tsv").write_text(locks + (row if arm != ALL else ""))
    header = "time\tevents\tkept\tdropped\twritten\tlost\tdrained\n"
    (folder / "fill.tsv").write_text(
        header + "1000\t4\t4\t0\t4\t0\t0\n1500\t12\t12\t0\t9\t3\t0\n2000\t12\t12\t0\t9\t3\t9\n"
    )


KNOWN = (
    "name\taddress\ttype\tattempts\tacquired\ttried\treleased\tfailed\tabandoned\tconflicts\tconflicts_most\tdepth"
    "\tinits\torphans\n"
)


def put_workload(folder: Path, workload: str, trace: str, seconds: float) -> None:
    folder.mkdir(parents=True)
    program = "load" if workload == "load" else "forkstorm"
    (folder / "stdout").write_text(
        json.dumps({"workload": program, "operations": 4, "elapsed_ns": int(seconds * 1e9)}) + "\n"
    )
    if workload == "load":
        pairs = "\t".join(("none", *PAIR_KINDS)) + "\n"
        pairs += "".join(f"25\t{cost}" + "\t50" * 6 + "\n" for cost in (100, 120, 125, 900))
        (folder / "pairs.tsv").write_text(pairs)
        (folder / "known.tsv").write_text(KNOWN + f"own.0\t{LOCKS[0]:#x}\tspin\t4\t4\t0\t4\t0\t0\t1\t1\t1\t0\t0\n")
        (folder / "lap.tsv").write_text(f"lap\tbegin\tend\n0\t{LAP[0]}\t{LAP[1]}\n")
    if trace not in ("off", "kprobes"):
        put_trace(folder, ARMS[trace], lost=3 if workload == "buffer" and trace == "all" else 0)


def trial(root: Path, arm: str, trace: object, seconds: float) -> TrialRecord:
    made = trial_record(arm, root=root, kernel="bare", params={"trace": trace}, workloads=("load", "buffer"))
    (root / "System.map").write_text(MAP)
    for workload in made.workloads:
        put_workload(made.path / workload, workload, "off" if trace in ("off", False) else str(trace), seconds)
    (made.path / "kallsyms").write_text("")
    return made


def trials_in(root: Path) -> list[TrialRecord]:
    """An arm without a trace, and one of each kind that the analysis treats in a way of its own."""
    arms = [("bare", False, 1.0), ("all", "all", 1.5), ("per-lock", "per-lock", 2.0), ("validate", "validate", 4.0)]
    made = [trial(root, arm, trace, seconds) for arm, trace, seconds in arms]
    # Entries of the lock's function in the one lap: as many as attempts.
    calls = [(0, 2, 0xFFFFFFFF81000100, SITE, 4, LOCKS[0])]
    for one in made[1::2]:
        write_oracle(one.path, [{}], locks=calls, modes={"locks": None}, marks={"laps": 1})
    (root / "System.map").write_text(MAP.replace("vfs_read", "_raw_spin_lock"))
    return made


@pytest.fixture
def trials(tmp_path) -> list[TrialRecord]:
    return trials_in(tmp_path)


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, pd.DataFrame]:
    return ANALYSIS.tables(trials_in(tmp_path_factory.mktemp("trials")))


def values(tables) -> dict[tuple[str, str], float]:
    found = ANALYSIS.metrics(tables)
    return {(row["arm"], row["metric"]): row["value"] for row in found.to_dict("records")}


def reasons(tables) -> dict[tuple[str, str], str]:
    found = ANALYSIS.metrics(tables)
    return {(row["arm"], row["metric"]): row["reason"] for row in found.dropna(subset=["reason"]).to_dict("records")}


def test_metrics_of_traces(tables):
    metrics = values(tables)
    assert tables["problems"].empty
    for arm in ("all", "per-lock", "validate"):
        for name in ("unbalanced", "wrong_sums", "nested", "lost"):
            assert metrics[arm, name] == 0, (arm, name)
    assert metrics["all", "lost.buffer"] == 3
    assert metrics["per-lock", "useful.load"] == 7 / 13
    assert metrics["per-lock", "slowdown.load"] == 2
    # Rings of 32 events, of which 16 were kept in 1.5 s.
    assert metrics["all", "full_s.buffer"] == pytest.approx(3)
    assert "bare" not in {arm for arm, name in metrics if not name.startswith("pair")}


def test_what_is_absent_says_why(tables):
    why = reasons(tables)
    assert why["per-lock", "full_s.buffer"] == "no ring was full"
    assert why["per-lock", "buffer_ratio.buffer"] == "no ring was full"
    assert why["all", "oracle_difference.buffer"] == "the log is not whole"


def test_filters_sites_and_known_counts_agree(tables):
    metrics = values(tables)
    for metric in ("missing.per-lock", "extra.paper", "different.per-lock", "sites_different", "oracle_difference"):
        assert metrics["validate", metric] == 0, metric
    assert metrics["validate", "selected.per-lock"] == 14
    for name in ("dropped_waits", "dropped_holders", "idle", "idle_share"):
        for which in ("per-lock", "paper", "counter"):
            assert metrics["validate", f"{name}.{which}"] == 0, (name, which)
    assert metrics["all", "oracle_calls"] == 4
    for arm in ("all", "per-lock", "validate"):
        assert metrics[arm, "known_difference"] == 0
        assert metrics[arm, "known_counts"] > 2


def test_what_paper_says_is_compared_and_a_ring_that_fills_is_told_in_work(tmp_path, trials):
    for one in (trials[1], trials[3]):
        (one.path / "load").rename(one.path / "chain")
    chain = [one.model_copy(update={"workloads": ("chain",)}) for one in (trials[3],)]
    tables = ANALYSIS.tables([*trials[1:2], *chain])
    # Of four operations of a chain sixteen waits on paper, and twenty acquisitions; the trace has one wait of two.
    told = tables["by_hand"][["by_hand", "traced", "difference"]].to_numpy().tolist()
    assert told == [[16, 1, 15], [20, 2, 18]]
    metrics = values(tables)
    assert metrics["validate", "hand_difference"] == 33
    # Rings of 32 events, of which 16 were kept in 4 operations.
    assert metrics["all", "full_work.buffer"] == 8
    assert reasons(tables)["all", "gigabyte_s.buffer"].startswith("an emulated CPU")


def test_what_a_filter_adds_to_a_bare_pair_is_told_beside_what_no_filter_adds(tables):
    metrics = values(tables)
    assert metrics["per-lock", "overhead_of_all.spin"] is not None
    assert np.isnan(metrics["per-lock", "overhead_of_all.spin"])  # both add nothing here


def test_another_count_is_seen(tmp_path, trials):
    calls = [(0, 2, 0xFFFFFFFF81000100, SITE, 5, LOCKS[0])]
    write_oracle(trials[1].path, [{}], locks=calls, modes={"locks": None}, marks={"laps": 1})
    known = trials[3].path / "load/known.tsv"
    known.write_text(known.read_text().replace("spin\t4\t4", "spin\t6\t4"))
    tables = ANALYSIS.tables(trials)
    assert values(tables)["all", "oracle_difference"] == 1
    assert values(tables)["validate", "known_difference"] == 2
    assert tables["oracle_locks"][["calls", "traced"]].to_numpy().tolist() == [[5, 4]]


def test_a_lap_that_left_no_times_is_a_reason(trials):
    (trials[1].path / "load/lap.tsv").unlink()
    tables = ANALYSIS.tables(trials)
    assert reasons(tables)["all", "oracle_difference"].startswith("not every lap")


def test_a_damaged_trace_is_a_problem_of_its_run_alone(trials):
    path = trials[2].path / "load/events.bin"
    path.write_bytes(path.read_bytes()[:-3])
    tables = ANALYSIS.tables(trials)
    problem = reasons(tables)["per-lock", "unbalanced.load"]
    assert "is cut short" in problem
    assert str(trials[2].path.parent.parent) not in problem
    assert values(tables)["validate", "unbalanced.load"] == 0


def test_pairs_cost_what_is_left_without_the_readings(tables):
    metrics = values(tables)
    assert metrics["all", "pair.spin"] == 122.5 - 25
    assert metrics["all", "pair_mean100.spin"] == np.mean([100, 120, 125, 900])
    assert metrics["per-lock", "pair_of_all.spin"] == 1
    assert metrics["per-lock", "pair_of_off.spin"] == 1


PROFILE = """\
  attempt_raw_spin_lock                                   10        2
  acquired_raw_spin_lock                                  12        1
""" + "".join(f"  {probe} 0 0\n" for probe in PROBED[2:])


@pytest.fixture
def probed(tmp_path, trials) -> list[TrialRecord]:
    made = trial(tmp_path, "kprobes", "kprobes", 3.0)
    for workload in made.workloads:
        (made.path / workload / "kprobe_profile").write_text(PROFILE)
    return [*trials, made]


def test_what_kprobes_trace_has_their_costs_and_misses(probed):
    tables = ANALYSIS.tables(probed)
    rows = tables["probes"][["workload", "probe", "hits", "missed"]].to_numpy().tolist()
    assert rows[:2] == [["load", "attempt_raw_spin_lock", 10, 2], ["load", "acquired_raw_spin_lock", 12, 1]]
    metrics = values(tables)
    assert metrics["kprobes", "missed.load"] == 3
    assert metrics["kprobes", "missed"] == 6
    assert metrics["kprobes", "slowdown.load"] == 3
    assert metrics["kprobes", "pair_of_all.spin_irqsave"] == 1
    # They are on spin locks alone, and they are no trace of ours.
    assert {name for arm, name in metrics if arm == "kprobes" and name.startswith("pair.")} == {
        "pair.spin",
        "pair.spin_irqsave",
    }
    assert ("kprobes", "unbalanced") not in metrics


def test_rows_of_kprobes_that_are_none_are_a_reason(probed):
    (probed[-1].path / "load/kprobe_profile").write_text("attempt_raw_spin_lock 10\n")
    assert "rows that are not a probe" in reasons(ANALYSIS.tables(probed))["kprobes", "missed.load"]


@pytest.mark.parametrize("kept", [1, len(PROBED) - 1])
def test_a_file_of_kprobes_that_is_cut_at_a_lines_end_is_a_reason(probed, kept):
    path = probed[-1].path / "load/kprobe_profile"
    path.write_text("".join(PROFILE.splitlines(keepends=True)[:kept]))
    assert "probes that are not the 10" in reasons(ANALYSIS.tables(probed))["kprobes", "missed.load"]


def test_the_probes_are_those_that_the_guest_makes():
    script = (EXPERIMENTS / "lock-trace/guest/traced.sh").read_text()
    words = [re.search(r"for \w+ in (_raw_spin_" + lock + r".*); do", script)[1].split() for lock in ("lock", "unlock")]
    locks = [f"{what}{lock}" for lock in words[0] for what in ("attempt", "acquired")]
    assert [*locks, *(f"release{unlock}" for unlock in words[1])] == list(PROBED)


def test_the_contention_table_looks_as_perf_prints_it(tables):
    shown = ANALYSIS.summary(tables, ANALYSIS.metrics(tables), [])
    table = shown["Lock contention, arm per-lock"]
    assert list(table.columns) == ["contended", "total wait", "max wait", "avg wait", "type", "caller"]
    # Two workloads; thread 1 waited from 1080 to 1110, at a clock of 1 GHz.
    assert table.iloc[0].tolist()[:5] == [2, "60 ns", "30 ns", "30 ns", "spinlock"]
    assert table["caller"].iloc[0] == "_raw_spin_lock+0x1"
    assert set(tables["contention"]["class"]) == {"filp+0x48", "(dynamic)"}


def test_the_timeline_has_the_block_with_its_waiter(tables):
    slices = ANALYSIS.timeline(tables, ANALYSIS.metrics(tables))
    assert slices is not None
    mine = slices[slices["process"] == "validate load"]
    assert mine["track"].tolist() == ["thread 11", "thread 11", "thread 12", "thread 12"]
    assert [name.split()[0] for name in mine["name"]] == ["waits", "holds", "waits", "holds"]
    assert mine["start_s"].tolist() == pytest.approx([0, 1e-8, 2e-8, 5e-8])


def test_figures_are_drawn_of_what_is_there(tmp_path, tables):
    with figure_style():
        drawn = ANALYSIS.figures(tables, ANALYSIS.metrics(tables))
    assert set(drawn) == {"pair-cost-virtual", "fill-virtual", "slowdown-virtual", "useful", "block"}
    assert all(path.stat().st_size > 1000 for path in write_figures(drawn, tmp_path))
    axes = drawn["pair-cost-virtual"].axes[0]
    labels = [line.get_label() for line in axes.lines]
    assert "printed in the paper, cycles" in labels
    assert drawn["block"].axes[0].get_xlabel() == "µs since the block began"
    with figure_style():
        none = {name: table.iloc[:0] for name, table in tables.items()}
        assert ANALYSIS.figures(none, ANALYSIS.metrics(none)) == {}


def test_lock_stat_beside_the_trace(tables):
    stat = {"arm": "per-lock", "trial": 0, "workload": "load", "class": "&(known_shared[i]).spin", "contentions": 5}
    other = stat | {"class": "&p->pi_lock", "contentions": 70}
    alone = stat | {"arm": "bare"}
    mine = tables | {
        "lock_stat": pd.DataFrame([stat, stat | {"contentions": 2}, other, alone]),
        "contention": tables["contention"].assign(**{"class": "known_shared+0x80"}),
    }
    contended = tables["contention"].query("arm == 'per-lock' and workload == 'load'")["contended"].sum()
    assert contended > 0
    assert values(mine)["per-lock", "lock_stat_contentions.load"] == 7
    assert values(mine)["per-lock", "lock_stat_difference.load"] == 7 - contended
    assert reasons(mine)["bare", "lock_stat_difference.load"] == "no trace ran beside"


def test_a_file_without_its_last_event_is_out_of_balance(trials):
    path = trials[3].path / "load/events.bin"
    path.write_bytes(path.read_bytes()[:-64])
    tables = ANALYSIS.tables(trials)
    metrics, why = values(tables), reasons(tables)
    assert metrics["validate", "unbalanced.load"] == metrics["validate", "unbalanced"] == 1
    assert metrics["validate", "unbalanced.buffer"] == 0
    assert "where the kernel wrote" in why["validate", "missing.per-lock.load"]
    assert why["validate", "missing.per-lock"].startswith("load: ")


def test_a_run_is_compared_with_one_of_its_kernel(tmp_path, trials):
    stock = trial(tmp_path, "unpatched", "off", 0.5).model_copy(update={"kernel": "stock"})
    metrics = values(ANALYSIS.tables([stock, *trials]))
    assert metrics["per-lock", "slowdown.load"] == 2


def test_what_the_module_counted_is_missed(trials):
    (trials[3].path / "load/known.tsv").unlink()
    why = reasons(ANALYSIS.tables(trials))
    assert why["validate", "known_difference.load"] == "validate/0/load/known.tsv: is not there"
    assert why["validate", "known_difference"].endswith("known.tsv: is not there")


def test_the_papers_pairs_stand_beside_ours(tables):
    pairs = next(iter(ANALYSIS.paper(tables, ANALYSIS.metrics(tables), []).values()))
    rows = {row["what"]: row for row in pairs.to_dict("records")}
    assert rows["no filter, 1 CPU"]["here"] == "311 instructions"
    assert rows["no filter / no profiler, 1 CPU"]["the paper"] == "3 times"
    assert rows["filter, 1 CPU"]["here"] == "—"
    assert rows["filter, 1 CPU"]["note"] == "arm paper took no part"
