# SPDX-License-Identifier: MIT
"""A trial that another one predicts: that is written down, and its guest knows the hash, before it begins."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.experiment.model import PREDICTIONS
from harness.run import pipeline
from harness.run.request import RunRequest
from tests.folders import SUMS, experiment

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1200)]

YAML = """\
name: hello
paper: {authors: [Nobody], year: 2024, title: A guest says what another will say}
workloads:
  add: {command: "echo $KREPRO_OFFSET $KREPRO_PREDICTIONS", timeout_s: 60}
arms:
  after: {kernel: classic, clock: virtual, params: {offset: 1}, predicted_by: before}
  before: {kernel: classic, clock: virtual, params: {offset: 1}}
repetitions: {quick: 1}
"""
HOOK = """

def predictions(trials):
    return [{"arm": trial.arm, "says": (trial.path / "add" / "stdout").read_text()} for trial in trials]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return experiment(tmp_path / "hello", YAML, SUMS.replace('stdout"))', 'stdout").split()[0])') + HOOK)


def test_what_is_predicted_is_written_before_the_trial_begins(folder, tmp_path, monkeypatch):
    ran = pipeline.run_each
    events = []

    def run_each(trials, *rest):
        events.append([(trial.arm, trial.predictions) for trial in trials])
        return ran(trials, *rest)

    monkeypatch.setattr(pipeline, "run_each", run_each)
    result = pipeline.measure(RunRequest(experiment=str(folder), results=tmp_path / "results", accel="tcg")).result
    text = json.dumps([{"arm": "before", "says": "1\n"}], indent=1) + "\n"
    assert events == [[("before", None)], [("after", text)]], "the one ended, and was decoded, before the other began"
    after = next(trial for trial in result.trials if trial.arm == "after")
    assert (after.path / PREDICTIONS).read_text() == text
    told = hashlib.sha256(text.encode()).hexdigest()
    assert after.params == {"offset": 1, "predictions": told}
    assert (after.path / "add" / "stdout").read_text() == f"1 {told}\n", "the guest itself had it"
    assert f"raw/after/0/{PREDICTIONS}" in result.manifest.files
    alone = RunRequest(experiment=str(folder), results=tmp_path / "results", accel="tcg", arms=["after"])
    with pytest.raises(UsageError, match="is predicted by that of before, which is not in this run"):
        pipeline.measure(alone)
