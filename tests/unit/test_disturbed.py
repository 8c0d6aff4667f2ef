# SPDX-License-Identifier: MIT
"""What becomes of figures that the host spoilt; absent reasons stay absent on their way through files."""

from __future__ import annotations

import pandas as pd
import pytest

from harness.experiment.model import experiment_names
from harness.measure.analysis import Analysis
from harness.measure.declared import Metric, as_stored, fact
from harness.measure.rows import PROBLEMS, MetricRows
from harness.measure.trials import LEFT_OUT, TRIALS, UNSAID, least_disturbed, trial_table, without_disturbed
from harness.paths import EXPERIMENTS
from harness.sets.columns import write_table
from harness.sets.resultset import read_tables
from tests.result_sets import record

METRICS = [Metric("speed", "1", "higher", "timed", timing=True), fact("fact", "1", "higher", "not timed")]


def trials(*disturbed: str | None) -> pd.DataFrame:
    rows = [{"arm": "a", "trial": number, "disturbed": why} for number, why in enumerate(disturbed)]
    return TRIALS.typed(pd.DataFrame(rows))


def metrics(*speeds: tuple[float | None, str | None]) -> pd.DataFrame:
    rows = MetricRows(METRICS, PROBLEMS.empty())
    for trial, (speed, reason) in enumerate(speeds):
        rows.put("a", trial, "speed", speed, reason=reason)
        rows.put("a", trial, "fact", 1.0)
    return rows.frame()


def told(frame: pd.DataFrame) -> list[tuple[str, int, float | None, str | None]]:
    return [
        (row.metric, row.trial, None if pd.isna(row.value) else row.value, row.reason) for row in frame.itertuples()
    ]


def test_a_disturbed_trial_gives_facts_only():
    left = without_disturbed(metrics((2.0, None), (3.0, None)), METRICS, trials(None, "it waited"))
    assert told(left) == [("speed", 0, 2.0, None), ("fact", 0, 1.0, None), ("fact", 1, 1.0, None)]


def test_where_all_trials_are_disturbed_the_reason_is_told():
    left = without_disturbed(metrics((2.0, None)), METRICS, trials("it waited"))
    assert told(left) == [("speed", 0, None, f"{LEFT_OUT}it waited"), ("fact", 0, 1.0, None)]


def test_what_nobody_declared_a_fact_is_left_out_and_the_reason_says_so():
    declared = [Metric("speed", "1", "higher", "a ratio of times"), METRICS[1]]
    left = without_disturbed(metrics((2.0, None)), declared, trials("it waited"))
    assert told(left) == [("speed", 0, None, f"{LEFT_OUT}it waited{UNSAID}"), ("fact", 0, 1.0, None)]
    left = without_disturbed(metrics((2.0, None), (3.0, None)), declared, trials("it waited", None))
    assert told(left) == [("fact", 0, 1.0, None), ("speed", 1, 3.0, None), ("fact", 1, 1.0, None)]


def test_a_declaration_of_an_older_set_that_says_nothing_means_what_it_meant():
    unsaid, timed = Metric("speed", "1", "higher", "s"), Metric("fact", "1", "higher", "f", timing=True)
    older = [fact("speed", "1", "higher", "s"), fact("fact", "1", "higher", "f")]
    assert as_stored([unsaid, timed], older) == (older[0], timed)
    assert as_stored([unsaid, timed], [unsaid, timed]) == (unsaid, timed)
    assert as_stored([unsaid, timed], []) == (unsaid, timed)


def test_a_value_that_another_arms_trial_has_spoilt_goes_where_another_trial_gives_it():
    spoilt = (None, f"{LEFT_OUT}b: it waited")
    both = without_disturbed(metrics((2.0, None), spoilt), METRICS, trials(None, None))
    assert told(both) == [("speed", 0, 2.0, None), ("fact", 0, 1.0, None), ("fact", 1, 1.0, None)]
    one = without_disturbed(metrics(spoilt), METRICS, trials(None))
    assert told(one)[0] == ("speed", 0, *spoilt)
    other = without_disturbed(metrics((2.0, None), (None, "no file")), METRICS, trials(None, None))
    assert ("speed", 1, None, "no file") in told(other)


@pytest.mark.parametrize(
    ("clock", "fidelity", "says"),
    [
        ("wall", "emulated", "no record of the host's scheduling"),
        ("wall", "virtual", None),
        ("virtual", "virtual", None),
    ],
)
def test_a_trial_that_nobody_watched_is_not_undisturbed(tmp_path, clock, fidelity, says):
    trial = record("a", 0, clock, failed=False).model_copy(update={"fidelity": fidelity})
    assert trial_table([trial.relocated(tmp_path)])["disturbed"].tolist() == [says]


def test_an_absent_text_is_none_when_it_comes_back_from_its_file(tmp_path):
    (tmp_path / "tables").mkdir()
    write_table(trials(None, "it waited"), TRIALS, tmp_path / "tables" / "trials.parquet")
    assert read_tables(tmp_path)["trials"]["disturbed"].tolist() == [None, "it waited"]


def test_rows_to_show_are_of_sound_trials_or_else_of_all():
    table = pd.concat([trials("it waited", None), trials("it waited", "it waited").assign(arm="b")], ignore_index=True)
    rows = table[["arm", "trial"]].assign(value=range(4))
    assert least_disturbed(rows, table)["value"].tolist() == [1, 2, 3]
    assert least_disturbed(rows[:0], table).empty


def test_no_trial_at_all():
    assert without_disturbed(metrics(), METRICS, trials()).empty


@pytest.mark.parametrize("name", experiment_names())
def test_every_metric_of_the_projects_experiments_says_whether_it_is_a_fact(name):
    unsaid = [metric.name for metric in Analysis(EXPERIMENTS / name).declared_metrics if metric.timing is None]
    assert not unsaid
