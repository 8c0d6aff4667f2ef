# SPDX-License-Identifier: MIT
"""What a run of lock-trace shows: the paper's figures with ours beside them, and small tables of everything."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from harness.measure.trials import LEFT_OUT

from .decoding import PAIR_KINDS
from .locks.comparison import COUNTER
from .run import OTHERS
from .values import PROGRAMS

Tables = Mapping[str, pd.DataFrame]
COLUMNS = ["what", "the paper", "here", "note"]
_TOP = 10
#: What an arm is known by, in every table and figure and on every clock: the way it traces.
TRACES = ("off", "all", "paper", "per-lock", "tracepoint", "contended", "validate", *OTHERS)
#: Cycles of a pair in the paper, mean of 100.
PAPER_CYCLES = {"off": 500, "all": 1500, "paper": 2700}
_WORDS = {"off": "no profiler", "all": "no filter", "paper": "filter"}
#: The cases that the paper says its filter does not handle, and a workload that makes each.
_GAPS = {
    "trace begins in a block": ("inside", "all events pass"),
    "acquired twice": ("recursion", "all events pass"),
    "released twice": ("double", "events are lost"),
}


class _Values:
    """Medians over the trials of an arm."""

    def __init__(self, metrics: pd.DataFrame) -> None:
        self._by = metrics.groupby(["arm", "metric"], sort=False)["value"].median().to_dict()
        told = metrics[metrics["reason"].notna()].drop_duplicates(["arm", "metric"])
        self._why = told.set_index(["arm", "metric"])["reason"].to_dict()

    def get(self, metric: str) -> float:
        """NAME/ARM; NaN: absent."""
        name, _, arm = metric.partition("/")
        return float(self._by.get((arm, name), np.nan))

    def text(self, metric: str, unit: str = "") -> str:
        value = self.get(metric)
        return "—" if np.isnan(value) else f"{_digits(value)}{unit}"

    def note(self, metric: str, otherwise: str) -> str:
        """Why it is absent, in few words; `otherwise`: where it is there."""
        name, _, arm = metric.partition("/")
        if not np.isnan(self.get(metric)):
            return otherwise
        why = str(self._why.get((arm, name), f"arm {arm} took no part"))
        return "host too busy" if why.startswith(LEFT_OUT) else why


def _digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


# -- the paper ---------------------------------------------------------------------------------------------------


def beside_the_paper(metrics: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Each of the paper's figures, with ours."""
    values = _Values(metrics)
    return {
        "Acquire and release of a free spin lock, mean of 100": _pairs(values),
        "How much longer a buffer lasts with the filter": _buffer(values),
        "Share of useful events": _useful(values),
        "Cases that the filter does not handle: events of the lock that pass, by both of the paper's sentences": _gaps(
            values
        ),
        "What cannot be compared": _frame(
            [
                ("lock calls a second", "10⁷ a core", "—", "an industrial program, not told which"),
                ("buffer of 1 GB", "full in 1 s", "—", "ours are small: size changes no ratio"),
                ("writing it to disk", "a minute", "—", "ours are read while the load runs"),
            ]
        ),
    }


