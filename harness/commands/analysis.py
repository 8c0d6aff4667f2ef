"""From raw files to tables, metrics, documents and figures on disk: what a run does once, and a verification again."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from harness.experiment.trial import TrialRecord
from harness.measure.analysis import Analysis
from harness.report.figures import figure_style, write_figures
from harness.store.resultset import Writer, read_metrics, read_tables


def analyse(
    analysis: Analysis, trials: Sequence[TrialRecord], writer: Writer
) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Write tables, metrics, documents and figures of `trials` (at least one) into the set that is being written.

    Tables and metrics are returned as they come back from their files, and metrics and figures are made of such
    tables: so every later reader of the set, who has only these, gets the same.
    """
    writer.write_tables(analysis.tables(trials))
    tables = read_tables(writer.path)
    writer.write_metrics(analysis.metrics(tables))
    writer.write_documents(analysis.documents(tables))
    with figure_style():
        figures = analysis.figures(tables)
    write_figures(figures, writer.path / "figures")
    return tables, read_metrics(writer.path)
