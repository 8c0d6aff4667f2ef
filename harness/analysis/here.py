# SPDX-License-Identifier: MIT
"""An analysis that is executed in this process, which then is one that has shut itself in, or a test's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.errors import KreproError
from harness.experiment.claim import Claim
from harness.measure.analysis import Analysis, contained
from harness.measure.claims import ClaimResult
from harness.measure.dimensions import with_dimensions
from harness.report.figures import figure_style, write_figures
from harness.sets.resultset import FIGURES, Writer, read_metrics, read_tables
from harness.sets.shown import Shown
from harness.trial.model import TrialRecord


class Here:
    """As `Hooks`. `wrote` is told when there are new files."""

    def __init__(self, analysis: Analysis, wrote: Callable[[], object] = lambda: None) -> None:
        self.analysis = analysis
        self.path = analysis.path
        self._wrote = wrote

    def measure(self, good: Sequence[TrialRecord], claims: Sequence[Claim], writer: Writer) -> None:
        """As in `Hooks`."""
        with contained(self.path, "tables()"):
            writer.write_tables(self.analysis.tables(good), self.analysis.tables_of(good))
            tables = read_tables(writer.path)
        with contained(self.path, "metrics()"):
            metrics = with_dimensions(self.analysis.metrics(tables, claims), good)
            writer.write_metrics(metrics, self.analysis.declared_metrics)
        self._wrote()

    def show(self, claims: Sequence[ClaimResult], writer: Writer) -> list[KreproError]:
        """As in `Hooks`."""
        analysis = self.analysis
        tables, metrics = read_tables(writer.path), read_metrics(writer.path)

        def show() -> None:
            papers = analysis.paper(tables, metrics, claims)
            writer.write_shown(Shown.of(papers, analysis.summary(tables, metrics, claims)))

        def draw() -> None:
            with figure_style():
                write_figures(analysis.figures(tables, metrics), writer.path / FIGURES)

        steps: dict[str, Callable[[], None]] = {
            "paper() or summary()": show,
            "profiles() or timeline()": lambda: writer.write_views(analysis.views(tables, metrics)),
            "documents()": lambda: writer.write_documents(analysis.documents(tables, metrics)),
            "figures()": draw,
        }
        failures = []
        for name, step in steps.items():
            try:
                with contained(self.path, name):
                    step()
            except KreproError as error:
                failures.append(error)
            self._wrote()
        return failures
