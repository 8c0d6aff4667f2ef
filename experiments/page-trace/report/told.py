# SPDX-License-Identifier: MIT
"""What a trace says in words: what its pages and instructions are called, and the advice on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..trace.records import Words
from .advice import Advice, advise_habits, advise_hot, advise_pairs, advise_passed, advise_threads, habits, together
from .measured import Measured
from .names import Names, Place, rows_of

TOP_PAIRS = 2000
MOST_ADVICE = 12
MOST_OF_A_PAGE = 2048


@dataclass(frozen=True)
class Told:
    """regions: first row, rows and name, where each page has a row; named: what a page belongs to; visits: as
    `Instructions` has them; places: where their instructions are; advice: that about most visits first.
    """

    regions: list[tuple[int, int, str]]
    named: Callable[[int], str]
    visits: pd.DataFrame
    places: dict[int, Place]
    advice: list[Advice]


def tell(measured: Measured, names: Names) -> Told:
    """All of it, of a trace with visits."""
    pages = measured.pages["page"].to_numpy(dtype=np.uint64)
    regions = rows_of(names.regions(pages), pages)
    objects = names.objects(pages)
    named = _namer(pages, regions, objects)
    named_objects = {page: name for page, (name, _) in objects.items()}
    visits, total = measured.instructions.frame(), measured.totals.visits
    places = names.places(int(ip) for ip in visits["ip"].unique())
    found = habits(visits, measured.instructions.strides(), places, named)
    advice = together(
        advise_habits(found, total),
        advise_passed(measured.pages, named, measured.span_ns),
        advise_pairs(measured.transitions.frame(TOP_PAIRS), measured.transitions.total, named_objects),
        advise_threads(measured.sharing.frame(), named),
    )[:MOST_ADVICE]
    own = measured.pages[[not names.library(int(page)) for page in measured.pages["page"]]]
    return Told(regions, named, visits, places, advice + advise_hot(own, len(measured.pages) - len(own), named))


def _namer(
    pages: Words, regions: list[tuple[int, int, str]], objects: dict[int, tuple[str, int]]
) -> Callable[[int], str]:
    """What a page is called: the object that has most of it, else its region."""
    by_page: dict[int, str] = {}
    for first, count, name in regions:
        by_page.update(dict.fromkeys(pages[first : first + count].tolist(), name))
    by_page.update({page: f"{name}[]" for page, (name, size) in objects.items() if size >= MOST_OF_A_PAGE})
    return lambda page: by_page.get(page, "memory")
