# SPDX-License-Identifier: MIT
"""The oracle's reader: what the plugin's files mean, and when it refuses to say."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from harness.errors import RunError, UsageError
from harness.measure.symbols import parse_system_map
from harness.oracle.places import describe_places
from harness.oracle.reader import LAP, WINDOW, Oracle, OracleAbsent
from harness.oracle.truth import against_independent, agreement, convergence, distance, kernel_truth, nmi_cost
from tests.oracle_files import write_oracle

NAMES = (
    ("_stext", "T"),
    ("vfs_read", "T"),
    ("__switch_to", "T"),
    ("ret_from_fork", "T"),
    ("begin_new_exec", "T"),
    ("setup_new_exec", "T"),
    ("do_group_exit", "T"),
    ("exit_mmap", "T"),
    ("schedule", "T"),
    ("__entry_text_start", "T"),
    ("irq_entries_start", "T"),
    ("asm_exc_page_fault", "T"),
    ("asm_sysvec_timer", "T"),
    ("asm_exc_nmi", "T"),
    ("entry_INT80_32", "T"),
    ("__entry_text_end", "T"),
    ("__do_softirq", "T"),
    ("tail", "t"),
)
ADDRESS = {name: 0xC1000000 + 0x40 * i for i, (name, _) in enumerate(NAMES)}
TEXT = "".join(f"{ADDRESS[name]:08x} {kind} {name}\n" for name, kind in NAMES) + "c1000480 T _etext\n"
SYMBOLS = parse_system_map(TEXT)
READ, TAIL = ADDRESS["vfs_read"], ADDRESS["tail"]
REGION = {
    (0, "user"): (500, 0),
    (READ, "task"): (60, 6),
    (READ, "interrupt"): (20, 2),
    (TAIL, "interrupt"): (20, 1),
    (0, "task"): (1, 0),
}


@pytest.fixture
def trial(tmp_path):
    write_oracle(tmp_path, [REGION, {(TAIL, "task"): (7, 1)}], [(0, READ), (0, READ + 1), (0, TAIL), (1, TAIL)])
    return tmp_path


def test_functions_by_region_and_context(trial):
    table = Oracle(trial).functions(SYMBOLS)
    first = table[table["region"] == 0].set_index(["function", "context"])
    assert first.loc[("vfs_read", "interrupt"), "instructions"] == 20
    assert first.loc[("vfs_read", "task"), "entries"] == 6
    assert first.loc[("(user)", "user"), "instructions"] == 500
    assert first.loc[("(outside)", "task"), "instructions"] == 1
    assert table[table["region"] == 1]["instructions"].tolist() == [7]


@pytest.mark.parametrize("name", ["functions.bin", "samples.bin"])
def test_noise_is_refused(trial, name):
    path = trial / "oracle" / name
    path.write_bytes(np.random.default_rng(3).bytes(path.stat().st_size))
    with pytest.raises(RunError, match="none that the plugin writes"):
        kernel_truth(Oracle(trial), SYMBOLS, 0)


def test_samples_that_are_missing_are_noticed(trial):
    path = trial / "oracle" / "samples.bin"
    path.write_bytes(path.read_bytes()[:48])
    with pytest.raises(RunError, match="has 2 samples, not 4"):
        kernel_truth(Oracle(trial), SYMBOLS, 0)


def test_laps_are_told_apart_from_workloads_and_have_samples_of_their_own(tmp_path):
    laps = [{(READ, "task"): (30, 3)}, {(TAIL, "task"): (5, 1)}]
    write_oracle(tmp_path, [REGION], [(0, READ), (0, READ, 0), (0, TAIL, 1)], laps=laps)
    oracle = Oracle(tmp_path)
    assert oracle.functions(SYMBOLS, kind=LAP)[["region", "instructions"]].to_numpy().tolist() == [[0, 30], [1, 5]]
    assert oracle.functions(SYMBOLS)["instructions"].sum() == 601
    samples = oracle.samples(SYMBOLS)
    assert samples["lap"].tolist() == [-1, 0, 1]
    assert samples["region"].tolist() == [0, 0, 0]


def test_truth_leaves_user_code_out_and_has_the_samples(trial):
    truth = kernel_truth(Oracle(trial), SYMBOLS, 0)
    assert truth.loc["vfs_read"].tolist() == [80, 8, 20, 2]
    assert "(user)" not in truth.index
    assert truth["samples"].sum() == 3


def test_a_window_has_counts_and_samples_of_its_own(tmp_path):
    window = {(READ, "task"): (90, 9), (TAIL, "interrupt"): (30, 2)}
    write_oracle(tmp_path, [REGION], [(0, READ), (0, TAIL)], windows=[window])
    path = tmp_path / "oracle/samples.bin"
    words = np.fromfile(path, dtype="<u8")
    words[2] = 1 << 16  # the first sample is in the window alone
    words.tofile(path)
    oracle = Oracle(tmp_path)
    truth = kernel_truth(oracle, SYMBOLS, 0, kind=WINDOW)
    assert truth.loc["vfs_read"].tolist() == [90, 9, 0, 1]
    assert truth.loc["tail"].tolist() == [30, 2, 30, 1]
    assert kernel_truth(oracle, SYMBOLS, 0)["samples"].to_dict() == {"tail": 1, "vfs_read": 0, "(outside)": 0}
    assert oracle.samples(SYMBOLS)[["region", "window"]].to_numpy().tolist() == [[-1, 0], [0, 0]]


def test_what_runs_in_nmis_is_a_cost_and_no_truth(tmp_path):
    write_oracle(
        tmp_path,
        [{(READ, "task"): (60, 1), (READ, "nmi"): (20, 5), (TAIL, "nmi"): (20, 1), (0, "user"): (900, 0)}],
        samples=[(0, READ)],
        nmi_samples=[(0, READ), (0, TAIL)],
    )
    oracle = Oracle(tmp_path)
    assert oracle.samples(SYMBOLS)["nmi"].tolist() == [False, True, True]
    truth = kernel_truth(oracle, SYMBOLS, 0)
    assert truth[["instructions", "samples"]].to_dict("index") == {"vfs_read": {"instructions": 60, "samples": 1}}
    assert nmi_cost(oracle, SYMBOLS, 0) == 0.4
    assert np.isnan(nmi_cost(oracle, SYMBOLS, 1))


def test_page_words_become_runs(tmp_path):
    def word(page: int, write: int, kernel: int, count: int, steps: int) -> int:
        return page | write << 22 | kernel << 23 | count << 24 | steps << 40

    words = [word(0, 0, 0, 2, 0), word(1, 1, 0, 1, 5), word(0, 0, 0, 0, 0xFFFFFF), word(0, 0, 1, 3, 1)]
    write_oracle(tmp_path, [REGION], words=words, numbers=[0x20000, 0x30000])
    sequence = Oracle(tmp_path).pages()
    runs = sequence.runs()
    assert runs["page"].tolist() == [0x20000, 0x30000, 0x20000]
    assert runs["write"].tolist() == [False, True, False]
    assert runs["kernel"].tolist() == [False, False, True]
    assert runs["count"].tolist() == [2, 1, 3]
    assert runs["tick"].tolist() == [0, 5, 5 + 0xFFFFFF + 1]
    assert runs["ns"].tolist()[:2] == [5000, 5040]
    assert runs["ns"].iloc[2] == 9000 + 8 * (0x1000000 + 5 + 100 - 110)
    for size in (1, 2, 3, 10):
        pd.testing.assert_frame_equal(pd.concat(list(sequence.chunks(size)), ignore_index=True), runs)


def test_lock_calls_have_their_lock_and_the_caller_before_the_return_address(tmp_path):
    after = READ + 0x40
    calls = [
        (0, 0, TAIL, after, 5, 0xC2000000),  # returns behind vfs_read: the call was its last instruction
        (0, 0, TAIL, 0xF8000000, 2, 0xC2000040),
        (0, 0, TAIL, 0, 3, 0),
        (0, 2, TAIL, READ + 4, 9, 0xC2000000),
    ]
    write_oracle(tmp_path, [REGION], locks=calls, modes={"locks": None})
    table = Oracle(tmp_path).locks(SYMBOLS)
    assert table["target"].tolist() == ["tail"] * 3
    assert table["caller"].tolist()[:2] == ["vfs_read", "(outside)"]
    assert table["caller"].isna().tolist() == [False, False, True]
    assert table["lock"].tolist() == [0xC2000000, 0xC2000040, 0]
    assert table["count"].tolist() == [5, 2, 3]
    assert Oracle(tmp_path).locks(SYMBOLS, kind=2)["count"].tolist() == [9]


def test_an_oracle_that_told_no_locks_is_absent(tmp_path):
    write_oracle(tmp_path, [REGION], modes={"locks": None})
    path = tmp_path / "oracle/oracle.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "locks"}))
    with pytest.raises(OracleAbsent, match="older oracle"):
        Oracle(tmp_path).locks(SYMBOLS)


@pytest.mark.parametrize(
    ("report", "mode", "says"),
    [
        ({"functions": {"check_instructions": [200000, 199000]}}, "functions", "200000 known .* 199000"),
        ({"functions": {"check_instructions": []}}, "functions", "counted as 0"),
        ({"functions": {"overflow": True}}, "functions", "more functions"),
        ({"functions": {"lost_frames": 3}}, "functions", "context was lost"),
        ({"pages": {"check_wrong": 1}}, "pages", "1 of the known accesses"),
        ({"pages": {"check_accesses": [4097, 0]}}, "pages", "0 were seen"),
        ({"marks": {"mismatched": 1}}, "sampler", "no sensible order"),
        ({"counters": {"check_instructions": [200100, 150000]}}, "counters", "were published as 150000"),
        ({"marks": {"workloads": 0}}, "functions", "no region"),
        ({"modes": {"sampler": "this QEMU does not export its timers"}}, "sampler", "does not export"),
        ({}, "locks", "did not run"),
    ],
)
def test_it_refuses_to_report_what_it_did_not_prove(tmp_path, report, mode, says):
    write_oracle(tmp_path, [REGION], **report)
    oracle = Oracle(tmp_path)
    reads = {
        "functions": lambda: oracle.functions(SYMBOLS),
        "sampler": lambda: oracle.samples(SYMBOLS),
        "locks": lambda: oracle.locks(SYMBOLS),
        "pages": oracle.pages,
        "counters": lambda: oracle.need("counters"),
    }
    with pytest.raises(OracleAbsent, match=says):
        reads[mode]()


def test_damaged_files_are_errors_that_name_them(trial):
    path = trial / "oracle/functions.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RunError, match=r"functions\.bin"):
        Oracle(trial).functions(SYMBOLS)
    (trial / "oracle/oracle.json").write_text("{")
    with pytest.raises(RunError, match="not an oracle's report"):
        Oracle(trial)
    with pytest.raises(OracleAbsent, match="no oracle ran"):
        Oracle(trial / "elsewhere")


def test_a_number_that_no_plugin_counts_to_is_damage(trial):
    path = trial / "oracle/oracle.json"
    pages = {"accesses": 1, "words": 1, "pages": 1, "lost_spans": 0, "check_accesses": [], "check_wrong": 0}
    told = json.loads(path.read_text())
    path.write_text(json.dumps(told | {"pages": {**pages, "spans": [[0, 1, 5]]}}))
    Oracle(trial)
    path.write_text(json.dumps(told | {"pages": {**pages, "spans": [[0, 1, 1 << 63]]}}))
    with pytest.raises(RunError, match="not an oracle's report"):
        Oracle(trial)


def test_a_check_that_changed_its_cpu_is_a_reason_and_no_damage(trial):
    path = trial / "oracle/oracle.json"
    counters = {"check_instructions": [(1 << 64) - 5], "instructions": [7]}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"modes": {"counters": None}, "counters": counters}))
    assert "were published as 1844674" in Oracle(trial).report.absent("counters")


def test_places_name_the_ways_into_the_kernel():
    lines = describe_places(SYMBOLS, "CONFIG_PAGE_OFFSET=0xC0000000\n", ["vfs_read"]).splitlines()
    assert f"text {SYMBOLS.etext:x} c0000000" in lines
    low = ADDRESS["irq_entries_start"]
    assert f"entry 1 {low:x} {low + 0x40:x} 8" in lines
    for name, context in (
        ("asm_exc_page_fault", 3),
        ("asm_sysvec_timer", 1),
        ("asm_exc_nmi", 4),
        ("entry_INT80_32", 0),
    ):
        assert f"entry {context} {ADDRESS[name]:x} {ADDRESS[name] + 1:x} 1" in lines
    assert f"softirq {ADDRESS['__do_softirq']:x} {TAIL:x}" in lines
    assert f"exec {ADDRESS['begin_new_exec']:x} {ADDRESS['setup_new_exec']:x}" in lines
    assert f"exit {ADDRESS['do_group_exit']:x} {ADDRESS['exit_mmap']:x}" in lines
    assert f"lock {READ:x}" in lines
    start, end = ADDRESS["__entry_text_start"], ADDRESS["__entry_text_end"]
    assert f"returns {start:x} {end:x}" in lines
    moved = TEXT.replace(f"{end:08x} T __entry_text_end", f"{SYMBOLS.etext:08x} T __entry_text_end")
    assert f"returns {start:x} {SYMBOLS.etext:x}" in describe_places(parse_system_map(moved), "").splitlines()
    assert sum(line.startswith("function ") for line in lines) == len(NAMES)
    with pytest.raises(UsageError, match="no function nothing"):
        describe_places(SYMBOLS, "", ["nothing"])
    with pytest.raises(UsageError, match="__switch_to"):
        describe_places(parse_system_map(TEXT.replace("__switch_to", "other")), "")


def test_error_is_that_of_independent_samples_and_less_where_they_are_spread_evenly():
    rng = np.random.default_rng(8)
    truth = np.array([50.0, 30, 15, 5])
    independent = [against_independent(truth, rng.multinomial(500, truth / 100)) for _ in range(4000)]
    assert np.mean(np.square(independent)) == pytest.approx(1, rel=0.05)
    assert against_independent(truth, 5 * truth) == pytest.approx(0)
    assert against_independent(truth, [0, 0, 0, 500]) > 20
    assert np.isnan(against_independent(truth, [0, 0, 0, 0]))
    assert np.isnan(against_independent([7, 0], [5, 0]))


def test_agreement_is_uniform_for_fair_samples_and_small_for_biased_ones():
    rng = np.random.default_rng(3)
    truth = rng.integers(1, 1000, 50)
    fair = [agreement(truth, rng.multinomial(2000, truth / truth.sum())) for _ in range(200)]
    assert 0.02 < np.mean(np.array(fair) < 0.1) < 0.2
    assert agreement([100, 100, 3], [50, 0, 50]) < 1e-6
    assert agreement([1, 0], [5, 1]) == 0
    assert np.isnan(agreement([1], [5]))


def test_distance_and_convergence():
    assert distance([1, 1], [2, 2]) == 0
    assert distance([1, 1, 0], [0, 0, 7]) == 1
    rng = np.random.default_rng(4)
    truth = rng.integers(1, 100, 20)
    table = convergence(truth, rng.multinomial(20000, truth / truth.sum()), [10, 100, 1000, 10000, 10**6], 1)
    assert table["n"].tolist() == [10, 100, 1000, 10000]
    assert (table["error"] / table["expected"]).between(0.5, 1.8).all()


def test_calls_that_the_file_lacks_are_no_counts(tmp_path):
    write_oracle(
        tmp_path, [{}], locks=[(0, 0, 0xC0100000, 7, 4, 9), (0, 0, 0xC0100000, 8, 1, 9)], modes={"locks": None}
    )
    path = tmp_path / "oracle/locks.bin"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(RunError, match="has 4 calls, where the oracle saw 5"):
        Oracle(tmp_path).locks(SYMBOLS)
