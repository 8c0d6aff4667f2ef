# SPDX-License-Identifier: MIT
"""The small tables that a run shows: stored with the set, so that to show it again nothing of it is executed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
from pydantic import ValidationError, model_validator

from harness.errors import UsageError
from harness.yamlfile import Strict

SHOWN = "shown.json"
Cell = str | bool | int | float | None


class ShownTable(Strict):
    """One table: a title, and rows of cells; an absent value is null."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]

    @model_validator(mode="after")
    def _whole(self) -> ShownTable:
        if len(set(self.columns)) != len(self.columns) or any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"{self.title!a}: a column is there twice, or a row has not one cell for each")
        return self

    @property
    def frame(self) -> pd.DataFrame:
        return pd.DataFrame(self.rows, columns=self.columns)


class Shown(Strict):
    """The paper's own tables with ours beside them, and the experiment's summary."""

    paper: list[ShownTable] = []
    summary: list[ShownTable] = []

    @staticmethod
    def of(paper: Mapping[str, pd.DataFrame], summary: Mapping[str, pd.DataFrame]) -> Shown:
        """Of what the hooks made."""
        return Shown(
            paper=[_table(title, frame) for title, frame in paper.items()],
            summary=[_table(title, frame) for title, frame in summary.items()],
        )

    def text(self) -> str:
        """As it is stored: a line per row."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def read_shown(data: bytes, where: str) -> Shown:
    """UsageError when it differs from what was written."""
    try:
        return Shown.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "(whole file)"
        raise UsageError(f"field {field}: {first['msg']}", where=where) from error


def _table(title: str, frame: pd.DataFrame) -> ShownTable:
    rows = [[_cell(value) for value in row] for row in frame.itertuples(index=False, name=None)]
    return ShownTable(title=title, columns=[str(name) for name in frame.columns], rows=rows)


def _cell(value: Any) -> Cell:
    """A value as JSON has it; what is neither number nor text by its text."""
    if pd.isna(value):
        return None
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, float) and math.isinf(plain):
        return str(plain)
    return plain if isinstance(plain, str | bool | int | float) else str(plain)
