# SPDX-License-Identifier: MIT
"""Every claim and every finding can fail: each has a mutation that turns its verdict."""

from __future__ import annotations

import pandas as pd
import pytest

from harness.experiment.model import load_experiment
from harness.measure.analysis import Analysis
from harness.paths import EXPERIMENTS, ROOT
from tests.claims_page import claims_page, turned_on_real_trials
from tests.dictionary_page import dictionary_page
from tests.mutation import Mutation, by_trial, decoded, mutations

NAMES = sorted(path.stem.replace("_", "-") for path in (ROOT / "tests/mutations").glob("[a-z]*.py"))
#: One in six is tried by default, all with --deep.
CASES = [
    pytest.param(name, mutation, id=f"{name}-{mutation.name}", marks=[pytest.mark.deep] * (index % 6 > 0))
    for name in NAMES
    for index, mutation in enumerate(mutations(name))
]


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_has_a_mutation(name):
    turned = {claim for mutation in mutations(name) for claim in mutation.claims}
    assert turned == {claim.id for claim in load_experiment(EXPERIMENTS / name).claims}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.deep
def test_a_trial_is_decoded_by_itself_but_for_those_that_are_shared(name):
    """Else the mutations below would be judged by rows that they should have changed."""
    whole = decoded(name)
    for trial in whole.golden.trials:
        key = (trial.arm, trial.repetition)
        if trial.arm in whole.shared:
            continue
        others = [other for other in whole.golden.trials if other.arm in whole.shared]
        alone = by_trial(whole.golden.analysis.tables([trial, *others]))
        assert alone[key].keys() == whole.rows[key].keys(), key
        for table, frame in whole.rows[key].items():
            made = alone[key][table]
            pd.testing.assert_frame_equal(made.reset_index(drop=True)[frame.columns], frame.reset_index(drop=True))


@pytest.mark.parametrize(("name", "mutation"), CASES)
def test_a_mutation_turns_the_claims_that_it_names_and_no_others(name, mutation: Mutation, tmp_path):
    trials = decoded(name)
    before = trials.before(mutation, tmp_path / "before")
    after = trials.after(mutation, tmp_path / "after")
    for claim in mutation.claims:
        assert before[claim].verdict != "not-measurable", (claim, before[claim].reason)
        assert after[claim].verdict not in {before[claim].verdict, "not-measurable"}, (claim, after[claim].reason)
    changed = {claim for claim in before if after[claim].verdict != before[claim].verdict}
    assert not set(mutation.claims) & set(mutation.also)
    assert changed == {*mutation.claims, *mutation.also}


def test_the_readme_says_how_many_claims_are_turned_and_on_what():
    real, every = turned_on_real_trials()
    assert real >= 0.9 * every
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"Each of the {every} that are judged is turned by a change of raw files: {real} of trials" in text
    assert f"{every - real} of one that the test makes first" in text


def test_the_page_of_claims_is_that_of_the_experiments():
    rows = [line.split(" | ") for line in claims_page().splitlines() if line.startswith("| `")]
    claims = [claim for name in NAMES for claim in load_experiment(EXPERIMENTS / name).claims]
    assert [row[0].strip("| `") for row in rows] == [claim.id for claim in claims]
    assert {len(row) for row in rows} == {7}
    assert all(cell for row in rows for cell in row)
    assert claims_page().count("\n### The paper, sentence by sentence\n") == len(NAMES)


def test_the_dictionary_is_that_of_the_experiments():
    text = dictionary_page()
    for name in NAMES:
        analysis = Analysis(EXPERIMENTS / name)
        assert all(f"| `{one.name}" in text for one in analysis.declared_metrics)
        assert all(f"### `{one.name}`\n\nA row is {one.meaning}." in text for one in analysis.declared_tables)
