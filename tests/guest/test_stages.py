# SPDX-License-Identifier: MIT
"""A run whose second kernel has to be built: the first one's guests run before it, and the set is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.run import pipeline, stages
from harness.run.request import RunRequest
from tests.folders import experiment

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1200)]

YAML = """\
name: hello
paper: {authors: [Nobody], year: 2024, title: A guest says its parameter}
workloads:
  add: {command: "echo $KREPRO_OFFSET", timeout_s: 60}
arms:
  one: {kernel: classic, clock: virtual, params: {offset: 1}}
  two: {kernel: modern-6.1, clock: virtual, params: {offset: 2}}
  three: {kernel: classic, clock: wall, params: {offset: 3}}
repetitions: {quick: 2}
claims:
  - {id: one, metric: total/one, expect: {equals: 1}, because: it says so}
  - {id: two, metric: total/two, expect: {equals: 2}, because: it says so}
  - {id: three, metric: total/three, expect: {equals: 3}, because: it says so}
  - {id: found, kind: finding, metric: total/one, expect: {equals: 1}, because: it says so, statement: one}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return experiment(tmp_path / "hello", YAML)


def test_a_kernel_that_has_to_be_built_waits_for_the_first_verdicts(folder, tmp_path, monkeypatch, capfd):
    options = RunRequest(experiment=str(folder), results=tmp_path / "results", fresh=True, accel="tcg")
    at_once = pipeline.measure(options)
    assert "the next kernel is built now" not in capfd.readouterr().err

    monkeypatch.setattr(stages, "kernel_is_built", lambda store, recipe: False)
    events: list[str] = []
    prepare, ran = pipeline.prepare_trials, pipeline.run_each

    def prepare_trials(store, experiment, where, plan, *rest):
        events.append(f"builds {' '.join(sorted({trial.arm for trial in plan}))}")
        return prepare(store, experiment, where, plan, *rest)

    def run_each(trials, *rest):
        events.append(f"runs {' '.join(sorted({trial.arm for trial in trials}))}")
        return ran(trials, *rest)

    monkeypatch.setattr(pipeline, "prepare_trials", prepare_trials)
    monkeypatch.setattr(pipeline, "run_each", run_each)
    staged = pipeline.measure(options)
    told = capfd.readouterr().err.splitlines()

    assert events == ["builds one three", "runs one", "builds two", "runs three two"]
    start = told.index("1 of 3 arms: 1 reproduced, 1 confirmed; the next kernel is built now")
    assert told[start + 1] == "  all as known"
    assert [claim.verdict for claim in staged.claims] == ["reproduced"] * 3 + ["confirmed"]
    assert staged.result.manifest.deterministic == at_once.result.manifest.deterministic
    orders = [[(trial.arm, trial.repetition) for trial in done.result.trials] for done in (staged, at_once)]
    assert orders[0] == orders[1]
    assert set(staged.result.manifest.kernels) == {"classic", "modern-6.1"}
