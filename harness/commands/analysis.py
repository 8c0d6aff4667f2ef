# SPDX-License-Identifier: MIT
"""From raw files to tables, metrics, claims, documents and figures on disk: what a run does once, and a check again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from harness.choices import FigureFormat
from harness.errors import KreproError
from harness.experiment.model import Claim
from harness.experiment.trial import TrialRecord
from harness.measure.analysis import Analysis
from harness.measure.claims import ClaimResult, judge
from harness.measure.dimensions import with_dimensions
from harness.measure.trials import TRIALS
from harness.report.figures import figure_style, write_figures
from harness.store.resultset import EXPERIMENT, ResultSet, Writer, read_metrics, read_tables
from harness.store.shown import Shown


@dataclass
class Analysed:
    """What an analysis made of the good trials of a run; `failures`: of what comes after the verdicts."""

    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    metrics: pd.DataFrame = field(default_factory=pd.DataFrame)
    claims: list[ClaimResult] = field(default_factory=list)
    shown: Shown = field(default_factory=Shown)
    failures: list[KreproError] = field(default_factory=list)


def redraw(path: Path, form: FigureFormat, folder: str) -> list[str]:
    """Draw the figures of the set at `path` again, by its own analysis, into `folder`; their paths. RunError if not."""
    result = ResultSet(path)
    with figure_style():
        drawn = Analysis(path / EXPERIMENT).figures(result.tables, result.metrics)
    return [str(written) for written in write_figures(drawn, Path(folder), form)]


def analyse(
    analysis: Analysis, claims: Sequence[Claim], trials: Sequence[TrialRecord], writer: Writer, *, part: str = ""
) -> Analysed:
    """Write all that follows from the good ones of a run's `trials` (at least one) into the set that is being written.

    Tables and metrics are given on as they come back from their files: so every later reader of the set, who has only
    these, gets the same. Whatever goes wrong is an error of the analysis, unless it is the host's (OSError). In tables
    or metrics it is raised; in what shows them it costs that only. `part`: what part of its plan the set is; then no
    claim gets a verdict (`withheld`).
    """
    good = [trial for trial in trials if trial.status == "ok"]
    with analysis.contained("tables()"):
        writer.write_tables(analysis.tables(good), analysis.tables_of(good))
        tables = read_tables(writer.path)
    with analysis.contained("metrics()"):
        writer.write_metrics(with_dimensions(analysis.metrics(tables, claims), good), analysis.declared_metrics)
        metrics = read_metrics(writer.path)
        made = Analysed(tables, metrics, withheld(judge(claims, metrics, tables[TRIALS.name], trials), part))
        writer.write_claims(made.claims)

    def show() -> None:
        papers = analysis.paper(tables, metrics, made.claims)
        shown = Shown.of(papers, analysis.summary(tables, metrics, made.claims))
        writer.write_shown(shown)
        made.shown = shown

    def draw() -> None:
        with figure_style():
            write_figures(analysis.figures(tables, metrics), writer.path / "figures")

    steps: dict[str, Callable[[], None]] = {
        "paper() or summary()": show,
        "profiles() or timeline()": lambda: writer.write_views(analysis.views(tables, metrics)),
        "documents()": lambda: writer.write_documents(analysis.documents(tables, metrics)),
        "figures()": draw,
    }
    for name, step in steps.items():
        try:
            with analysis.contained(name):
                step()
        except KreproError as error:
            made.failures.append(error)
    return made


def withheld(claims: Sequence[ClaimResult], part: str) -> list[ClaimResult]:
    """Of a part of a plan, what was measured without verdicts: a part must not be taken for the whole."""
    if not part:
        return list(claims)
    why = f"the set has {part}; ./inv merge judges the union"
    return [claim.model_copy(update={"verdict": "not-measurable", "reason": why}) for claim in claims]
