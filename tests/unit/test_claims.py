# SPDX-License-Identifier: MIT
"""Verdicts: what a claim expects against what the trials gave."""

from __future__ import annotations

import io
import math
from typing import Any

import pandas as pd
import pytest
from pydantic import ValidationError
from rich.console import Console

from harness.analysis.verification import verify
from harness.experiment.claim import Claim
from harness.measure.claims import METRIC_COLUMNS, ClaimResult, judge
from harness.report.page import set_page
from harness.report.terminal import claims_table, fidelity_of
from tests.result_sets import ANALYSIS, TIMED, UNSAID, YAML, experiment_folder, write_set
from tests.trials import made_experiment

NAN = math.nan


def verdict(expect: dict[str, object], values: list[float], reason: str | None = None, **fields: object) -> ClaimResult:
    rows = [("arm", trial, "m", value, "us", reason) for trial, value in enumerate(values)]
    noise = [("other", 0, "m", 1e9, "1", None), ("arm", 0, "m2", -1e9, "1", None)]
    metrics = pd.DataFrame([*noise, *rows], columns=list(METRIC_COLUMNS))
    (result,) = judge(
        [Claim.model_validate({"id": "c", "metric": "m/arm", "expect": expect, "because": "so", **fields})], metrics
    )
    return result


def test_a_claim_that_takes_more_trials_is_not_judged_by_fewer():
    one = verdict({"at_least": 10}, [10.0], least_trials=5)
    assert (one.verdict, one.measured) == ("not-measurable", 10.0)
    assert one.reason == "1 trial of the 5 that it takes to tell; profile full has more"
    assert verdict({"at_least": 8}, SPREAD, least_trials=5).verdict == "reproduced"
    assert str(verdict({"equals": 0}, [0, 0], least_trials=3).reason).startswith("2 trials of the 3")
    with pytest.raises(ValidationError, match="least_trials"):
        Claim.model_validate({"id": "c", "metric": None, "section": "1", "least_trials": 2})


def test_a_bound_on_what_the_hosts_clock_decides_takes_an_interval():
    """One trial of ±40 % had turned verdicts from one run to the next."""
    arms = {"wall": {"kernel": "classic"}, "virtual": {"kernel": "classic", "clock": "virtual"}}
    metrics = {"timed": "m/wall", "exact": "m/virtual", "never": "m/wall", "said": "m/wall"}
    claims = [
        {"id": name, "metric": metric, "because": "so", "expect": {"equals": 0} if name == "never" else {"at_most": 1}}
        for name, metric in metrics.items()
    ]
    claims[-1]["least_trials"] = 1
    model = made_experiment({"w": "true"}, arms, claims=claims)
    assert [claim.least_trials for claim in model.claims] == [5, None, None, 1]


SPREAD = [8.0, 9.0, 10.0, 11.0, 12.0]  # its interval lies within 8 ... 12


@pytest.mark.parametrize(
    ("expect", "values", "said", "reason"),
    [
        ({"equals": 0}, [0, 0, 0], "reproduced", None),
        ({"equals": 0}, [0], "reproduced", None),
        ({"equals": 0}, [0, 0, 0, 0, 0, 1], "contradicted", "1 of 6 trials differ"),
        ({"equals": 1}, [1.0000001] * 2, "contradicted", "2 of 2 trials differ"),
        ({"between": [8, 12]}, SPREAD, "reproduced", None),
        ({"between": [10, 10]}, [10.0] * 3, "reproduced", None),
        ({"between": [13, 20]}, SPREAD, "contradicted", None),
        ({"between": [1, 7]}, SPREAD, "contradicted", None),
        ({"between": [10, 20]}, SPREAD, "not-measurable", "crosses the bound"),
        ({"between": [9.9, 10.1]}, SPREAD, "not-measurable", "crosses the bound"),
        ({"at_least": 8}, SPREAD, "reproduced", None),
        ({"at_least": 13}, SPREAD, "contradicted", None),
        ({"at_least": 10}, SPREAD, "not-measurable", "no number of trials would tell"),
        ({"at_most": 12}, SPREAD, "reproduced", None),
        ({"at_most": 7}, SPREAD, "contradicted", None),
        ({"at_most": 10.5}, SPREAD, "not-measurable", "too noisy here: the 95 % interval crosses the bound; about 80"),
        ({"at_least": 10}, [10.0], "reproduced", "one trial, no interval"),
        ({"at_most": 9}, [10.0], "contradicted", "one trial, no interval"),
        ({"at_least": 8}, [9.0, 10.0, 11.0], "reproduced", "3 trials, too few for an interval"),
        ({"at_least": 10}, [9.0, 11.0], "not-measurable", "2 trials, too few for an interval"),
        ({"at_most": 8}, [9.0, 11.0], "contradicted", "2 trials, too few for an interval"),
        ({"equals": 0}, [0, NAN], "not-measurable", "because"),
        ({"at_least": 0}, [NAN], "not-measurable", "because"),
        ({"at_most": 1}, [math.inf], "not-measurable", "because"),
        ({"equals": 0}, [], "not-measurable", "arm arm took no part in this run"),
    ],
)
def test_verdicts(expect, values, said, reason):
    result = verdict(expect, values, "because")
    assert result.verdict == said
    assert (reason in result.reason) if reason else result.reason is None
    assert result.trials == len(values)
    if said == "reproduced" and not reason:
        assert result.interval is not None or len(values) == 1


