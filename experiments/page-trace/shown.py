# SPDX-License-Identifier: MIT
"""Small tables: what the patent says beside what was measured, and the summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from harness.measure.claims import ClaimResult

from .hand import BY_HAND

EXACT = "traced"
WINDOWS = {EXACT: "1", "window-2": "2", "window-4": "4", "window-16": "16"}
Frames = dict[str, pd.DataFrame]


def beside_the_paper(metrics: pd.DataFrame, claims: Sequence[ClaimResult]) -> Frames:
    """The patent's statements row by row, and what the access model would be worth for prefetching."""
    values = _Medians(metrics)
    known = sum(claim.verdict == "confirmed" for claim in claims if claim.metric and "known_wrong" in claim.metric)
    judged = sum(claim.measured is not None for claim in claims if claim.metric and "known_wrong" in claim.metric)
    rows = [
        ("visits that are missing", "none", values.share("missing_share"), "of all, beside the oracle"),
        ("… of the program that misses most", "none", values.share("missing_share_worst"), ""),
        ("known sequences exact", "all", f"on {known} of {judged} machines", "page tables, CPUs"),
        ("pages mapped at once", "1", "several", f"{values.number('steps')} instructions need it"),
        ("times slower: streaming", "< 5", values.number("slowdown.stream"), "5 is cited of Chameleon"),
        ("times slower: matrix product", "< 5", values.number("slowdown.matmul-ijk"), "5 is cited of Chameleon"),
        *(
            (f"time, of lackey's: {name}", "small", values.beside_lackey("time_of_lackey", name), "no figure given")
            for name in ("stream", "matmul-ijk", "sort")
        ),
        *(
            (f"bytes, of lackey's: {name}", "small", values.beside_lackey("bytes_of_lackey", name), "no figure given")
            for name in ("stream", "matmul-ijk", "sort")
        ),
        ("MB per untraced second: matmul", "small", values.number("data_rate.matmul-ijk", 1e-6), "no figure given"),
        ("a neighbour's slowdown", "0", values.share("neighbour_slowdown", "neighbour"), "on another CPU"),
        ("… on the same CPU", "0", values.share("neighbour_slowdown", "neighbour-same-cpu"), "virtual clock"),
        ("time on a page: median error", "0", values.share("dwell_error_worst"), "worst program, tracer's time off"),
        ("accesses from time on a page", "possible", values.share("count_error_worst"), "median error, worst program"),
        ("threads, dirty bits, TLB flushes", "not how", "not compared", "the README says what they take"),
    ]
    shown = {"The patent, and here": pd.DataFrame(rows, columns=["what", "the patent", "here", "note"])}
    programs = values.programs("advice_coverage")
    if programs:
        advice = pd.DataFrame(
            {
                "program": programs,
                "foreseen": [values.of(EXACT, f"advice_coverage.{name}") for name in programs],
                "advice right": [values.of(EXACT, f"advice_accuracy.{name}") for name in programs],
            }
        )
        shown["Prefetching: share of visits foreseen, and of advice that is right"] = _short(advice)
    return shown


def summaries(tables: Mapping[str, pd.DataFrame], metrics: pd.DataFrame) -> Frames:
    """Medians over trials, one row per program."""
    values = _Medians(metrics)
    shown: Frames = {}
    names = {"visits": "visits", "slowdown": "times slower", "missing": "missing", "extra": "extra"}
    programs = values.programs("visits")
    if programs:
        columns = {title: [values.of(EXACT, f"{name}.{one}") for one in programs] for name, title in names.items()}
        shown["Traced page by page"] = _short(pd.DataFrame({"program": programs, **columns}))
    clocks = {"time": "time_of_lackey", "bytes": "bytes_of_lackey"}
    lackey = {f"{what}, {arm}": (arm, name) for arm in (EXACT, "traced-wall") for what, name in clocks.items()}
    shown |= _by_program("Share of lackey's time and bytes", values, lackey)
    shown |= _rivals(values)
    windows = {title: (arm, "missing_share") for arm, title in WINDOWS.items()}
    shown |= _by_program("Share of visits that a window of so many pages misses", values, windows)
    slower = {title: (arm, "slowdown") for arm, title in WINDOWS.items()}
    shown |= _by_program("Times slower, by pages in the window", values, slower)
    errors = {"time as traced": "traced_error", "without the tracer": "dwell_error", "accesses": "count_error"}
    errors |= {"accesses, own rate": "count_error_own", "whole time": "time_error"}
    wrong = {title: (EXACT, name) for title, name in errors.items()}
    shown |= _by_program("Median error of visits of 100 accesses and more", values, wrong)
    said = tables["said"]
    if len(said):
        shown["What the report says of programs that are short of memory"] = said.groupby(
            ["workload", "kind", "subject"], sort=False, as_index=False
        ).agg(share=("share", "max"))
    known = tables["known"]
    shown |= _by_hand(known, tables["second"])
    if len(known):
        cases = known.groupby("arm", sort=False).agg(cases=("case", "size"), exact=("exact", "sum"))
        shown["Known sequences"] = cases.reset_index()
    return shown


