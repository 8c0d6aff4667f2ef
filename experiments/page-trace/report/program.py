# SPDX-License-Identifier: MIT
"""From what a traced program left to the report on it: two passes over its trace, then names, advice and the page."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from harness.errors import RunError
from harness.measure.raw import read_answer
from harness.measure.tracer import NOT_WHOLE, REPORT, Traced

from ..trace.maps import Maps, read_maps
from ..trace.records import Trace
from ..trace.stats import TraceStats
from .measured import Measured, moved
from .names import Names
from .page import Content, Shown, address, duration, write_page
from .spaces import Spaces
from .tiles import Pyramid
from .timeline import program_names, write_timeline
from .told import Told, tell
from .turns import Turns

TOP = 40
MOST_TOLD = 5
#: 1 MiB: of a smaller program most pages are the loader's and the C library's, and none needs to be kept.
SMALL_PAGES = 256
TOO_SMALL = "So small a program needs no advice on what to keep in memory."


def report(program: Traced, trace: Path, out: Path) -> list[str]:
    """Write the page into `out`; what the terminal shows. RunError when the trace has no visits or is damaged."""
    stats = read_answer(program.left / "trace.json", TraceStats)
    spaces = Spaces(Trace(trace))
    measured = Measured(spaces)
    if not measured.totals.visits:
        raise RunError("the program visited no page of data", where=str(trace))
    pages = measured.pages["page"].to_numpy(dtype=np.uint64)
    pyramid = Pyramid(pages, measured.span_ns, measured.totals.visits, out)
    for records in moved(spaces, measured.begin):
        pyramid.add(records)
    maps = maps_of(program.left, spaces)
    names = Names(maps, spaces.main, program.root, program.words[0])
    told = tell(measured, names)
    small = len(measured.pages) < SMALL_PAGES
    advice = [one for one in told.advice if one.kind != "keep" or not small]
    functions = {ip: place.function or place.text for ip, place in told.places.items()}
    left_out: list[str] = []
    if program.time_line:
        programs = program_names(maps, spaces.main, program.words[0])
        left_out = write_timeline(spaces, measured, Turns(_functions(functions, names)), programs, out)
    content = Content(
        title=shlex.join(program.words),
        lead=_lead(measured, stats, len(spaces.threads)),
        warnings=[*program.warnings, *_warnings(stats), *([TOO_SMALL] if small else [])],
        span_ns=measured.span_ns,
        pages=pages,
        regions=told.regions,
        tiles=pyramid.finish(),
        grouped=pyramid.grouped,
        advice=advice,
        working_set=measured.working_set,
        tables=_tables(measured, told, functions),
    )
    write_page(content, out, REPORT)
    if stats.unfit or stats.lost:
        (out / NOT_WHOLE).write_text("".join(f"{line}\n" for line in _warnings(stats)))
    return [content.lead, *content.warnings, *left_out, *(f"{one.kind}: {one.text}" for one in advice[:MOST_TOLD])]


def _functions(known: dict[int, str], names: Names) -> Callable[[Sequence[int]], list[str]]:
    """The functions of instructions: those `known`, and others, which are too rare for the tables."""

    def named(ips: Sequence[int]) -> list[str]:
        places = names.places(ip for ip in ips if ip not in known)
        known.update({ip: place.function or place.text for ip, place in places.items()})
        return [known[ip] for ip in ips]

    return named


def maps_of(folder: Path, spaces: Spaces) -> dict[int, Maps]:
    """The mappings that each program had at its end, by space: the file `maps`, and maps.PID of its children.

    A child that executed nothing has its parent's space, and so its mappings: the parent's stay.
    """
    found = {spaces.main: read_maps(folder / "maps")}
    for tid, space in sorted(spaces.ends.items()):
        file = folder / f"maps.{tid}"
        if space not in found and file.is_file() and file.stat().st_size:  # empty: it was killed while it ended
            found[space] = read_maps(file)
    return found


def _lead(measured: Measured, stats: TraceStats, threads: int) -> str:
    status = "" if stats.exit_status is None else f" It ended with status {stats.exit_status}."
    return (
        f"{measured.totals.visits:,} visits of {len(measured.pages):,} pages of data "
        f"({len(measured.pages) * 4:,} KiB) by {threads} thread{'s' if threads != 1 else ''} "
        f"in {duration(measured.span_ns)} of traced time.{status}"
    )


def _warnings(stats: TraceStats) -> list[str]:
    told = []
    if stats.window > 1:
        told.append(f"A window of {stats.window} pages: visits between them are not in the trace.")
    if stats.lost:
        told.append(f"{stats.lost:,} visits were lost: the tracer did not keep up.")
    if stats.left_out:
        told.append(
            f"{stats.left_out:,} visits at the end are left out: the trace may be no larger (setting output_mib)."
        )
    if stats.gathers:
        told.append(
            f"{stats.gathers:,} visits are of gathers or scatters: pages that one of these comes back to are not seen."
        )
    if stats.unfit:
        told.append(f"{stats.unfit} threads were not seen whole: they have executable data, or an LDT.")
    return told


def _tables(measured: Measured, told: Told, functions: dict[int, str]) -> list[Shown]:
    visits = told.visits.assign(function=[functions[int(ip)] for ip in told.visits["ip"]])
    by_function = visits.groupby("function", sort=False).agg(
        visits=("visits", "sum"), writes=("writes", "sum"), pages=("page", "nunique")
    )
    by_function = by_function.sort_values("visits", ascending=False, kind="stable").head(TOP)
    tables = [
        Shown(
            "functions", "Functions", ("function", "visits", "share", "write", "pages"),
            [(str(name), int(row.visits), _share(row.visits, measured), int(row.writes), int(row.pages))
             for name, row in by_function.iterrows()],
            "Which code the visits began in.",
        ),
        Shown(
            "hot", "Hot pages", ("page", "memory", "visits", "share", "write", "visited by"),
            _hot(measured, visits, told.named), "The pages with most visits, and the functions that visit them most.",
        ),
        Shown(
            "memory", "Memory", ("memory", "pages", "visits", "share", "write"),
            _memory(measured, told.regions), "",
        ),
    ]  # fmt: skip
    sharing = measured.sharing.frame()
    if sharing["tid"].nunique() > 1:
        tables.append(_threads(sharing, measured, told.named))
    return tables


def _hot(measured: Measured, visits: pd.DataFrame, named: Callable[[int], str]) -> list[tuple[object, ...]]:
    top = measured.pages.sort_values("visits", ascending=False, kind="stable").head(TOP)
    there = visits[visits["page"].isin(top["page"])]
    by = there.groupby(["page", "function"], sort=False)["visits"].sum().reset_index()
    rows: list[tuple[object, ...]] = []
    for page, seen, writes in top[["page", "visits", "writes"]].to_numpy(dtype=np.uint64).tolist():
        of = by[by["page"] == page].sort_values("visits", ascending=False, kind="stable").head(3)
        parts = zip(of["function"], of["visits"], strict=True)
        who = ", ".join(f"{name} {count / seen:.0%}" for name, count in parts)
        rows.append((address(page), named(page), seen, _share(seen, measured), writes, who))
    return rows


def _memory(measured: Measured, regions: list[tuple[int, int, str]]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for first, count, name in regions:
        part = measured.pages.iloc[first : first + count]
        seen = int(part["visits"].sum())
        rows.append((name, count, seen, _share(seen, measured), int(part["writes"].sum())))
    return sorted(rows, key=lambda row: -int(str(row[2])))[:TOP]


def _threads(sharing: pd.DataFrame, measured: Measured, named: Callable[[int], str]) -> Shown:
    threads = sharing.groupby("page")["tid"].nunique()
    sharing = sharing.assign(
        shared=sharing["page"].map(threads) > 1, memory=[named(int(page)) for page in sharing["page"]]
    )
    rows = []
    for tid, part in sharing.groupby("tid"):
        seen = int(part["visits"].sum())
        shared = part[part["shared"]]
        most = shared.groupby("memory", sort=False)["visits"].sum().sort_values(ascending=False, kind="stable").head(3)
        rows.append((
            str(tid), seen, _share(seen, measured), len(part), len(shared), int(shared["visits"].sum()),
            ", ".join(f"{name}" for name in most.index),
        ))  # fmt: skip
    columns = ("thread", "visits", "share", "pages", "of them shared", "visits of shared ones", "most of them in")
    return Shown("threads", "Threads", columns, rows, "Which pages several threads visit.")


def _share(visits: float, measured: Measured) -> str:
    return f"{100 * visits / measured.totals.visits:.1f} %"
