# SPDX-License-Identifier: MIT
"""harness.api: sets as pandas tables, and the command lines of runs."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import harness.api as krepro
from harness.api.loading import COMPARED_COLUMNS, SET_COLUMNS
from harness.api.running import _words
from harness.paths import ROOT
from harness.run.request import RunRequest
from tests.result_sets import experiment_folder, write_set

VALUES = {"short": [100.0, 101.0, 103.0], "long": [200.0, None, 190.0]}


@pytest.fixture
def made(tmp_path: Path) -> krepro.Results:
    return krepro.Results(write_set(tmp_path / "results", experiment_folder(tmp_path), VALUES).path)


def test_a_set_is_loaded_by_any_of_its_names(made, tmp_path):
    results = tmp_path / "results"
    for name in ("latest", "waits/latest", made.manifest.id, made.manifest.id[-8:], made.path):
        assert krepro.load(name, results).path == made.path
    with pytest.raises(krepro.UsageError, match="no result set"):
        krepro.load("nothing", results)


def test_the_tables_of_a_set(made):
    assert made.values("wait_ms")["short"].tolist() == VALUES["short"]
    assert made.values("wait_ms")["long"].dropna().tolist() == [200.0, 190.0]
    with pytest.raises(krepro.UsageError, match=r"no metric 'nonsense' \(known: wait_ms, waits, misses\)"):
        made.values("nonsense")
    assert made.claims.loc["counted", ["verdict", "measured", "low"]].tolist() == ["reproduced", 1.0, 1.0]
    assert math.isnan(made.claims.loc["short-enough", "low"])
    assert made.trials.set_index(["arm", "trial"])["status"].to_dict() == {
        **{("short", trial): "ok" for trial in range(3)},
        **{("long", 0): "ok", ("long", 1): "failed", ("long", 2): "ok"},
    }
    assert len(made.tables["waits"]) == 5
    assert made.raw("short", 1) == made.path / "raw/short/1"
    assert (made.raw("short") / "wait").is_file()
    with pytest.raises(krepro.UsageError, match="no trial short 7"):
        made.raw("short", 7)
    assert made.meanings["waits"]["column"].tolist() == ["arm", "trial", "ms", "problem"]
    assert "wait_ms" in made.meanings["metrics"]["metric"].tolist()


def test_reading_executes_nothing_and_changes_nothing(made):
    (made.path / "experiment/analysis.py").write_text("raise SystemExit(9)")
    before = sorted(path for path in made.path.rglob("*"))
    assert made.metrics is made.metrics
    assert len(made.metrics) == 12
    assert sorted(path for path in made.path.rglob("*")) == before


def test_a_damaged_file_is_an_error_that_names_it(made):
    (made.path / "metrics.parquet").write_bytes(b"PAR1")
    with pytest.raises(krepro.RunError, match=r"metrics\.parquet: cannot be read"):
        _ = made.metrics


def test_all_sets(made, tmp_path):
    (tmp_path / "results/waits/20260101T000000.00Z-00000000").mkdir()
    listed = krepro.sets(results=tmp_path / "results")
    assert list(listed.columns) == list(SET_COLUMNS)
    assert listed["id"].tolist() == [made.manifest.id, "20260101T000000.00Z-00000000"]
    assert listed.loc[0, "verdicts"] == {"reproduced": 2}
    assert "manifest.json" in listed.loc[1, "broken"]
    assert krepro.sets("other", tmp_path / "results").empty


def test_comparing_says_what_the_command_says(made):
    table = krepro.compare(made, made, arms=("short", "long"))
    assert list(table.columns) == list(COMPARED_COLUMNS)
    (row,) = table[table["metric"] == "wait_ms"].to_dict("records")
    assert (row["kind"], row["outcome"], row["trials_b"]) == ("ratio", "differs", 2)
    assert row["low"] == min(200 / 100, 190 / 103)
    assert set(krepro.compare(made, made)["outcome"]) == {"identical", "absent"}
    with pytest.raises(krepro.UsageError, match="unknown arm 'middle'"):
        krepro.compare(made, made, arms=("short", "middle"))


def test_options_are_those_of_the_command(tmp_path):
    given = {"experiment": "x", "arms": ["a", "b"], "repetitions": 3, "verbose": True, "fresh": False, "oracle": None}
    words = _words("run", {**given, "results": tmp_path, "check_digest": "reference"})
    assert words[0] == "run"
    assert words[1:] == [
        *("--experiment", "x", "--arms", "a,b", "--repetitions", "3", "--verbose"),
        *("--results", str(tmp_path), "--check-digest", "reference"),
    ]
    assert _words("analyse", {"result": "latest", "with_": "f"})[1:] == ["--result", "latest", "--with", "f"]
    with pytest.raises(krepro.UsageError, match=r"run\(\) has no option arm \(known: experiment, profile, "):
        krepro.run("irq-hotspot", arm="tick")
    assert set(RunRequest.__dataclass_fields__) <= set(re.findall(r"\w+", _unknown()))


def _unknown() -> str:
    with pytest.raises(krepro.UsageError) as caught:
        _words("run", {"nonsense": 1})
    return str(caught.value)


def test_errors_are_exceptions_with_the_line_of_the_terminal(tmp_path, capsys):
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "experiment.yaml").write_text("name: 7\n")
    with pytest.raises(krepro.UsageError) as caught:
        krepro.run(folder, results=tmp_path / "results")
    assert capsys.readouterr().err == "", "it is told once"
    assert [line.partition(" ")[0] for line in str(caught.value).splitlines()] == [f"{folder}/experiment.yaml:1:"] * 4


@pytest.mark.deep
def test_a_set_is_analysed_again_and_a_failed_trial_is_an_error_that_has_the_set(made, tmp_path):
    with pytest.raises(krepro.RunFailed, match=r"1 of 6 trials failed; the first: long 1: lost") as caught:
        krepro.analyse(made, results=tmp_path / "results", quiet=True)
    again = caught.value.results
    assert again is not None
    assert again.path != made.path
    assert again.manifest.analysed_from[0].id == made.manifest.id
    pd.testing.assert_frame_equal(again.metrics, made.metrics)
    assert json.loads((again.path / "claims.json").read_text()) == json.loads((made.path / "claims.json").read_text())


def test_the_page_s_command_prints_all_sets():
    (words,) = re.findall(r"^\.venv/bin/python -c \"(.*)\"$", (ROOT / "docs/python.md").read_text(), re.MULTILINE)
    done = subprocess.run([sys.executable, "-c", words], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.match(r"Empty DataFrame|\s+id ", done.stdout), "one frame, whatever sets there are here"
