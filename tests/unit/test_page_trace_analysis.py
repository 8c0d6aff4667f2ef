"""page-trace's analysis on made-up raw folders: what follows from several arms, and what is absent with its reason."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from experiments.page_trace.trace.records import EXEC

from harness.measure.analysis import Analysis
from harness.paths import EXPERIMENTS
from tests.page_traces import record, words_of, write_stats, write_trace

ANALYSIS = Analysis(EXPERIMENTS / "page-trace")
PAGES = [0x400, 0x500, 0x401, 0x500, 0x402, 0x500]


@dataclass
class FakeTrial:
    arm: str
    path: Path
    params: dict[str, Any]
    repetition: int = 0
    clock: str = "wall"
    workloads: tuple[str, ...] = ("stream",)


def put(folder: Path, name: str, value: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(value))


def trial(root: Path, arm: str, method: str, *, said: str = "42\n", seconds: float = 1.0, **more: Any) -> FakeTrial:
    """One trial of the workload stream by `method`."""
    made = FakeTrial(arm, root / arm, {"method": method}, **more)
    folder = made.path / "stream"
    folder.mkdir(parents=True)
    (folder / "stdout").write_text(said)
    times = {"elapsed_ns": int(seconds * 1e9), "exit_status": 0}
    if method == "trace":
        write_stats(folder / "trace.json", **times, bytes=6000)
        before = [record(0x999, 5), record(0, 9, kind=EXEC)]
        write_trace(folder / "trace", words_of([*before, *(record(page, 10 + i) for i, page in enumerate(PAGES))]))
    else:
        put(folder, f"{method}.json", times | ({"bytes": 600_000} if method == "lackey" else {}))
    return made


@pytest.fixture
def arms(tmp_path: Path) -> list[FakeTrial]:
    return [
        trial(tmp_path, "untraced", "plain", seconds=0.5),
        trial(tmp_path, "traced", "trace", seconds=2.0),
        trial(tmp_path, "lackey", "lackey", seconds=50.0, said="43\n"),
        # The same by another clock: nothing to compare with.
        trial(tmp_path, "traced-virtual", "trace", clock="virtual"),
    ]


def measured(trials: list[FakeTrial]) -> pd.DataFrame:
    return ANALYSIS.metrics(ANALYSIS.tables(trials)).set_index(["arm", "metric"])


def test_ratios_are_of_one_clock_and_seed(arms):
    found = measured(arms)["value"]
    assert found["traced", "slowdown.stream"] == 4
    assert found["traced", "time_of_lackey.stream"] == 0.04
    assert found["traced", "bytes_of_lackey.stream"] == 0.01
    assert found["lackey", "slowdown.stream"] == 100
    for metric in ("slowdown.stream", "time_of_lackey.stream", "same_output.stream"):
        assert ("traced-virtual", metric) not in found.index
    arms[1].repetition = 1
    assert ("traced", "slowdown.stream") not in measured(arms).index


def test_an_output_that_differs_is_seen(arms):
    found = measured(arms)["value"]
    assert found["traced", "same_output"] == 1
    assert found["lackey", "same_output"] == 0


def test_faults_that_are_not_accounted_for(arms):
    assert measured(arms)["value"]["traced", "unaccounted"] == 0
    write_stats(arms[1].path / "stream" / "trace.json", faults=103, exit_status=0)
    assert measured(arms)["value"]["traced", "unaccounted"] == 3


def test_without_an_oracle_the_comparison_is_absent_and_its_reason_names_no_path(arms, tmp_path):
    row = measured(arms).loc[("traced", "unexplained.stream")]
    assert pd.isna(row["value"])
    assert "oracle" in row["reason"]
    assert str(tmp_path) not in row["reason"]
    assert ("traced", "unexplained") not in measured(arms).index


def test_metrics_come_in_the_order_of_their_names_in_the_source(arms):
    names = [metric for arm, metric in measured(arms).index if arm == "lackey"]
    assert names == ["slowdown.stream", "bytes.stream", "same_output.stream", "exit_status.stream", "same_output"]


def test_the_access_model_begins_at_the_exec(arms):
    tables = ANALYSIS.tables(arms)
    pages = tables["pages"].set_index("page")
    assert sorted(pages.index) == [0x400, 0x401, 0x402, 0x500]
    assert pages.loc[0x500, "visits"] == 3
    assert tables["visits"]["start_ns"].min() == 0
    slices = ANALYSIS.timeline(tables)
    assert slices is not None
    assert set(slices["process"]) == {"stream"}


def neighbour(root: Path, pairs: list[tuple[list[float], list[float]]], ran: bool = True) -> FakeTrial:
    made = FakeTrial("neighbour", root / "neighbour", {"method": "neighbour"}, workloads=("neighbour",))
    lines = [{"pairs": len(pairs)}]
    for i, sides in enumerate(pairs):
        # a b b a: which side comes first does not matter
        for arm, chunks in sorted(zip("ab", sides, strict=True), reverse=bool(i % 2)):
            through = ran or i > 0
            lines.append({"segment": 0, "arm": arm, "chunk_ns": chunks, "wall_ns": sum(chunks), "ran_through": through})
    folder = made.path / "neighbour"
    folder.mkdir(parents=True)
    (folder / "stdout").write_text("\n".join(map(json.dumps, lines)))
    return made


def test_the_neighbour_is_compared_in_pairs_by_its_undisturbed_chunks(tmp_path):
    disturbed = [100.0] * 5 + [900.0] * 5
    trials = [neighbour(tmp_path, [([100.0] * 10, [110.0] * 10), (disturbed, [110.0] * 10), ([100.0] * 10, disturbed)])]
    found = measured(trials)["value"]
    assert found["neighbour", "neighbour_slowdown"] == pytest.approx(0.1)
    assert found["neighbour", "neighbour_slowdown_median"] == pytest.approx(0.1)


def test_a_segment_whose_command_did_not_run_through_does_not_count(tmp_path):
    trials = [neighbour(tmp_path, [([100.0] * 4, [900.0] * 4), ([100.0] * 4, [100.0] * 4)], ran=False)]
    assert measured(trials)["value"]["neighbour", "neighbour_slowdown"] == 0
