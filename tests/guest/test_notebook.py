# SPDX-License-Identifier: MIT
"""The notebook and the page on Python are true: all of their code runs, on real guests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import harness.api as krepro
from harness.paths import ROOT
from tests.notebook import cells

pytestmark = pytest.mark.deep

NOTEBOOK, PAGE = ROOT / "docs/notebook.ipynb", ROOT / "docs/python.md"


@pytest.mark.parametrize("file", [NOTEBOOK, PAGE], ids=["notebook", "page"])
def test_all_of_the_code_runs(classic, tmp_path, file):
    assert len(cells(file)) >= 1
    shutil.copy(ROOT / "README.md", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "tests.notebook", str(file)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    results = krepro.load("irq-hotspot/latest", tmp_path / "my-results")
    assert set(results.trials["status"]) == {"ok"}
    if file == NOTEBOOK:
        assert "no-such-arm" in done.stdout, "the error that is shown"
        assert results.values("idle_share").shape == (3, 2)


def test_the_notebook_runs_in_jupyters_kernel(classic, tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="Jupyter is no part of the locked packages")
    nbclient = pytest.importorskip("nbclient", reason="Jupyter is no part of the locked packages")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    kernel = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    kernel.execute(env={**os.environ, "PYTHONPATH": str(ROOT)})
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs), "the figure"
    assert any("no-such-arm" in output.get("text", "") for output in outputs), "the error that is shown"
    assert (tmp_path / "my-results/irq-hotspot/latest").is_dir()


def test_a_run_that_fails_has_its_set(classic, tmp_path):
    folder = tmp_path / "fails"
    folder.mkdir()
    (folder / "experiment.yaml").write_text(
        "name: fails\npaper: {authors: [Nobody], year: 2024, title: One arm of two fails}\n"
        "workloads: {good: {command: 'true'}, bad: {command: 'exit 4'}}\n"
        "arms:\n"
        "  good: {kernel: classic, clock: virtual, workloads: [good]}\n"
        "  bad: {kernel: classic, clock: virtual, workloads: [bad]}\n"
    )
    (folder / "analysis.py").write_text(
        "import pandas as pd\n\nfrom harness.measure.rows import METRIC_COLUMNS\n\nTABLES = []\nMETRICS = []\n\n\n"
        "def tables(trials):\n    return {}\n\n\n"
        "def metrics(tables):\n    return pd.DataFrame(columns=METRIC_COLUMNS)\n"
    )
    with pytest.raises(krepro.RunFailed, match="1 of 2 trials failed") as caught:
        krepro.run(folder, results=tmp_path / "results", quiet=True)
    results = caught.value.results
    assert results is not None
    assert results.trials.set_index("arm")["status"].to_dict() == {"good": "ok", "bad": "failed"}
    assert Path(results.path).parent.parent == tmp_path / "results"
