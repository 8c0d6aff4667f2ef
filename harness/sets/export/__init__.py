# SPDX-License-Identifier: MIT
"""Result sets in formats that other tools read. Equal sets give equal bytes, whenever and wherever they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from harness.artefacts.store import usable
from harness.choices import ExportFormat
from harness.errors import UsageError
from harness.measure.claims import ClaimResult
from harness.scratch import scratch_space
from harness.sets.export.crate import write_crate
from harness.sets.export.perfetto import write_perfetto
from harness.sets.export.speedscope import write_speedscope
from harness.sets.resultset import ResultSet


def write_csv(result: ResultSet, folder: Path) -> None:
    """A folder of NAME.csv for each table, metrics.csv and claims.csv: RFC 4180, UTF-8, an absent value is empty.

    Numbers have as many digits as it takes to read the same value back.
    """
    _write_all(result, folder, "csv", lambda frame, path: frame.to_csv(path, index=False, lineterminator="\r\n"))


def write_parquet(result: ResultSet, folder: Path) -> None:
    """The same as NAME.parquet."""
    _write_all(result, folder, "parquet", lambda frame, path: frame.to_parquet(path, index=False))


def _write_all(result: ResultSet, folder: Path, ending: str, write: Callable[[pd.DataFrame, Path], None]) -> None:
    tables = folder / "tables"
    tables.mkdir(parents=True)
    for name, frame in result.tables.items():
        write(frame, tables / f"{name}.{ending}")
    metrics = result.metrics
    if not metrics.empty:
        write(metrics, folder / f"metrics.{ending}")
    write(_claims(result), folder / f"claims.{ending}")


def _claims(result: ResultSet) -> pd.DataFrame:
    """The claims as rows; the interval as two columns."""
    columns = [*ClaimResult.model_fields]
    place = columns.index("interval")
    columns[place : place + 1] = ["interval_low", "interval_high"]
    rows = []
    for claim in result.claims:
        low, high = claim.interval or (None, None)
        rows.append(claim.model_dump() | {"interval_low": low, "interval_high": high})
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype(dict.fromkeys(("measured", "interval_low", "interval_high"), "float64"))


#: What each format is called where no name is asked for, and what writes it to a path that is not there yet.
_FORMATS: Mapping[ExportFormat, tuple[str, Callable[[ResultSet, Path], None]]] = {
    "csv": ("-csv", write_csv),
    "parquet": ("-parquet", write_parquet),
    "ro-crate": ("-ro-crate", write_crate),
    "speedscope": (".speedscope.json", write_speedscope),
    "perfetto": (".trace.json", write_perfetto),
}


def export(result: ResultSet, form: ExportFormat, out: Path | None) -> Path:
    """Write a set as `form` to `out`, or to a file or folder in the working directory named by the set; the path.

    UsageError when that is there already, or when the set has nothing for this format. What is written appears whole
    or not at all.
    """
    ending, write = _FORMATS[form]
    path = out or Path.cwd() / f"{result.manifest.experiment.name}-{result.manifest.id}{ending}"
    if path.exists():
        raise UsageError("is there already", where=str(path), hint="remove it, or choose another with --out")
    if path.resolve().is_relative_to(result.path):
        raise UsageError("lies in the result set, which never changes", where=str(path), hint="--out")
    with usable(path.parent), scratch_space("export", path.parent) as scratch:
        write(result, scratch / path.name)
        (scratch / path.name).rename(path)
    return path
