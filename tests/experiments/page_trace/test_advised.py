# SPDX-License-Identifier: MIT
"""Advice followed: made-up trials of its arms, and what is absent. tests/mutations/ turns each claim."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.experiment.model import load_experiment
from harness.measure.analysis import Analysis
from harness.measure.claims import judge
from harness.paths import EXPERIMENTS
from harness.trial.model import TrialRecord
from tests.golden import unpack
from tests.records import trial_record

FOLDER = EXPERIMENTS / "page-trace"
ANALYSIS, EXPERIMENT = Analysis(FOLDER), load_experiment(FOLDER)
ARMS = ("resumed", "resumed-everything", "resumed-order", "short", "short-followed")
CLAIMS = tuple(claim for claim in EXPERIMENT.claims if claim.metric and claim.metric.partition("/")[2] in ARMS)
#: Seconds and major faults by advice.
GOOD = {"none": (1.0, 1000), "everything": (0.15, 20), "order": (0.1, 10), "followed": (0.1, 10)}


def write(folder: Path, seconds: float, faults: int, printed: str = "42\n") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    told = {"elapsed_ns": int(seconds * 1e9), "major_faults": faults, "paged_out": 500, "fetched": 400}
    (folder / "advised.json").write_text(json.dumps(told | {"exit_status": 0}))
    (folder / "stdout").write_text(printed)


@pytest.fixture
def trials(tmp_path: Path) -> list[TrialRecord]:
    made = []
    for name in ARMS:
        arm = EXPERIMENT.arms[name]
        path = tmp_path / "raw" / name / "0"
        for workload in arm.workloads:
            write(path / workload, *GOOD[str(arm.params["advice"])])
        told = {"kernel": arm.kernel, "params": arm.params, "workloads": tuple(arm.workloads)}
        made.append(trial_record(name, root=tmp_path, **told))
    return made


def verdicts(trials: list[TrialRecord]) -> dict[str, str]:
    metrics = ANALYSIS.metrics(ANALYSIS.tables(trials))
    # There is one trial of each.
    own = [claim.model_copy(update={"least_trials": None}) for claim in CLAIMS]
    return {told.id: told.verdict for told in judge(own, metrics)}


def test_advice_that_helps_keeps_every_claim(trials):
    assert set(verdicts(trials).values()) <= {"reproduced", "confirmed"}


def test_one_program_without_its_result_takes_the_medians(trials):
    (trial,) = (one for one in trials if one.arm == "resumed-order")
    (trial.path / trial.workloads[0] / "advised.json").unlink()
    told = verdicts(trials)
    assert told["advised-resumes-faster"] == told["advised-stream"] == "not-measurable"
    assert told["advised-random"] == "reproduced"


def test_a_program_that_did_not_run_without_advice_is_compared_with_nothing(trials):
    (bare,) = (one for one in trials if one.arm == "resumed")
    lacks = bare.model_copy(update={"workloads": bare.workloads[1:]})
    told = verdicts([lacks if one.arm == "resumed" else one for one in trials])
    assert told["advised-stream"] == told["advised-resumes-faster"] == "not-measurable"
    assert told["order-is-worth-a-trace"] == "confirmed"


def test_what_the_report_says_is_absent_of_a_program_that_did_not_run_or_left_no_trace(tmp_path):
    golden = unpack("page-trace", tmp_path)
    (trial,) = (one for one in golden.trials if one.arm == "short-traced")
    (golden.raw("short-traced") / "short-keep" / "trace").unlink()
    tables = ANALYSIS.tables([trial.model_copy(update={"workloads": ("short-columns", "short-keep")})])
    said = ANALYSIS.metrics(tables).set_index("metric").loc[lambda rows: rows.index.str.startswith("advice_said")]
    assert said["value"].fillna(-1).to_dict() == {"advice_said.short-columns": 1, "advice_said.short-keep": -1}
    assert said.loc["advice_said.short-keep", "reason"]
    # A report without advice is an answer.
    tables["said"] = tables["said"].iloc[:1].assign(kind="none", largest=False)
    assert ANALYSIS.metrics(tables).set_index("metric").loc["advice_said.short-columns", "value"] == 0