def _frame(rows: list[tuple[str, str, str, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=COLUMNS, dtype=object)


def _pairs(values: _Values) -> pd.DataFrame:
    rows = []
    for suffix, unit, cpus in (("", "instructions", "1 CPU"), ("-smp", "cycles", "2 CPUs")):
        for arm, cycles in PAPER_CYCLES.items():
            metric = f"pair_mean100.spin/{arm}{suffix}"
            cost = values.text(metric, f" {unit}")
            rows.append((f"{_WORDS[arm]}, {cpus}", f"{cycles} cycles", cost, values.note(metric, "")))
        for over, under in (("all", "off"), ("paper", "all"), ("paper", "off")):
            metric = f"pair_mean100_of_{under}.spin/{over}{suffix}"
            ratio = f"{PAPER_CYCLES[over] / PAPER_CYCLES[under]:.2g} times"
            what = f"{_WORDS[over]} / {_WORDS[under]}, {cpus}"
            rows.append((what, ratio, values.text(metric, " times"), values.note(metric, "")))
    return _frame(rows)


def _buffer(values: _Values) -> pd.DataFrame:
    rows = []
    for arm in ("paper", "per-lock", "paper-smp", "per-lock-smp"):
        for name, what in (
            ("buffer_work_ratio.buffer-waits", "in work done"),
            ("buffer_ratio.buffer", "at the load's rate"),
            ("first_loss_ratio.buffer", "to the first loss"),
        ):
            metric = f"{name}/{arm}"
            told = "10 to 20 times" if arm.startswith("paper") else "—"
            rows.append((f"{arm}, {what}", told, values.text(metric, " times"), values.note(metric, "")))
    return _frame(rows)


def _useful(values: _Values) -> pd.DataFrame:
    rows = []
    for arm, cpus in (("validate-smp", "2 CPUs"), ("validate", "1 CPU")):
        metric = f"waited_programs/{arm}"
        note = values.note(metric, "in which somebody waited")
        rows.append((f"programs, {cpus}", "about 5 %", _percent(values.get(metric)), note))
    for arm in ("paper-smp", "paper"):
        metric = f"useful_programs/{arm}"
        cpus = "2 CPUs" if arm.endswith("smp") else "1 CPU"
        rows.append(
            (
                f"programs, {cpus}",
                "about 5 %",
                _percent(values.get(metric)),
                values.note(metric, "that pass the filter"),
            )
        )
        for workload in PROGRAMS:
            if not np.isnan(share := values.get(f"useful.{workload}/{arm}")):
                rows.append((f"{workload}, {cpus}", "—", _percent(share), ""))
    return _frame(rows)


def _percent(share: float) -> str:
    return "—" if np.isnan(share) else f"{_digits(100 * share)} %"


def _gaps(values: _Values) -> pd.DataFrame:
    rows = []
    for what, (workload, told) in _GAPS.items():
        metric, ours = (f"gap_kept.{which}.{workload}/validate" for which in ("paper", "per-lock"))
        other = _percent(values.get(f"gap_kept.{COUNTER}.{workload}/validate"))
        note = f"where the counter is 2: {other}; per-lock: {_percent(values.get(ours))}"
        rows.append((what, told, _percent(values.get(metric)), values.note(metric, note)))
    return _frame(rows)


# -- everything --------------------------------------------------------------------------------------------------


def in_short(tables: Tables, metrics: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """What the terminal shows: few columns, one row an arm."""
    shown: dict[str, pd.DataFrame] = {}
    values = _Values(metrics)
    traces = tables["traces"]
    if len(traces):
        by = traces.groupby("arm", sort=False)[["events", "kept", "lost"]].sum().reset_index()
        for name, metric in (("astray", "unbalanced"), ("slower", "slowdown"), ("useful", "useful_programs")):
            by[name] = [values.text(f"{metric}/{arm}") for arm in by["arm"]]
        title = "Traces (astray: events unaccounted for; useful: share while programs run)"
        shown[title] = by
    for suffix, unit in (("", "instructions, 1 CPU"), ("-smp", "cycles, 2 CPUs")):
        costs = {
            arm: [values.text(f"pair.{kind}/{arm}{suffix}") for kind in PAIR_KINDS]
            for arm in ("unpatched", *TRACES)
            if not np.isnan(values.get(f"pair.{PAIR_KINDS[0]}/{arm}{suffix}"))
        }
        if costs:
            shown[f"A pair of acquire and release, {unit}: medians less the readings"] = pd.DataFrame(
                {"lock": PAIR_KINDS} | costs
            )
    filters = tables["filters"]
    if len(filters):
        names = ["selected", "missing", "extra", "different"]
        shown["What each filter kept, against a replay of the full log"] = (
            filters.groupby(["arm", "filter"], sort=False)[["log", *names]]
            .sum(min_count=1)
            .astype(dict.fromkeys(names, "Int64"))
            .reset_index()
        )
    if len(tables["by_hand"]):
        shown["Counted on paper, and by the trace"] = tables["by_hand"][
            ["arm", "workload", "what", "by_hand", "traced"]
        ]
    told = second_opinion(tables)
    if len(told):
        shown["Waits for the module's locks: its own count, the trace's, and the kernel's"] = told
    arm = next((arm for arm in tables["contention"]["arm"].unique() if arm in ("per-lock-smp", "per-lock")), None)
    if arm is not None:
        of_arm = tables["contention"][tables["contention"]["arm"] == arm]
        shown[f"Lock contention, arm {arm}"] = contention_table(of_arm)
        blame = tables["blame"][tables["blame"]["arm"] == arm]
        if len(blame):
            shown[f"Who waited for whom, arm {arm}"] = blame_in_short(blame)
    return shown


def second_opinion(tables: Tables) -> pd.DataFrame:
    """By arm and workload: waits that the module is sure of, and how many it can have made at most; who else counted
    them: the trace, the kernel's contention_begin, LOCK_STAT. A median over trials; of each arm what it has.
    """
    key = ["arm", "trial", "workload"]
    known, told, stat = (tables[name] for name in ("known", "told_waits", "lock_stat"))
    counted = {*told["workload"], *stat["workload"]}
    known = known[(known["quantity"] == "conflicts") & known["workload"].isin(counted)].rename(
        columns={"traced": "trace"}
    )
    told = told.rename(columns={"told": "contention_begin"})
    stat = stat[stat["class"].str.contains("known_", regex=False)].rename(columns={"contentions": "LOCK_STAT"})
    both = pd.concat([known, told, stat])
    names = ["low", "high", "trace", "contention_begin", "LOCK_STAT"]
    sums = both.groupby(key, sort=False)[names].sum(min_count=1).groupby(["arm", "workload"], sort=False).median()
    rows = sums[sums["high"].fillna(sums["LOCK_STAT"]) > 0].reset_index()
    return rows.rename(columns={"low": "module", "high": "at most"}).dropna(axis=1, how="all")


def blame_in_short(blame: pd.DataFrame, top: int = _TOP) -> pd.DataFrame:
    """Waits with who held the lock, by workload, over trials; the rows with most time."""
    key = ["workload", "class", "caller", "holder_caller"]
    sums = blame.groupby(key, sort=False, as_index=False)[["waits", "blamed_total"]].sum()
    first = sums.sort_values(["blamed_total", *key], ascending=[False, *[True] * len(key)]).head(top)
    waited = pd.Series([_time(ns) for ns in first["blamed_total"]], index=first.index)
    first = first.assign(waited=waited).drop(columns="blamed_total")
    return first.rename(columns={"class": "lock", "caller": "waiter", "holder_caller": "holder"}).reset_index(drop=True)


def contention_table(contention: pd.DataFrame, top: int = _TOP) -> pd.DataFrame:
    """As `perf lock contention` prints it: contended, total wait, max wait, avg wait, type, caller. The rows with the
    longest waits, over all trials and workloads.
    """
    how = {"contended_waits": "sum", "contended_wait_total": "sum", "contended_wait_max": "max"}
    waited = contention[contention["contended_waits"] > 0]
    waits = waited.groupby(["type", "caller", "class"], as_index=False).agg(how)
    waits = waits.sort_values(["contended_wait_total", "contended_waits"], ascending=False, kind="stable").head(top)
    mean = waits["contended_wait_total"] / waits["contended_waits"]
    return pd.DataFrame(
        {
            "contended": waits["contended_waits"].astype("int64"),
            "total wait": [_time(value) for value in waits["contended_wait_total"]],
            "max wait": [_time(value) for value in waits["contended_wait_max"]],
            "avg wait": [_time(value) for value in mean],
            "type": waits["type"],
            "caller": waits["caller"],
        }
    ).reset_index(drop=True)


def _time(ns: float) -> str:
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= unit:
            return f"{ns / unit:.2f} {name}"
    return f"{ns:.0f} ns"
