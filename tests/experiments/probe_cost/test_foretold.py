# SPDX-License-Identifier: MIT
"""What is predicted of drawn scripts is of the boot before the one that traces them, and stands when that is over."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

from harness.experiment.model import PREDICTIONS
from tests.golden import Golden, unpack

ORACLE = "the oracle's counts of each run"
TOLD = ["script", "predicted", "low", "high", "firings", "predicted_slowdown"]


@pytest.fixture
def golden(tmp_path) -> Golden:
    made = unpack("probe-cost", tmp_path)
    made.trials = [trial for trial in made.trials if trial.arm in ("virtual", "blind")]
    return made


def problems(found):
    """But that no oracle ran in the second boot."""
    return list(found["problems"].query("part != @ORACLE")["reason"])


def checks(golden: Golden):
    found = golden.tables()
    assert problems(found) == []
    return found["validation"].query("source == 'blind'").reset_index(drop=True)


def test_it_is_made_of_the_first_boot_alone(golden):
    written = (golden.raw("blind") / PREDICTIONS).read_text()
    (first,) = [trial for trial in golden.trials if trial.arm == "virtual"]
    counted = [json.loads(line) for line in (golden.raw("virtual") / "drawn" / "stdout").read_text().splitlines()]
    assert len(counted) == 30
    assert all("took" not in run and run["lap"] == -1 for run in counted), "none of them was traced there"
    shutil.rmtree(golden.raw("blind"))
    assert golden.analysis.predictions([first]) == written


def test_no_traced_figure_reaches_a_prediction(golden):
    before = checks(golden)
    path = golden.raw("blind") / "traced" / "stdout"
    runs = [json.loads(line) for line in path.read_text().splitlines()]
    for run in runs:
        run["took"] = [3 * took for took in run["took"]]
        run |= {"wakes": 2 * run["wakes"] + 7, "pages": 5, "whole": 3, "syscalls": 9, "switches": 9}
        for probe in run["probes"]:
            probe |= {"firings": 5, "hits": 6, "size": 99, "frames": 30.0, "place": 30.0, "by_read": 0.5}
    path.write_text("".join(json.dumps(run) + "\n" for run in runs))
    after = checks(golden)
    assert after[TOLD].equals(before[TOLD])
    assert (after["measured"] > before["measured"]).all()


def test_what_is_written_anew_afterwards_is_refused(golden):
    path = golden.raw("blind") / PREDICTIONS
    (second,) = [trial for trial in golden.trials if trial.arm == "blind"]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == second.params["predictions"]
    told = json.loads(path.read_text())
    told[0]["predicted"] *= 1.01
    path.write_text(json.dumps(told, indent=1) + "\n")
    tables = golden.tables()
    (reason,) = problems(tables)
    assert "is not what the trial was begun with" in reason
    assert tables["validation"].query("source == 'blind'").empty


def test_a_script_that_nothing_was_predicted_of_has_failed(golden):
    path = golden.raw("blind") / "traced" / "stdout"
    text = path.read_text()
    (name, *_) = [json.loads(line)["run"] for line in text.splitlines()]
    path.write_text(text.replace(name, "b0-01-other"))
    row = checks(golden).set_index("script").loc["b0-01-other"]
    assert row["problem"] == "nothing was predicted of it"
