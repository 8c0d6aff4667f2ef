# SPDX-License-Identifier: MIT
"""page-trace's analysis on made-up raw folders: what follows from several arms, and what is absent with its reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from experiments.page_trace.trace.anew import AGAIN, SAME
from experiments.page_trace.trace.program import Program
from experiments.page_trace.trace.records import EXEC, Trace

from harness.measure.analysis import Analysis
from harness.paths import EXPERIMENTS
from harness.trial.model import TrialRecord
from tests.experiments.page_trace.traces import STATS, record, words_of, write_stats, write_trace
from tests.records import host_sched, trial_record

ANALYSIS = Analysis(EXPERIMENTS / "page-trace")
PAGES = [0x400, 0x500, 0x401, 0x500, 0x402, 0x500]


def a_record(root: Path, arm: str, method: str, **more: Any) -> TrialRecord:
    told = {"clock": "wall", "workloads": ("stream",), "kernel": "modern-6.1", "params": {"method": method}} | more
    return trial_record(arm, root=root, **told)


def trial(
    root: Path, arm: str, method: str, *, printed: str = "42\n", seconds: float = 1.0, **more: Any
) -> TrialRecord:
    """One trial of the workload stream by `method`."""
    made = a_record(root, arm, method, **more)
    folder = made.path / "stream"
    folder.mkdir(parents=True)
    (folder / "stdout").write_text(printed)
    times = {"elapsed_ns": int(seconds * 1e9), "exit_status": 0}
    if method == "trace":
        before = [record(0x999, 5), record(0, 9, kind=EXEC)]
        write_trace(folder / "trace", words_of([*before, *(record(page, 10 + i) for i, page in enumerate(PAGES))]))
        change = STATS["records"] - (len(PAGES) + 1)
        (folder / "maps").write_text("00400000-00401000 r-xp 00000000 00:02 100 /bin/x\n")
        write_stats(folder / "trace.json", **times, bytes=6000, records=len(PAGES) + 1, faults=STATS["faults"] - change)
    else:
        answer = times | ({"bytes": 600_000} if method == "lackey" else {})
        (folder / f"{method}.json").write_text(json.dumps(answer))
    if made.clock == "wall":
        descheduled(made, 0.0)
    return made


def descheduled(made: TrialRecord, share: float) -> None:
    host_sched(made.path, int(1e9 * share), int(1e9 * (1 - share)))


@pytest.fixture
def arms(tmp_path: Path) -> list[TrialRecord]:
    return [
        trial(tmp_path, "untraced", "plain", seconds=0.5),
        trial(tmp_path, "traced", "trace", seconds=2.0),
        trial(tmp_path, "lackey", "lackey", seconds=50.0, printed="43\n"),
        trial(tmp_path, "unpatched", "stock", seconds=0.4),
        # The same by another clock: nothing to compare with.
        trial(tmp_path, "traced-virtual", "trace", clock="virtual"),
    ]


def measured(trials: list[TrialRecord]) -> pd.DataFrame:
    return ANALYSIS.metrics(ANALYSIS.tables(trials)).set_index(["arm", "metric"])


def test_ratios_are_of_one_clock_and_seed(arms):
    metrics = measured(arms)
    values = metrics["value"]
    assert values["traced", "slowdown.stream"] == 4
    # Two of its records, 48 bytes, are of what ran before its exec.
    assert values["traced", "data_rate.stream"] == (6000 - 48) / 0.5
    assert values["traced", "time_of_lackey.stream"] == 0.04
    assert values["traced", "bytes_of_lackey.stream"] == (6000 - 48) / 600_000
    assert values["lackey", "slowdown.stream"] == 100
    assert values["unpatched", "off_time.stream"] == values["unpatched", "off_time_all"] == 1.25
    assert not {"slowdown.stream", "bytes.stream"} & set(metrics.loc["unpatched"].index)
    for name in ("slowdown.stream", "time_of_lackey.stream", "same_output.stream", "same_output"):
        assert "virtual clock" in metrics.loc[("traced-virtual", name), "reason"]
    arms[1] = arms[1].model_copy(update={"repetition": 1})
    assert "in this repetition" in measured(arms).loc[("traced", "slowdown.stream"), "reason"]


def test_an_output_that_differs_is_seen(arms):
    values = measured(arms)["value"]
    assert values["traced", "same_output"] == 1
    assert values["lackey", "same_output"] == 0


def test_faults_that_are_not_accounted_for(arms):
    assert measured(arms)["value"]["traced", "unaccounted"] == 0
    answer = arms[1].path / "stream" / "trace.json"
    answer.write_text(json.dumps(json.loads(answer.read_text()) | {"faults": 103}))
    assert measured(arms)["value"]["traced", "unaccounted"] == 56


def test_a_file_with_fewer_visits_than_the_kernel_counted(arms):
    assert measured(arms)["value"]["traced", "unrecorded"] == 0
    trace = arms[1].path / "stream" / "trace"
    trace.write_bytes(trace.read_bytes()[: 64 + 5 * 24])
    values = measured(arms)["value"]
    assert values["traced", "unrecorded"] == 3
    assert values["traced", "unrecorded.stream"] == 3


def test_without_an_oracle_nothing_is_compared(arms):
    names = {metric for arm, metric in measured(arms).index if arm == "traced"}
    assert not any(name.startswith(("missing", "unexplained", "difference_share")) for name in names)


def test_an_oracle_that_did_not_end_is_a_reason_that_names_no_path_of_the_host(arms, tmp_path):
    (arms[1].path / "oracle").mkdir()
    metrics = measured(arms)
    for name in ("unexplained.stream", "unexplained", "missing_share", "difference_share.boundary"):
        assert pd.isna(metrics.loc[("traced", name), "value"])
        assert "no oracle ran" in metrics.loc[("traced", name), "reason"]
        assert str(tmp_path) not in metrics.loc[("traced", name), "reason"]
    assert metrics["value"]["traced", "unrecorded"] == 0


def test_a_damaged_part_leaves_the_others(arms):
    (arms[1].path / "stream" / "trace.json").unlink()
    metrics = measured(arms)
    assert "trace.json" in metrics.loc[("traced", "slowdown.stream"), "reason"]
    assert "trace.json" in metrics.loc[("traced", "unaccounted"), "reason"]
    assert metrics["value"]["traced", "advice_coverage.stream"] == 0
    assert metrics["value"]["lackey", "slowdown.stream"] == 100
    (arms[0].path / "stream" / "plain.json").write_text("{")
    assert "untraced/0/stream/plain.json" in measured(arms).loc[("lackey", "slowdown.stream"), "reason"]


def test_a_trial_of_the_other_arm_that_the_host_disturbed_spoils_the_ratio(arms):
    descheduled(arms[0], 0.5)
    metrics = measured(arms)
    reason = metrics.loc[("traced", "slowdown.stream"), "reason"]
    assert (
        reason == "the trial is left out: untraced: the host descheduled vCPU 0 for 50.0 %, more than 3 % of its time"
    )
    assert metrics["value"]["traced", "time_of_lackey.stream"] == 0.04
    assert metrics["value"]["traced", "same_output"] == 1
    descheduled(arms[0], 0.01)
    assert measured(arms)["value"]["traced", "slowdown.stream"] == 4


def test_the_access_model_begins_at_the_exec(arms):
    tables = ANALYSIS.tables(arms)
    pages = tables["pages"].set_index("page")
    assert sorted(pages.index) == [0x400, 0x401, 0x402, 0x500]
    assert pages.loc[0x500, "visits"] == 3
    assert tables["visits"]["start_ns"].min() == 0
    slices = ANALYSIS.timeline(tables, ANALYSIS.metrics(tables))
    assert slices is not None
    assert set(slices["process"]) == {"stream"}


def test_what_ran_before_the_program_is_not_counted(arms):
    """The launcher's child and the starter: their visits, their records, and the starter's time."""
    launcher, starter = [record(0x999, 5), record(0, 9, kind=EXEC)], [record(0x998, 20), record(0x997, 30, flags=SAME)]
    own = [record(page, 500_000_010 + i, flags=SAME * (i == 1)) for i, page in enumerate(PAGES)]
    rows = [*launcher, *starter, record(0, 500_000_009, kind=EXEC), *own]
    write_trace(arms[1].path / "stream" / "trace", words_of(rows))
    write_stats(arms[1].path / "stream" / "trace.json", elapsed_ns=2_000_000_000, bytes=6000, records=9)
    metrics = measured(arms)["value"]
    assert metrics["traced", "visits.stream"] == len(PAGES)
    assert metrics["traced", "slowdown.stream"] == 3
    assert metrics["traced", "time_of_lackey.stream"] == 0.03
    assert metrics["traced", "bytes_of_lackey.stream"] == (6000 - 5 * 24) / 600_000
    assert metrics["traced", "steps"] == 1
    (told,) = ANALYSIS.tables(arms)["traces"].query("arm == 'traced'").to_dict("records")
    assert (told["before_visits"], told["starter_ns"], told["unaccounted"]) == (3, 500_000_000, 51)


def test_records_that_were_replaced_are_bytes_and_no_visits(tmp_path):
    rows = [record(1, 1), record(1, 2, flags=AGAIN), record(0, 9, kind=EXEC), record(2, 10), record(2, 11, flags=AGAIN)]
    trace = Trace(write_trace(tmp_path / "trace", words_of(rows)))
    own = Program(trace).own()
    assert (own.visits, own.before_visits, own.before_bytes) == (1, 1, 3 * 24)


def test_a_case_of_which_a_file_is_missing_is_no_exact_one(tmp_path):
    made = a_record(tmp_path, "known", "known", workloads=("known",))
    folder = made.path / "known" / "known"
    folder.mkdir(parents=True)
    answer = {"name": "two", "arena": "0x500000", "pages": 2, "expected": [0, 1], "writes": [0, 0], "failed": 0}
    (folder / "two.json").write_text(json.dumps(answer | {"subsequence": False}))
    write_trace(folder / "two.trace", words_of([record(0x500, 1), record(0x501, 2)]))
    write_stats(folder / "two.stats", records=2, faults=42)
    assert measured([made])["value"]["known", "known_wrong"] == 0
    assert measured([made])["value"]["known", "unrecorded"] == 0
    (folder / "two.json").write_text(json.dumps(answer | {"subsequence": False, "expected": [1, 0]}))
    assert measured([made])["value"]["known", "known_wrong"] == 1
    (folder / "two.stats").unlink()
    assert "two.stats" in measured([made]).loc[("known", "known_wrong"), "reason"]
    for path in folder.iterdir():
        path.unlink()
    assert "no known sequence" in measured([made]).loc[("known", "known_wrong"), "reason"]


def neighbour(root: Path, pairs: list[tuple[list[float], list[float]]], ran: bool = True) -> TrialRecord:
    made = a_record(root, "neighbour", "neighbour", workloads=("neighbour",))
    lines: list[dict[str, Any]] = [{"pairs": len(pairs)}]
    for i, sides in enumerate(pairs):
        # a b b a: which side comes first does not matter
        for arm, chunks in sorted(zip("ab", sides, strict=True), reverse=bool(i % 2)):
            through = ran or i > 0
            lines.append({"segment": 0, "arm": arm, "chunk_ns": chunks, "wall_ns": sum(chunks), "ran_through": through})
    folder = made.path / "neighbour"
    folder.mkdir(parents=True)
    (folder / "stdout").write_text("\n".join(map(json.dumps, lines)))
    descheduled(made, 0.0)
    return made


def test_the_neighbour_is_compared_in_pairs(tmp_path):
    disturbed = [100.0] * 5 + [900.0] * 5
    trials = [neighbour(tmp_path, [([100.0] * 10, [110.0] * 10), (disturbed, [110.0] * 10), ([100.0] * 10, disturbed)])]
    values = measured(trials)["value"]
    assert values["neighbour", "neighbour_slowdown"] == pytest.approx(0.1)
    assert values["neighbour", "neighbour_slowdown_fastest"] == pytest.approx(0.1)


def test_what_slows_most_chunks_down_is_not_seen_in_the_fastest(tmp_path):
    slow = [100.0] * 3 + [1000.0] * 7
    values = measured([neighbour(tmp_path, [([100.0] * 10, slow)] * 3)])["value"]
    assert values["neighbour", "neighbour_slowdown_fastest"] == 0
    assert values["neighbour", "neighbour_slowdown"] == pytest.approx(6.3)


def test_a_segment_whose_command_did_not_run_through_does_not_count(tmp_path):
    trials = [neighbour(tmp_path, [([100.0] * 4, [900.0] * 4), ([100.0] * 4, [100.0] * 4)], ran=False)]
    assert measured(trials)["value"]["neighbour", "neighbour_slowdown_fastest"] == 0


@pytest.mark.parametrize("percent", [range(-24, 24, 4), range(7), range(-6, 1)])
def test_an_interval_with_a_bound_in_it_tells_nothing(tmp_path, percent):
    pairs = [([100.0] * 10, [100.0 + one] * 10) for one in percent]
    (row,) = measured([neighbour(tmp_path, pairs)]).loc[[("neighbour", "neighbour_slowdown")]].to_dict("records")
    assert pd.isna(row["value"])
    assert "has the bound" in row["reason"]


@pytest.mark.parametrize("percent", [(0, 1, 2, 1, 0, 1, 2), (9, 10, 11, 9, 10, 11, 10)])
def test_an_interval_on_one_side_of_each_bound_tells(tmp_path, percent):
    values = measured([neighbour(tmp_path, [([100.0] * 10, [100.0 + one] * 10) for one in percent])])["value"]
    assert values["neighbour", "neighbour_slowdown"] == pytest.approx(sorted(percent)[len(percent) // 2] / 100)


def test_a_clock_that_stands_still_is_said(tmp_path):
    reason = measured([neighbour(tmp_path, [([0.0] * 4, [0.0] * 4)])]).loc[
        ("neighbour", "neighbour_slowdown"), "reason"
    ]
    assert "stood still" in reason
