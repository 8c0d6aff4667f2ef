# SPDX-License-Identifier: MIT
"""What a summary says beside its verdicts: advice, outliers, drift; and nothing where there is nothing to say."""

from __future__ import annotations

import pandas as pd
import pytest

from harness.experiment.claim import Claim
from harness.measure.claims import METRIC_COLUMNS, judge
from harness.report.remarks import MAX_LINES, advice, drift_lines, outlier_lines

STEADY = [10.0, 10.1, 9.9, 10.05, 9.95, 10.02]


def frame(values: dict[str, list[float]]) -> pd.DataFrame:
    """One metric, `m`, per arm."""
    rows = [(arm, trial, "m", v, "us", None) for arm, numbers in values.items() for trial, v in enumerate(numbers)]
    return pd.DataFrame(rows, columns=list(METRIC_COLUMNS))


def advised(expect: dict[str, object], values: list[float]) -> list[str]:
    claims = [Claim.model_validate({"id": "c", "metric": "m/arm", "expect": expect, "because": "so"})]
    return advice(claims, judge(claims, frame({"arm": values})))


@pytest.mark.parametrize(
    ("expect", "values", "says"),
    [
        ({"at_least": 1}, [2.0, 3.0, 4.0], ["2 more repetitions would give an interval to: c"]),
        ({"at_least": 1}, [2.0, 3.0, 4.0, 5.0], ["1 more repetition would give an interval to: c"]),
        ({"at_least": 1}, [2.0], ["4 more repetitions would give an interval to: c"]),
        ({"at_least": 1}, [2.0, 2.0], []),
        ({"at_least": 1}, STEADY, []),
        ({"at_least": 50}, STEADY, []),
        ({"equals": 2}, [2.0], []),
        ({"at_least": 1}, [float("nan")], []),
        ({"at_least": 10.01}, STEADY, ["very many more repetitions would tell c from its bound"]),
    ],
)
def test_advice(expect, values, says):
    assert advised(expect, values) == says


def test_advice_near_a_bound_grows_with_nearness():
    far, near = (int(advised({"at_most": bound}, STEADY)[0].split()[1]) for bound in (10.04, 10.02))
    assert 1 <= far < near


def test_many_claims_are_counted():
    claim = {"metric": "m/arm", "expect": {"at_least": 1}, "because": "so"}
    claims = [Claim.model_validate({"id": f"c{k}", **claim}) for k in range(7)]
    said = advice(claims, judge(claims, frame({"arm": [2.0, 3.0]})))
    assert said == ["3 more repetitions would give an interval to: c0, c1, c2, c3, c4 and 2 more"]


def test_an_outlier_is_named_with_its_trial():
    (line,) = outlier_lines(frame({"steady": STEADY, "odd": [*STEADY, 20.0], "few": [1.0, 1.1, 99.0]}))
    assert line.startswith("outlier: m/odd is 20 in trial 6, the median is 10.02 (modified z-score ")


def test_three_parts_in_a_thousand_are_no_outlier_however_steady_the_others_are():
    counts = [38_580_000.0] * 9
    assert outlier_lines(frame({"arm": [*counts, 38_580_000 * 1.003]})) == []
    (line,) = outlier_lines(frame({"arm": [*counts, 38_580_000 * 1.06]}))
    assert line.startswith("outlier: m/arm is 40894800 in trial 9, the median is 38580000 (")
    (line,) = outlier_lines(frame({"arm": [*[0.0] * 9, 1.0]}))
    assert line.startswith("outlier: m/arm is 1 in trial 9, the median is 0 (")


def test_absent_values_are_no_outliers():
    assert outlier_lines(frame({"arm": [*STEADY, float("nan")]})) == []


def test_not_more_lines_than_anybody_reads():
    lines = outlier_lines(frame({f"arm{k}": [*STEADY, 20.0] for k in range(9)}))
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == "and 4 more of these"


def test_drift_follows_the_order_of_the_run_and_not_of_the_trials():
    rising = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    metrics = frame({"wall": rising, "virtual": rising})
    in_order = {("wall", trial): trial for trial in range(7)}
    assert drift_lines(metrics, in_order) == ["drift: m/wall rises in the course of the run (Kendall's tau 1.00)"]
    backwards = {("wall", trial): -trial for trial in range(7)}
    assert drift_lines(metrics, backwards) == ["drift: m/wall falls in the course of the run (Kendall's tau -1.00)"]
    mixed = dict(zip(in_order, [3, 0, 5, 1, 6, 2, 4], strict=True))
    assert drift_lines(metrics, mixed) == []
    assert drift_lines(metrics, {}) == []
