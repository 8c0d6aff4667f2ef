# SPDX-License-Identifier: MIT
"""The page about one traced program: report.html, and a folder tiles/ beside it where there are many."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from ..trace.records import PAGE_SHIFT, Words
from .advice import Advice
from .spaces import PAGE_MASK
from .tiles import COLUMNS, Tiles

HERE = Path(__file__).resolve().parent
#: Bytes of tiles that the page itself has; level 0 is in any case.
MOST_INSIDE = 8 << 20
TILES = "tiles"
#: Tiles of one level, side by side, that a file has.
PER_FILE = 64


@dataclass(frozen=True)
class Shown:
    """A table of the page."""

    id: str
    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    note: str = ""


@dataclass(frozen=True)
class Content:
    """What the page says; `pages` is a row of the picture each, `regions` their first row, rows and name.

    `tiles` by level and number, `grouped` as the pyramid's. `working_set`: pages in each of equal parts of the time.
    """

    title: str
    lead: str
    warnings: Sequence[str]
    span_ns: int
    pages: Words
    regions: Sequence[tuple[int, int, str]]
    tiles: Sequence[Tiles]
    grouped: Sequence[int]
    advice: Sequence[Advice]
    working_set: Sequence[int]
    tables: Sequence[Shown]


def write_page(content: Content, out: Path, report: str) -> None:
    """Write the file `report` in the folder `out`, and tiles beside it."""
    inside: list[tuple[str, str]] = []
    levels = []
    room = MOST_INSIDE
    for number, level in enumerate(content.tiles):
        room -= level.bytes
        here = number == 0 or room >= 0
        levels.append({"group": content.grouped[number], "files": [] if here else sorted(level)})
        for place, text in level.items():
            if here:
                inside.append((f"{number}-{place}", text))
            else:
                (out / TILES).mkdir(exist_ok=True)
                file = f"{number}-{place // PER_FILE}"
                with (out / TILES / f"{file}.js").open("a") as sink:
                    sink.write(f'kept("{file}","{number}-{place}","{text}")\n')
    about = {
        "columns": COLUMNS,
        "per_file": PER_FILE,
        "rows": int(content.pages.size),
        "span_ns": content.span_ns,
        "levels": levels,
        "regions": content.regions,
        "runs": runs(content.pages),
    }
    data = json.dumps(about, separators=(",", ":")).replace("<", "\\u003c")
    most = max(content.working_set, default=0)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    text = environment.from_string((HERE / "page.html.j2").read_text()).render(
        title=content.title,
        lead=content.lead,
        warnings=content.warnings,
        advice=content.advice,
        tables=content.tables,
        intervals=len(content.working_set),
        ws_mean=f"{np.mean(content.working_set) if content.working_set else 0:,.0f}",
        ws_most=f"{most:,}",
        ws_points=_points(content.working_set),
        pages=f"{content.pages.size:,}",
        duration=duration(content.span_ns),
        about=Markup(data),  # noqa: S704  (no < is left)
        inside=[(key, Markup(text)) for key, text in inside],  # noqa: S704  (our own)
        style=Markup((HERE / "page.css").read_text()),  # noqa: S704  (our own)
        script=Markup((HERE / "page.js").read_text()),  # noqa: S704  (our own)
    )
    (out / report).write_text(text)


def runs(pages: Words) -> list[tuple[int, str]]:
    """First row, and first page as text, of pages beside each other; spaces are left out."""
    if not pages.size:
        return [(0, "0")]
    begins = np.flatnonzero(np.concatenate([[True], np.diff(pages) != 1]))
    return [(int(row), str(int(pages[row] & PAGE_MASK))) for row in begins]


def duration(ns: int) -> str:
    """A time for people."""
    for unit, name in ((10**9, "s"), (10**6, "ms"), (10**3, "µs")):
        if ns >= unit:
            return f"{ns / unit:.3g} {name}" if ns < 1000 * unit else f"{ns / unit:,.0f} {name}"
    return f"{ns} ns"


def address(page: int) -> str:
    """A page's first address."""
    return f"{(page & int(PAGE_MASK)) << PAGE_SHIFT:#x}"


def _points(sizes: Sequence[int]) -> str:
    most = max(sizes, default=0) or 1
    step = 1000 / max(1, len(sizes) - 1)
    return " ".join(f"{at * step:.1f},{155 - 150 * size / most:.1f}" for at, size in enumerate(sizes))
