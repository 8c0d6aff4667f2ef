# SPDX-License-Identifier: MIT
"""shim's counters of the observed CPU, on made-up files: used, refused, and what a wrong one would have said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness.measure.analysis import Analysis
from harness.paths import EXPERIMENTS
from tests.experiments.shim import files

ANALYSIS = Analysis(EXPERIMENTS / "shim")
KNOWN = 20_000_000
SHARED = "the event shares its counter with others, and has not counted all the time"


def told(**changed: Any) -> dict[str, Any]:
    """counters.json of a right program on a CPU that executes an instruction a nanosecond."""
    checks = [
        {"what": "known loop", "source": "slot", "expected": KNOWN, "counted": KNOWN + 4_000, "reason": None},
        {"what": "known loop", "source": "call", "expected": KNOWN, "counted": KNOWN + 9_000, "reason": None},
        {"what": "known loop", "source": "observer", "expected": KNOWN, "counted": 7_000, "reason": "counted as 7000"},
    ]
    events = [{"count": 100, "enabled": 500, "running": 250}, {"count": 0, "enabled": 0, "running": 0}]
    crowded = {"expected": KNOWN, "counted": 12_000_000, "reason": SHARED, "events": events}
    made = {"cpu": 0, "checks": checks, "busy": 500_000_000, "idle": 50_000, "observer_of_idle": 499_000_000}
    return {**made, "crowded": crowded, **changed}


def measured(folder: Path, answer: dict[str, Any] | None) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    made = files.record("arm64", folder, ("counters",))
    files.host(made.path)
    (made.path / "counters").mkdir(parents=True, exist_ok=True)
    if answer is not None:
        (made.path / "counters/counters.json").write_text(json.dumps(answer))
    tables = ANALYSIS.tables([made])
    return tables, ANALYSIS.metrics(tables).set_index("metric")


def test_what_a_right_program_says(tmp_path):
    tables, metrics = measured(tmp_path, told())
    value = metrics["value"]
    assert value["pmu_published_error"] == pytest.approx(0.0002)
    assert value["pmu_idle_share"] == pytest.approx(0.0001)
    assert value["pmu_own_of_idle_share"] == pytest.approx(0.998)
    assert (value["pmu_own_refused"], value["pmu_crowded_refused"]) == (1, 1)
    assert tables["published"]["source"].tolist() == ["slot", "call", "observer", "slot"]
    assert tables["crowd"]["share"].tolist()[0] == 0.5
    assert tables["crowd"]["share"].isna().tolist() == [False, True]


def test_a_published_counter_that_is_refused_gives_no_figure_but_its_reason(tmp_path):
    answer = told()
    answer["checks"][0] |= {"counted": 0, "reason": "the event cannot be opened: No such file or directory"}
    _, metrics = measured(tmp_path, answer)
    for name in ("pmu_published_error", "pmu_idle_share", "pmu_own_of_idle_share", "pmu_crowded_refused"):
        assert pd.isna(metrics["value"][name])
        assert "No such file or directory" in metrics["reason"][name]
    assert metrics["value"]["pmu_own_refused"] == 1


def test_a_program_that_believes_its_own_counter_or_a_shared_one_is_told(tmp_path):
    answer = told()
    answer["checks"][2] |= {"counted": KNOWN, "reason": None}
    answer["crowded"]["reason"] = None
    _, metrics = measured(tmp_path, answer)
    assert (metrics["value"]["pmu_own_refused"], metrics["value"]["pmu_crowded_refused"]) == (0, 0)


def test_an_observer_that_books_itself_to_an_idle_target_is_told(tmp_path):
    _, metrics = measured(tmp_path, told(idle=499_900_018))
    assert metrics["value"]["pmu_idle_share"] > 0.99


def test_without_its_file_all_is_absent_with_the_reason(tmp_path):
    _, metrics = measured(tmp_path, None)
    assert metrics["value"].isna().all()
    assert metrics["reason"]["pmu_published_error"].endswith("is missing") or "counters.json" in str(
        metrics["reason"]["pmu_published_error"]
    )
