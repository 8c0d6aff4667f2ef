# SPDX-License-Identifier: MIT
"""Writing reports: one set's page, or an index of all sets with a page for each of the newest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from harness.artefacts.store import usable
from harness.errors import KreproError, UsageError
from harness.measure.verdict import VERDICTS
from harness.progress import step
from harness.report.history import (
    MOST,
    Entry,
    MetricHistory,
    VerdictHistory,
    experiments,
    metric_histories,
    verdict_histories,
)
from harness.report.html import render
from harness.report.page import set_page
from harness.report.sparkline import sparkline, verdict_strip
from harness.report.terminal import number
from harness.sets.resultset import ResultSet

#: Folder of the site, beside the experiments' folders of sets; a finished set itself gets no file.
SITE = "reports"
INDEX = "index.html"


@dataclass(frozen=True)
class SetRow:
    """One set in the index."""

    entry: Entry
    page: str | None
    counts: tuple[tuple[str, int], ...]
    changes: tuple[tuple[str, str, str], ...]  # claim, from, to


@dataclass(frozen=True)
class ExperimentView:
    """One experiment in the index, newest sets first."""

    name: str
    sets: tuple[SetRow, ...]
    claims: tuple[tuple[VerdictHistory, Markup], ...]
    metrics: tuple[tuple[MetricHistory, Markup, dict[str, Any]], ...]
    shown: int  # sets in the histories


def write_report(result: ResultSet, results: Path, out: Path | None) -> Path:
    """Write one set's page to the file `out`, or into the site below `results`; the path written."""
    path = out or _page(results / SITE, result.manifest.experiment.name, result.manifest.id)
    if path.is_dir():
        raise UsageError("is a folder", where=str(path), hint="--out takes a file for one set")
    there = out is None and (path.parent.parent / INDEX).exists()
    _write(path, set_page(result, f"../{INDEX}" if there else None))
    return path


def page_of(result: ResultSet, results: Path) -> Path | None:
    """The page of a set in the site below `results`; None where there is none yet."""
    path = _page(results / SITE, result.manifest.experiment.name, result.manifest.id)
    return path if path.is_file() else None


def write_site(results: Path, out: Path | None, pages: int) -> Path:
    """Write the index of all sets below `results` into the folder `out`, and pages for the newest `pages` sets of
    each experiment that have none yet with a link to it (a set never changes); the index's path.
    """
    site = out or results / SITE
    if site.is_file():
        raise UsageError("is a file", where=str(site), hint="--out takes a folder for the index")
    found = experiments(results)
    if not found:
        raise UsageError("there is no result set yet", where=str(results), hint="./inv run experiment=NAME")
    for name, entries in found.items():
        found[name] = _with_pages(site, entries, pages)
    path = site / INDEX
    _write(path, _index_page(site, found))
    return path


def _with_pages(site: Path, entries: Sequence[Entry], pages: int) -> list[Entry]:
    """The entries after pages were written; one whose files cannot be read is known as broken from then on."""
    good = [entry for entry in entries if entry.problem is None]
    wanted = [entry for entry in good[len(good) - min(pages, len(good)) :] if not _is_linked(_page_of(site, entry))]
    problems = {}
    with step("pages", len(wanted)) as progress:
        for entry in wanted:
            try:
                _write(_page_of(site, entry), set_page(ResultSet(entry.path), f"../{INDEX}"))
            except KreproError as error:
                problems[entry.id] = str(error).replace(f"{entry.path}/", "")
            progress.advance()
    return [replace(entry, problem=problems.get(entry.id, entry.problem)) for entry in entries]


def _is_linked(page: Path) -> bool:
    """Whether there is this page with a link to the index: one that a run wrote before there was an index has none."""
    return page.is_file() and f'href="../{INDEX}"' in page.read_text(encoding="utf-8", errors="replace")


def _index_page(site: Path, found: dict[str, list[Entry]]) -> str:
    views = [_view(site, name, entries) for name, entries in found.items()]
    return render(
        "index.html.j2",
        views=views,
        total=sum(len(view.sets) for view in views),
        verdicts=VERDICTS,
    )


def _view(site: Path, name: str, entries: Sequence[Entry]) -> ExperimentView:
    good = [entry for entry in entries if entry.problem is None]
    recent = good[-MOST:]
    claims = verdict_histories(recent)
    by_set: dict[str, list[tuple[str, str, str]]] = {}
    for history in claims:
        for where, before, after in history.changes:
            by_set.setdefault(where, []).append((history.claim.id, before, after))
    rows = [_row(site, entry, by_set.get(entry.id, [])) for entry in reversed(entries)]
    return ExperimentView(
        name=name,
        sets=tuple(rows),
        claims=tuple((history, verdict_strip(history.verdicts, _told(history))) for history in claims),
        metrics=tuple(_metric(history) for history in metric_histories(recent)),
        shown=len(recent),
    )


def _row(site: Path, entry: Entry, changes: Sequence[tuple[str, str, str]]) -> SetRow:
    page = _page_of(site, entry)
    counts = tuple((word, sum(claim.verdict == word for claim in entry.claims)) for word in VERDICTS)
    return SetRow(entry, page.relative_to(site).as_posix() if page.exists() else None, counts, tuple(changes))


def _told(history: VerdictHistory) -> str:
    judged = [verdict for verdict in history.verdicts if verdict is not None]
    counts = ", ".join(f"{judged.count(word)} {word}" for word in VERDICTS if word in judged)
    return f"{history.claim.id}: {counts or 'never judged'}"


def _metric(history: MetricHistory) -> tuple[MetricHistory, Markup, dict[str, Any]]:
    known = history.values[np.isfinite(history.values)]
    about: dict[str, Any] = {"sets": known.size, "last": None, "least": None, "most": None}
    if known.size:
        about |= {"last": float(known[-1]), "least": float(known.min()), "most": float(known.max())}
    title = f"{history.metric} of {history.arm}: {known.size} sets, {number(about['least'])} to {number(about['most'])}"
    return history, sparkline(history.values, history.breaks, title), about


def _page_of(site: Path, entry: Entry) -> Path:
    return _page(site, entry.experiment, entry.id)


def _page(site: Path, experiment: str, name: str) -> Path:
    return site / experiment / f"{name}.html"


def _write(path: Path, text: str) -> None:
    """The whole page or the one before: a reader may look while a nightly run writes."""
    with usable(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
