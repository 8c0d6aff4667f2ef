# SPDX-License-Identifier: MIT
"""Tables and metrics as Parquet files that carry what their columns mean."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import UsageError
from harness.measure.declared import Metric, Table, dictionary, metric_of, table_of

TABLE_KEY, METRICS_KEY = b"krepro.table", b"krepro.metrics"
_ARROW = {
    "string": pa.string(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
}


def write_table(frame: pd.DataFrame, declared: Table, path: Path) -> None:
    """`frame`, typed by `declared`, without an index; unit and meaning stand in each column's metadata too."""
    fields = [
        pa.field(column.name, _ARROW[column.type], metadata=_texts(unit=column.unit, meaning=column.meaning))
        for column in declared.columns
    ]
    schema = pa.schema(fields, metadata={TABLE_KEY: _json(dictionary(declared))})
    _write(frame, schema, path)


def write_metrics(frame: pd.DataFrame, declared: Sequence[Metric], path: Path) -> None:
    """METRIC_COLUMNS and those of dimensions, and the declarations of the families."""
    fields = [pa.field(name, _ARROW.get(str(dtype), pa.string())) for name, dtype in frame.dtypes.items()]
    _write(frame, pa.schema(fields, metadata={METRICS_KEY: _json([dictionary(metric) for metric in declared])}), path)


def declared_table(path: Path) -> Table | None:
    """What a table's file says of its columns; None in a file that is older than declarations."""
    stored = _stored(path, TABLE_KEY)
    with _as_declared(path):
        return None if stored is None else table_of(stored)


def declared_metrics(path: Path) -> list[Metric]:
    """What the file says of its families; none in a file that is older than declarations."""
    stored = _stored(path, METRICS_KEY)
    with _as_declared(path):
        return [metric_of(one) for one in stored or []]


@contextmanager
def _as_declared(path: Path) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"its declarations cannot be read: {error!r}", where=str(path)) from error


def _write(frame: pd.DataFrame, schema: pa.Schema, path: Path) -> None:
    try:
        table = pa.Table.from_pandas(frame.reset_index(drop=True), schema=schema, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError, OverflowError, UnicodeError) as error:
        raise UsageError(f"{path.stem} cannot be written: {' '.join(str(error).split())}") from error
    pq.write_table(table.replace_schema_metadata(schema.metadata), path)


def _stored(path: Path, key: bytes) -> Any:
    try:
        metadata = pq.read_schema(path).metadata or {}
        return json.loads(metadata[key]) if key in metadata else None
    except (OSError, ValueError, RecursionError, pa.ArrowException) as error:
        raise UsageError(f"cannot be read: {error}", where=str(path)) from error


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _texts(**values: str | None) -> Mapping[str, str]:
    return {name: value for name, value in values.items() if value is not None}
