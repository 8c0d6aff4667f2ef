# SPDX-License-Identifier: MIT
"""Measured figures in READMEs: each names the file that it is in, in a comment that no reader of the page sees.

`1.90<!-- filter-costs-more -->` is the claim's value in results/reference/NAME/values.json, with ` low` or ` high`
behind the name an end of its interval. `13<!-- pair.spin/off -->` is the metric's median over the arm's trials in
tests/golden/NAME. Behind a percent sign the value is a share. Outside of an experiment's own README it is `NAME:…`.

`<!-- given: WHY -->` says that numbers are no results of runs here: of its line, or alone on a line, of the section.

`./inv test --unit -k readme_figures --update` writes what the files have, with as many digits as before.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from harness.sets.reference import REFERENCES
from harness.sets.values import load_values
from tests.golden import GOLDEN

MARKED = re.compile(
    r"(?P<number>-?\d[\d,]*(?:\.\d+)?)(?P<share> ?%)?<!-- (?P<name>(?!given)\S+)(?P<end> low| high)? -->"
)
GIVEN = re.compile(r"<!-- given: [^>]+ -->")
#: What looks measured: with a decimal point, a comma of thousands or a percent sign.
LOOKS = re.compile(r"(?<![\w.])(?<!\w-)-?(?:\d+\.\d+|\d{1,3}(?:,\d{3})+|\d+(?= %|%))(?![\w.]*\d)")
#: Versions, of kernels and QEMU, and numbers of sections.
VERSION = re.compile(
    r"\b(?:Linux|Debian|QEMU|kernel|before|since|[Ss]ections?|[Ii]n|from|on|of|with|own|§)(?:'s)? \d+\.\d+(?:\.\d+)*"
)


def figures(page: Path, text: str) -> Iterator[tuple[str, str]]:
    """Each marked figure as it stands there, and as its file has it; KeyError where no file has it."""
    for one in MARKED.finditer(text):
        yield one[0], _written(page, one)


def updated(page: Path, text: str) -> str:
    """The page with what the files have."""
    return MARKED.sub(lambda one: _written(page, one), text)


def unmarked(text: str) -> list[str]:
    """Lines with numbers that look measured, name no file and are not said to be given."""
    found, level, given, fenced = [], 0, 99, False
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        if head := re.match(r"(#+) ", line):
            level = len(head[1])
            given = 99 if level <= given else given
            continue
        if GIVEN.fullmatch(line.strip()):
            given = level
        if level >= given or GIVEN.search(line):
            continue
        bare = re.sub(r"`[^`]*`|\]\([^)]*\)|https?:\S+|\d{4}-\d\d-\d\d", " ", MARKED.sub(" ", line))
        if LOOKS.search(VERSION.sub(" ", bare)):
            found.append(line)
    return found


def _written(page: Path, one: re.Match[str]) -> str:
    experiment, _, name = one["name"].rpartition(":")
    value = _value(experiment or page.parent.name, name, (one["end"] or "").strip()) * (100 if one["share"] else 1)
    return rounded(value, one["number"]) + one[0][len(one["number"]) :]


def rounded(value: float, printed: str) -> str:
    """The value with as many digits behind the point as were printed."""
    return f"{round(value, len(printed.partition('.')[2])) + 0.0:,.{len(printed.partition('.')[2])}f}"


def _value(experiment: str, name: str, end: str) -> float:
    values = _golden(experiment).get(name) if "/" in name else _reference(experiment).get(name + end)
    if not values:
        raise KeyError(f"{experiment}: no file has {name} {end}".strip())
    return statistics.median(values)


@cache
def _reference(experiment: str) -> dict[str, list[float]]:
    values = load_values(REFERENCES / experiment)
    found: dict[str, list[float]] = {}
    for claim in values.claims if values else ():
        if claim.measured is not None:
            found[claim.id] = [claim.measured]
        if claim.interval is not None:
            found[claim.id + "low"], found[claim.id + "high"] = [claim.interval[0]], [claim.interval[1]]
    return found


@cache
def _golden(experiment: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for arm, _, metric, value, *_ in json.loads((GOLDEN / experiment / "expected.json").read_text())["metrics"]:
        if value is not None:
            found.setdefault(f"{metric}/{arm}", []).append(value)
    return found
