# SPDX-License-Identifier: MIT
"""The dictionary of a result set: what every column of its tables and every family of its metrics means."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from rich.console import Console

from harness.measure.declared import Metric, Table
from harness.report.terminal import frame_table


def column_frame(table: Table) -> pd.DataFrame:
    """One row per column: column, type, unit, meaning."""
    rows = [(one.name, one.type, one.unit or "", one.meaning) for one in table.columns]
    return pd.DataFrame(rows, columns=["column", "type", "unit", "meaning"])


def metric_frame(metrics: Sequence[Metric]) -> pd.DataFrame:
    """One row per family: metric, unit, better, meaning."""
    rows = [
        (
            f"{one.name}[.{one.of.upper()}]" if one.of else one.name,
            " or ".join(one.units),
            one.direction if one.direction != "neither" else "",
            one.meaning + (" (left out where the host disturbed the trial)" if one.spoilt_by_waiting else ""),
        )
        for one in metrics
    ]
    return pd.DataFrame(rows, columns=["metric", "unit", "better", "meaning"])


def print_columns(console: Console, tables: Sequence[Table], metrics: Sequence[Metric]) -> None:
    """All of them; a set that is older than declarations has none, and that is said."""
    if not tables and not metrics:
        console.print("no declarations: this set is older than they are")
    for table in tables:
        console.print(frame_table(f"{table.name}: {table.meaning}", column_frame(table), most=None))
    if metrics:
        console.print(frame_table("Metrics", metric_frame(metrics), most=None))
