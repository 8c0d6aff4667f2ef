# SPDX-License-Identifier: MIT
"""Mistakes in an analysis.py: whatever they are, they are told as its own, and cost what they must and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.analysis.analyse import Analysed, analyse
from harness.analysis.here import Here
from harness.errors import KreproError, RunError, UsageError
from harness.experiment.model import load_experiment
from harness.measure.analysis import Analysis, contained
from harness.report.figures import write_figures
from harness.sets.resultset import Writer
from tests.result_sets import ANALYSIS, experiment_folder, record

FRAME = 'pd.DataFrame({"arm": ["short"], "trial": [0], "ms": [1.0], "problem": [None]})'
ROW = '{"arm": "short", "trial": 0, "metric": "wait_ms", "value": 1.0, "unit": "ms", "reason": None}'

#: Each costs the verdicts: nothing follows from tables or metrics that are wrong.
FATAL = {
    "mixed types in a column": f"def tables(trials): return {{'waits': {FRAME}.assign(ms=[[1, 'x']])}}",
    "a number among texts": f"def tables(trials): return {{'waits': {FRAME}.assign(problem=[7])}}",
    "a column twice": f"def tables(trials): return {{'waits': pd.concat([{FRAME}, {FRAME}[['ms']]], axis=1)}}",
    "a cell that is a dict": f"def tables(trials): return {{'waits': {FRAME}.assign(problem=[{{'a': 1}}])}}",
    "a whole number of more than 64 bits": f"def tables(trials): return {{'waits': {FRAME}.assign(trial=[2**70])}}",
    "a table's name with a slash": f"def tables(trials): return {{'waits': {FRAME}, '../../x': {FRAME}}}",
    "a table's name that is none": f"def tables(trials): return {{'waits': {FRAME}, None: {FRAME}}}",
    "half a surrogate pair in a text": f"def tables(trials): return {{'waits': {FRAME}.assign(problem=['\\ud800'])}}",
    "no tables at all": "def tables(trials): return None",
    "sys.exit in tables": "def tables(trials): import sys; sys.exit(0)",
    "recursion": "def tables(trials): return tables(trials)",
    "text in value": f"def metrics(tables): return pd.DataFrame([{ROW} | {{'value': 'many'}}])",
    "text in trial": f"def metrics(tables): return pd.DataFrame([{ROW} | {{'trial': 'first'}}])",
    "NaN in trial": f"def metrics(tables): return pd.DataFrame([{ROW} | {{'trial': float('nan')}}])",
    "infinity in trial": f"def metrics(tables): return pd.DataFrame([{ROW} | {{'trial': float('inf')}}])",
    "NaN in value without a reason": f"def metrics(tables): return pd.DataFrame([{ROW} | {{'value': float('nan')}}])",
    "a list in value": f"def metrics(tables): return pd.DataFrame([{ROW} | {{'value': [1, 2]}}])",
    "a metric of more than 64 bits": f"def metrics(tables): return pd.DataFrame([{ROW} | {{'trial': 2**70}}])",
    "a metric that is given twice": f"def metrics(tables): return pd.DataFrame([{ROW}, {ROW}])",
    "a metrics column twice": f"def metrics(tables): return pd.concat([pd.DataFrame([{ROW}])] * 2, axis=1)",
    "sys.exit in metrics": "def metrics(tables): import sys; sys.exit(1)",
}
#: Each costs what it would have shown.
SHOWN = {
    "figures() gives Axes": "def figures(tables): return {'a': Figure().subplots()}",
    "figures() gives a list": "def figures(tables): return [Figure()]",
    "mathtext that is none": "def figures(tables): f = Figure(); f.suptitle(r'$\\frac{1$'); return {'a': f}",
    "a figure's name with a slash": "def figures(tables): return {'../a': Figure()}",
    "sys.exit in figures": "def figures(tables): import sys; sys.exit(1)",
    "sys.exit while drawing": """
class Ends(Figure):
    def draw(self, renderer):
        raise SystemExit(1)

def figures(tables): return {'a': Ends()}
""",
    "a summary of half a surrogate": "def summary(tables): return {'a': pd.DataFrame({'x': ['\\ud800']})}",
    "a summary with a cell that is a list": "def summary(tables): return {'a': pd.DataFrame({'x': [[1, 2]]})}",
    "a document with NaN": "def documents(tables): return {'a': float('nan')}",
    "a document of half a surrogate": "def documents(tables): return {'a': '\\ud800'}",
    "a document of itself": "def documents(tables): a = []; a.append(a); return {'a': a}",
}


def analysed(tmp_path: Path, mistake: str) -> tuple[Analysed, Path]:
    folder = experiment_folder(tmp_path, analysis=f"{ANALYSIS}\n\n{mistake}\n")
    root = tmp_path / "set"
    (root / "raw/short/0").mkdir(parents=True)
    (root / "raw/short/0/wait").write_text("100.0")
    trial = record("short", 0, "virtual", failed=False).relocated(root)
    return analyse(Here(Analysis(folder)), load_experiment(folder).claims, [trial], Writer(root, root)), root


def check(error: KreproError) -> None:
    assert "analysis.py" in str(error.where)
    assert "bug of krepro" not in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("mistake", FATAL.values(), ids=FATAL.keys())
def test_a_mistake_before_the_verdicts_is_one_error_of_the_analysis(tmp_path, mistake):
    with pytest.raises((RunError, UsageError)) as caught:
        analysed(tmp_path, mistake)
    check(caught.value)
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "x.parquet").exists()


@pytest.mark.parametrize("mistake", SHOWN.values(), ids=SHOWN.keys())
def test_a_mistake_after_the_verdicts_costs_what_it_would_have_shown(tmp_path, mistake):
    made, root = analysed(tmp_path, mistake)
    assert [claim.verdict for claim in made.claims] == ["reproduced", "reproduced"]
    (error,) = made.failures
    check(error)
    left = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file() and not path.stat().st_size}
    assert not left, "nothing half-written"


def test_an_error_of_the_host_is_none_of_the_analysis(tmp_path):
    mistake = "def figures(tables): import errno; raise OSError(errno.ENOSPC, 'No space left on device')"
    with pytest.raises(RunError, match="figures"):  # raised inside a hook it is the hook's all the same
        raise analysed(tmp_path / "a", mistake)[0].failures[0]
    folder = experiment_folder(tmp_path / "b")

    def full() -> None:
        with contained(folder / "analysis.py", "tables()"):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        full()


def test_a_figure_that_cannot_be_drawn_leaves_no_file(tmp_path):
    from matplotlib.figure import Figure

    bad = Figure()
    bad.suptitle(r"$\frac{1$")
    with pytest.raises(RunError, match="figure a cannot be drawn: ValueError"):
        write_figures({"a": bad}, tmp_path)
    assert not list(tmp_path.iterdir())
