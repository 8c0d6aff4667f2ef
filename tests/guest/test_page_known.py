"""pageknown's expectations against the oracle, which sees every access: what a tracer of pages is held to is true."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
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
def watch(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Oracle, Path]]:
    """Runs a command in a guest with the oracle: that, and the folder with the command's output."""

    def go(command: str) -> tuple[Oracle, Path]:
        target: Path = tmp_path_factory.mktemp("watched")
        experiment = Experiment.model_validate(
            {
                "name": "known",
                "paper": {"authors": ["x"], "year": 2009, "title": "x"},
                "workloads": {"known": {"command": command}},
                "arms": {"a": {"kernel": "modern-6.1", "clock": "virtual", "oracle": ["pages"]}},
            }
        )
        store = Store.default()
        prepared = prepare(store, experiment, GUEST.parent, [PlannedTrial("a", 0, 5)], target, "tcg")
        (record,) = run_trials(attach(store, experiment, prepared))
        assert record.status == "ok", record.reason
        folder = record.relocated(target).path
        return Oracle(folder), folder / "known"

    return go


@pytest.fixture(scope="module")
def answers(watch: Callable[[str], tuple[Oracle, Path]]) -> tuple[Oracle, list[Known], str]:
    """All cases in one guest: the oracle, what they said in order, and their complaints."""
    oracle, folder = watch(ALL_CASES)
    known = [read_known(line) for line in (folder / "stdout").read_text().splitlines()]
    return oracle, known, (folder / "stderr").read_text()


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


def test_a_process_is_selected_by_its_next_exec_and_until_it_ends(watch):
    stream = "roi-exec pagework stream --pages 32 --rounds 2"
    oracle, _ = watch(f"{stream}; roi-exec /nowhere; roi-exec sh -c 'kill -9 $$'; pagework sort; {stream}")
    assert oracle.report.pages is not None
    assert len(oracle.report.pages.spans) == 3
    for span in (0, 2):
        runs = oracle.pages(span).runs()
        assert runs["kernel"].iloc[0], "the kernel fills the new address space first"
        pages = runs.loc[~runs["kernel"], "page"].to_numpy().astype(np.int64)
        (first,) = (page for page in set(pages) if set(range(page, page + 32)) <= set(pages) and page - 1 not in pages)
        seen = pages[(pages >= first) & (pages < first + 32)]
        assert seen[np.flatnonzero(np.diff(seen, prepend=-1))].tolist() == [*range(first, first + 32)] * 2
    assert len(oracle.pages(1).runs())
