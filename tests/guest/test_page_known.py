"""pageknown's expectations against the oracle, which sees every access: what a tracer of pages is held to is true."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.build.store import Store
from harness.experiment.model import Experiment
from harness.experiment.plan import PlannedTrial
from harness.experiment.prepare import prepare
from harness.experiment.runner import run_trials
from harness.oracle.attach import attach
from harness.oracle.reader import Oracle
from tests.page_known import ALL_CASES, CASES, GUEST, Known, read_known

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Oracle, list[Known], str]:
    """All cases in one guest: the oracle, what they said in order, and their complaints."""
    target: Path = tmp_path_factory.mktemp("known")
    experiment = Experiment.model_validate(
        {
            "name": "known",
            "paper": {"authors": ["x"], "year": 2009, "title": "x"},
            "workloads": {"known": {"command": ALL_CASES}},
            "arms": {"a": {"kernel": "modern-6.1", "clock": "virtual", "oracle": ["pages"]}},
        }
    )
    store = Store.default()
    prepared = prepare(store, experiment, GUEST.parent, [PlannedTrial("a", 0, 5)], target, "tcg")
    (record,) = run_trials(attach(store, experiment, prepared))
    assert record.status == "ok", record.reason
    folder = record.relocated(target).path
    known = [read_known(line) for line in (folder / "known/stdout").read_text().splitlines()]
    return Oracle(folder), known, (folder / "known/stderr").read_text()


def test_every_case_ran_and_found_nothing_wrong(answers):
    _, known, complaints = answers
    assert [case.name for case in known] == CASES
    assert len(CASES) >= 16
    assert complaints == ""
    assert not any(case.failed for case in known)


@pytest.mark.parametrize("name", CASES)
def test_the_oracle_sees_what_the_case_states(answers, name):
    oracle, known, _ = answers
    span = CASES.index(name)
    runs = oracle.pages(span).runs()
    assert known[span].wrong(runs["page"], runs["write"], by_iteration=True) is None
