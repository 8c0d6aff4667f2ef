# SPDX-License-Identifier: MIT
"""What an experiment measures on the host."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from harness.errors import UsageError
from harness.host.benchmark import listing_beside_json, of_experiment
from tests.result_sets import experiment_folder

BENCH = """
import pandas as pd

def bench(folder, repetitions):
    assert folder.is_dir() and not any(folder.iterdir())
    (folder / "left").touch()
    return {"Loops": pd.DataFrame({"where": [folder.name], "n": [repetitions]})}
"""


def test_an_experiments_own_measurements_are_shown(tmp_path: Path):
    folder = experiment_folder(tmp_path)
    (folder / "bench.py").write_text(BENCH)
    console = Console(record=True, width=100)
    assert of_experiment(str(folder), 7, console) == 0
    shown = console.export_text()
    assert "Loops" in shown
    assert " 7 " in shown


def test_an_experiment_that_measures_nothing_is_told(tmp_path: Path):
    with pytest.raises(UsageError, match="is not there") as error:
        of_experiment(str(experiment_folder(tmp_path)), 1, Console())
    assert "bench.py" in str(error.value)


def test_a_list_is_measured_beside_pythons_reader():
    frame = listing_beside_json(sets=3, repetitions=1)
    assert list(frame.columns) == ["sets", "cpu_s", "json_s", "ratio"]
    assert frame["sets"].tolist() == [3]
