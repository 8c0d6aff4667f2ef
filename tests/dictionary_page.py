# SPDX-License-Identifier: MIT
"""The dictionary, which `./inv docs` makes: what every table, column and metric of the experiments means."""

from __future__ import annotations

from collections.abc import Sequence

from harness.experiment.model import experiment_names
from harness.measure.analysis import STANDARD, Analysis
from harness.measure.declared import Metric, Table
from harness.measure.units import MEANINGS
from harness.paths import EXPERIMENTS

HEAD = """\
# Dictionary

Made by `./inv docs` from what the experiments declare. `./inv show SET --verbose` prints the same of a result set, and
its report has it too.

## Units
"""


def dictionary_page() -> str:
    """The whole page."""
    units = _table(("unit", "meaning"), [(f"`{unit}`", meaning) for unit, meaning in MEANINGS.items()])
    parts = [HEAD, units, "\n## Tables of every set\n", *map(_columns, STANDARD)]
    for name in experiment_names():
        analysis = Analysis(EXPERIMENTS / name)
        own = [table for table in analysis.declared_tables if table not in STANDARD]
        parts += [f"\n## {name}\n", _metrics(analysis.declared_metrics), *map(_columns, own)]
    return "\n".join(parts) + "\n"


def _metrics(metrics: Sequence[Metric]) -> str:
    rows = [
        (
            f"`{one.name}[.{one.of.upper()}]`" if one.of else f"`{one.name}`",
            " or ".join(one.units),
            one.direction if one.direction != "neither" else "",
            one.meaning + (" (depends on timing)" if one.spoilt_by_waiting else ""),
        )
        for one in metrics
    ]
    return "### Metrics\n\n" + _table(("metric", "unit", "better", "meaning"), rows)


def _columns(table: Table) -> str:
    rows = [(f"`{one.name}`", one.type, one.unit or "", one.meaning) for one in table.columns]
    return f"\n### `{table.name}`\n\nA row is {table.meaning}.\n\n" + _table(
        ("column", "type", "unit", "meaning"), rows
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    return "\n".join([f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {row} |" for row in cells)])