def _by_hand(known: pd.DataFrame, second: pd.DataFrame) -> Frames:
    """What a person counted, the trace has, and lackey has; of each case's first trial."""
    # A machine without AVX2 makes no gather.
    ours, lackeys = (table[table["visits"] > 0].drop_duplicates("case").set_index("case") for table in (known, second))
    cases = [case for case in BY_HAND if case in ours.index or case in lackeys.index]
    if not cases:
        return {}
    told = {
        "by hand": [BY_HAND[case].visits for case in cases],
        "page trace": ours["seen"].reindex(cases).to_numpy(dtype="float64"),
        "lackey": lackeys["visits"].reindex(cases).to_numpy(dtype="float64"),
    }
    counted = [BY_HAND[case].how for case in cases]
    return {"Visits counted by hand, and by two instruments": pd.DataFrame({"case": cases, **told, "counted": counted})}


def _rivals(values: _Medians) -> Frames:
    """What each method costs, and how much it tells."""
    arms = {"page trace": EXACT, "window of 16": "window-16", "page faults": "faults", "soft-dirty bits": "soft-dirty"}
    slower = {title: (arm, "slowdown") for title, arm in (arms | {"lackey": "lackey"}).items()}
    size = arms | {"packed": "packed", "lackey's lines of data": "lackey-data"}
    told = {"page faults": ("faults", "told_share"), "soft-dirty bits": ("soft-dirty", "told_share")}
    lackey = {form: ("packed", f"bytes_of_lackey_{form}") for form in ("binary", "packed")}
    off = {"off": ("unpatched", "off_time")}
    return (
        _by_program("Rivals: times as long as untraced", values, slower)
        | _by_program("Rivals: bytes", values, {title: (arm, "bytes") for title, arm in size.items()})
        | _by_program("Rivals: records, of the visits of the page trace", values, told)
        | _by_program("A packed page trace's bytes, of those of lackey's accesses to data", values, lackey)
        | _by_program("Untraced: times as long as on the kernel without patches", values, off)
    )


class _Medians:
    """Medians over an arm's trials; NaN where there is no value."""

    def __init__(self, metrics: pd.DataFrame) -> None:
        values = metrics.dropna(subset=["value"])
        medians: dict[Any, float] = values.groupby(["arm", "metric"], sort=False)["value"].median().to_dict()
        self._values: dict[tuple[str, str], float] = medians

    def of(self, arm: str, metric: str) -> float:
        return float(self._values.get((arm, metric), np.nan))

    def programs(self, family: str, arms: Sequence[str] = (EXACT,)) -> list[str]:
        """The programs that some of the arms have a metric of the family for."""
        names = [name for arm, name in self._values if arm in arms and name.startswith(f"{family}.")]
        return list(dict.fromkeys(name.partition(".")[2] for name in names))

    def number(self, metric: str, factor: float = 1.0, arm: str = EXACT) -> str:
        value = self.of(arm, metric) * factor
        return "not measured" if np.isnan(value) else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"

    def share(self, metric: str, arm: str = EXACT) -> str:
        value = 100 * self.of(arm, metric)
        return "not measured" if np.isnan(value) else f"{value:.2g} %"

    def beside_lackey(self, family: str, program: str) -> str:
        """By the virtual clock where lackey ran so, else by the host's."""
        for arm, clock in ((EXACT, ""), ("traced-wall", ", wall clock")):
            value = self.of(arm, f"{family}.{program}")
            if not np.isnan(value):
                return f"{100 * value:.2g} %{clock}"
        return "not measured"


def _by_program(title: str, values: _Medians, columns: Mapping[str, tuple[str, str]]) -> Frames:
    """A row per program and a column per arm and family, of those that have a value; nothing when none has."""
    arms, families = [arm for arm, _ in columns.values()], {family for _, family in columns.values()}
    programs = list(dict.fromkeys(name for family in sorted(families) for name in values.programs(family, arms)))
    if not programs:
        return {}
    cells = {name: [values.of(arm, f"{family}.{one}") for one in programs] for name, (arm, family) in columns.items()}
    return {title: _short(pd.DataFrame({"program": programs, **cells}))}


def _short(table: pd.DataFrame) -> pd.DataFrame:
    """Three digits, whole numbers as such, and no column where there is nothing."""
    made = table.dropna(axis=1, how="all")
    for name in made.columns[1:]:
        digits = [float(f"{x:.3g}") if abs(x) < 1000 else x for x in made[name]]
        whole = all(float(x).is_integer() for x in digits)
        made = made.assign(**{name: np.array(digits, dtype="int64" if whole else "float64")})
    return made