def test_the_result_carries_what_a_reader_needs():
    result = verdict({"between": [8, 12]}, SPREAD, section="3.3", paper="it is ten")
    assert (result.measured, result.unit, result.expected) == (10.0, "us", "8 … 12")
    assert (result.section, result.paper, result.kind) == ("3.3", "it is ten", "paper")
    assert result.interval is not None
    low, high = result.interval
    assert 8 <= low < 10 < high <= 12
    assert ClaimResult.model_validate_json(result.model_dump_json()) == result


# -- claims of the paper and findings of ours ---------------------------------------------------------------


def judged(*claims: dict[str, Any], **values: float) -> dict[str, ClaimResult]:
    rows = [("arm", 0, name, value, "1", None if math.isfinite(value) else "lost") for name, value in values.items()]
    metrics = pd.DataFrame(rows, columns=list(METRIC_COLUMNS))
    models = [Claim.model_validate({"because": "so", **claim}) for claim in claims]
    return {claim.id: claim for claim in judge(models, metrics)}


FINER = {"id": "finer", "paper": "a larger N is finer", "because": None}
COARSER = {"id": "coarser", "kind": "finding", "metric": "step/arm", "expect": {"equals": 128}, "refutes": "finer"}


@pytest.mark.parametrize(
    ("step", "finding", "paper", "reason"),
    [
        (128, "confirmed", "contradicted", "refuted by coarser"),
        (4, "refuted", "not-measurable", "coarser, which would refute it, does not hold"),
        (NAN, "not-measurable", "not-measurable", "coarser: lost"),
    ],
)
def test_a_confirmed_finding_contradicts_the_claim_that_it_refutes(step, finding, paper, reason):
    results = judged(FINER, COARSER, step=step)
    assert (results["coarser"].verdict, results["finer"].verdict) == (finding, paper)
    assert results["finer"].reason == reason


def test_a_claim_that_its_own_metric_bears_out_is_contradicted_all_the_same():
    own = {"id": "finer", "metric": "n/arm", "expect": {"equals": 7}}
    assert judged(own, COARSER, step=128, n=7)["finer"].verdict == "contradicted"
    assert judged(own, COARSER, step=4, n=7)["finer"].verdict == "reproduced"


@pytest.mark.parametrize(
    ("claim", "says"),
    [
        ({"id": "a", "metric": "n/arm", "expect": {"equals": 7}, "refutes": "b"}, "only a finding refutes"),
        ({"id": "a", "kind": "finding"}, "a finding needs metric and expect"),
        ({"id": "a", "metric": "n/arm"}, "give both or neither"),
    ],
)
def test_a_claim_is_whole(claim, says):
    with pytest.raises(ValidationError, match=says):
        Claim.model_validate({"because": "so", **claim})


def test_a_claim_says_how_many_trials_the_host_has_spoilt(tmp_path):
    """They have no row any more, and a verdict by one trial of four is no verdict by four."""
    yaml = YAML.replace("wait_ms/short", "wait_ms/wall")
    folder = experiment_folder(tmp_path, yaml, TIMED)
    spoilt = [("wall", trial) for trial in range(3)]
    made = write_set(tmp_path / "results", folder, {"wall": [5.0] * 4, "short": [1.0]}, disturbed=spoilt)
    timed, fact = made.claims
    assert (timed.verdict, timed.trials, timed.left_out) == ("not-measurable", 1, 3)
    assert (fact.trials, fact.left_out, fact.of_trials) == (1, 0, "")
    told = "1 of 4 trials; 3 left out"
    out = io.StringIO()
    Console(file=out, width=160).print(claims_table("Claims", made.claims))
    assert out.getvalue().count(told) == 1
    assert set_page(made).count(told) == 1
    assert verify(tmp_path / "results", str(made.path), Console(file=out)) == 0


@pytest.mark.parametrize("fidelity", ["kvm", "emulated", "virtual"])
def test_a_verdict_says_what_kind_of_time_it_is_from(tmp_path, fidelity):
    folder = experiment_folder(tmp_path, YAML.replace("/short", "/wall"), ANALYSIS)
    made = write_set(tmp_path / "results", folder, {"wall": [5.0] * 2, "short": [1.0]})
    trials = [trial.model_copy(update={"fidelity": fidelity}) for trial in made.manifest.trials]
    lost = trials[0].model_copy(update={"fidelity": "kvm+pmu", "status": "failed"})
    assert {fidelity_of(claim, [*trials, lost]) for claim in made.claims} == {fidelity}
    out = io.StringIO()
    Console(file=out, width=160).print(claims_table("Claims", made.claims, trials))
    assert (fidelity in out.getvalue()) == (fidelity != "virtual"), "the usual is not said in the terminal"
    object.__setattr__(made.manifest, "trials", trials)
    assert f"2 trials, {fidelity}<" in set_page(made)


def test_a_wall_clock_claim_of_a_kept_waiting_guest_is_not_measurable_unless_its_metric_is_a_fact(tmp_path):
    """A true claim came out contradicted on a busy host: its author had not thought of the host."""
    yaml = YAML.replace("/short", "/wall").replace("{at_most: 200}", "{at_most: 1}, least_trials: 1")
    spoilt = [("wall", trial) for trial in range(2)]
    results = tmp_path / "results"
    for analysis, verdicts in ((UNSAID, ["not-measurable"] * 2), (ANALYSIS, ["contradicted", "reproduced"])):
        folder = experiment_folder(tmp_path, yaml, analysis)
        made = write_set(results, folder, {"wall": [5.0] * 2, "short": [1.0]}, disturbed=spoilt)
        assert [claim.verdict for claim in made.claims] == verdicts
    made = write_set(results, experiment_folder(tmp_path, yaml, UNSAID), {"wall": [5.0] * 2}, disturbed=spoilt)
    assert (made.claims[0].reason or "").endswith("more than 3 % of its time; nothing declares this metric a fact")
