# SPDX-License-Identifier: MIT
"""What all HTML pages share: one file each, no network, no script but our own."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from harness.measure.verdict import SIGNS
from harness.report.terminal import number

TEMPLATES = Path(__file__).resolve().parent / "templates"
ABSENT = "—"


@dataclass(frozen=True)
class Cell:
    """One cell: what it shows, and what it is sorted by where that is not what it shows."""

    text: str
    key: str | None = None


@dataclass(frozen=True)
class TableView:
    """A table as the page shows it: the first rows of `total`."""

    columns: tuple[tuple[str, bool], ...]  # name, whether numeric
    rows: tuple[tuple[Cell, ...], ...]
    total: int


def table_view(frame: pd.DataFrame, most: int) -> TableView:
    """The first `most` rows of a frame as text; an absent value is a dash, never 0."""
    numeric = [pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind) for kind in frame.dtypes]
    rows = (
        tuple(_cell(value, is_number) for value, is_number in zip(row, numeric, strict=True))
        for row in frame.head(most).itertuples(index=False, name=None)
    )
    names = tuple(str(name) for name in frame.columns)
    return TableView(tuple(zip(names, numeric, strict=True)), tuple(rows), len(frame))


def _cell(value: object, is_number: bool) -> Cell:
    text = number(value)
    if not is_number or text == ABSENT:
        return Cell(text)
    exact = repr(float(str(value)))
    return Cell(text, None if math.isfinite(float(exact)) and float(text) == float(exact) else exact)


def render(template: str, *, scripts: Sequence[str] = ("table.js",), beside: Path | None = None, **values: Any) -> str:
    """A page as text, with these of our scripts. Every value is escaped, but for Markup that this package made.

    `beside`: another folder that templates are in, an experiment's own.
    """
    return _environment(scripts, [TEMPLATES, *([beside] if beside else [])]).get_template(template).render(**values)


def _environment(scripts: Sequence[str], folders: Sequence[Path]) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    style, script = (TEMPLATES / "style.css").read_text(), "".join((TEMPLATES / name).read_text() for name in scripts)
    filters: dict[str, Callable[..., Any]] = {"number": number, "sign": lambda verdict: SIGNS[verdict]}
    environment.filters.update(filters)
    # The page says itself that nothing may be loaded and that no other script may run: a set is others' data.
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    environment.globals.update(style=Markup(style), script=Markup(script), policy=policy)  # noqa: S704  (our files)
    return environment


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
