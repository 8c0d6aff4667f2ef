"""Li, Wang and Wang (2009): the order of pages that a program touches, by a second page table.

Pure functions of a result set's raw folders: `tables` decodes, `metrics` gives one figure per trial and name, `summary`
and `figures` show them (figures.py draws), `timeline` is for `./inv export`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from .decoding import Trial, known_cases, model, neighbours, runs
from .figures import draw
from .trace.timeline import page_slices

EXACT = "traced"
KEY = ["arm", "trial", "workload"]
UNITS = {
    "slowdown": "1",
    "bytes": "bytes",
    "visits": "visits",
    "lost": "visits",
    "unaccounted": "faults",
    "same_output": "1",
    "exit_status": "1",
    "time_of_lackey": "1",
    "bytes_of_lackey": "1",
    "missing_share": "1",
    "missing": "visits",
    "extra": "visits",
    "unexplained": "visits",
    "explained": "visits",
    "irregular": "1",
    "advice_coverage": "1",
    "advice_accuracy": "1",
}


def tables(trials: Sequence[Trial]) -> dict[str, pd.DataFrame]:
    """Decode every workload of every trial.

    runs        one row per arm, trial, workload: time, bytes, the kernel's counts of page faults, the comparison with
                the oracle
    differences that comparison by class; a row of 0 where there is nothing of a class
    known       one row per case of pageknown: whether it was recorded exactly, and what was wrong
    neighbour   one row per arm and trial: its speed with and without a trace beside it
    and of the arm `traced`: pages, curve, workingset, reuse, kinds, advice, streams, transitions; of its first trial
    map (access model) and visits (the first 20,000 of each workload)
    """
    found, differences = runs(trials)
    made = {"runs": found, "differences": differences, "known": known_cases(trials), "neighbour": neighbours(trials)}
    made |= model([trial for trial in trials if trial.arm == EXACT])
    return {name: table for name, table in made.items() if len(table.columns)}


def metrics(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Long form: arm, trial, metric, value, unit, reason. A metric of a workload is called NAME.WORKLOAD."""
    rows: list[dict[str, Any]] = []
    for row in _compared(tables).to_dict("records"):
        for name in (name for name in UNITS if name in row):
            value, reason = row[name], row.get(f"{name}_reason")
            if pd.isna(value) and not isinstance(reason, str):
                continue  # nothing of the kind in this arm
            key = {"arm": row["arm"], "trial": row["trial"], "metric": f"{name}.{row['workload']}"}
            rows.append(key | {"value": value, "unit": UNITS[name], "reason": reason if pd.isna(value) else None})
    rows += _arm_metrics(tables)
    return pd.DataFrame(rows, columns=["arm", "trial", "metric", "value", "unit", "reason"])


def _compared(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """`runs` with what follows from several arms: trials of one number ran with the same seed."""
    found = tables["runs"]
    found = _beside(found, "plain", {"seconds": "bare_seconds", "output": "bare_output"})
    found = _beside(found, "lackey", {"seconds": "lackey_seconds", "bytes": "lackey_bytes"})
    bare = found["method"] == "plain"
    found["slowdown"] = (found["seconds"] / found["bare_seconds"]).where(~bare)
    same = (found["output"] == found["bare_output"]).astype(float)
    found["same_output"] = same.where(found["bare_output"].notna() & ~bare)
    pages = found["method"] == "trace"
    found["time_of_lackey"] = (found["seconds"] / found["lackey_seconds"]).where(pages)
    found["bytes_of_lackey"] = (found["bytes"] / found["lackey_bytes"]).where(pages)
    found["missing_share"] = found["missing"] / found["oracle"]
    kinds, advice = tables.get("kinds"), tables.get("advice")
    if kinds is not None and advice is not None:
        irregular = kinds[kinds["kind"] == "irregular"].rename(columns={"share": "irregular"})
        near = advice[advice["ahead"] == 1].rename(
            columns={"coverage": "advice_coverage", "accuracy": "advice_accuracy"}
        )
        found = found.merge(irregular[[*KEY, "irregular"]], how="left", on=KEY)
        found = found.merge(near[[*KEY, "advice_coverage", "advice_accuracy"]], how="left", on=KEY)
    return found


def _beside(found: pd.DataFrame, method: str, names: dict[str, str]) -> pd.DataFrame:
    """`found` with columns of the run of the same workload and seed, on the same clock, by another method."""
    on = ["clock", "trial", "workload"]
    mine = found[found["method"] == method]
    return found.merge(mine[[*on, *names]].rename(columns=names), how="left", on=on)


def _arm_metrics(tables: dict[str, pd.DataFrame]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def add(arm: str, trial: int, metric: str, value: float, unit: str) -> None:
        key = {"arm": arm, "trial": trial, "metric": metric, "value": value, "unit": unit}
        rows.append(key | {"reason": None if pd.notna(value) else "could not be measured"})

    for (arm, trial), mine in tables["runs"].groupby(["arm", "trial"]):
        traced = mine[mine["method"] == "trace"]
        if len(traced):
            add(arm, trial, "unaccounted", float(traced["unaccounted"].abs().sum()), "faults")
            add(arm, trial, "lost", float(traced["lost"].sum()), "visits")
            add(arm, trial, "steps", float(traced["steps"].sum()), "instructions")
            # An oracle that is absent is a reason of each workload's own metric.
            if traced["oracle"].notna().all():
                add(arm, trial, "unexplained", float(traced["unexplained"].sum()), "visits")
                add(arm, trial, "missing_share", traced["missing"].sum() / traced["oracle"].sum(), "1")
    compared = _compared(tables)
    for (arm, trial), mine in compared[compared["same_output"].notna()].groupby(["arm", "trial"]):
        add(arm, trial, "same_output", float(mine["same_output"].min()), "1")
    for (arm, trial), mine in tables.get("known", pd.DataFrame(columns=["arm", "trial"])).groupby(["arm", "trial"]):
        add(arm, trial, "known_cases", len(mine), "cases")
        add(arm, trial, "known_wrong", int((mine["wrong"] != "").sum()), "cases")
        add(arm, trial, "unaccounted", float(mine["unaccounted"].abs().sum()), "faults")
        add(arm, trial, "lost", float(mine["lost"].sum()), "visits")
    for row in tables.get("neighbour", pd.DataFrame()).to_dict("records"):
        add(row["arm"], row["trial"], "neighbour_slowdown", row["slowdown"], "1")
        add(row["arm"], row["trial"], "neighbour_slowdown_median", row["slowdown_median"], "1")
    return rows


def summary(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """What the terminal shows."""
    found = _compared(tables)
    shown: dict[str, pd.DataFrame] = {}
    traced = found[found["arm"] == EXACT]
    if len(traced):
        names = ["visits", "slowdown", "bytes", "time_of_lackey", "bytes_of_lackey", "missing", "extra", "unexplained"]
        by = traced.groupby("workload", sort=False)[names].median()
        shown["Traced page by page, medians over trials"] = _short(by.reset_index())
    windows = found[(found["method"] == "trace") & (found["oracle"] > 0)]
    if len(windows) and windows["arm"].nunique() > 1:
        lost = 100 * windows.pivot_table(index="workload", columns="arm", values="missing_share", aggfunc="median")
        shown["Visits that a window misses, %"] = _short(lost.reset_index())
        slow = windows.pivot_table(index="workload", columns="arm", values="slowdown", aggfunc="median")
        shown["Times slower, by window"] = _short(slow.reset_index())
    beside = found[found["bytes_of_lackey"].notna() & (found["clock"] == "virtual")]
    if len(beside):
        for name, title in (("bytes_of_lackey", "Bytes"), ("time_of_lackey", "Time")):
            share = beside.pivot_table(index="workload", columns="arm", values=name, aggfunc="median")
            shown[f"{title} as a share of lackey's, by window"] = _short(share.reset_index())
    if "known" in tables:
        cases = (
            tables["known"]
            .groupby("arm", sort=False)
            .agg(
                cases=("case", "size"),
                exact=("wrong", lambda wrong: int((wrong == "").sum())),
                faults=("faults", "sum"),
            )
        )
        shown["Known sequences"] = cases.reset_index()
    return shown


def _short(table: pd.DataFrame) -> pd.DataFrame:
    """Three digits, and nothing where there is nothing."""
    digits = {
        name: [np.nan if pd.isna(x) else float(f"{x:.3g}") for x in table[name]]
        for name in table.columns
        if table[name].dtype.kind == "f"
    }
    return table.assign(**digits).dropna(axis=1, how="all")


def figures(tables: dict[str, pd.DataFrame]) -> dict[str, Figure]:
    """figures.py draws them."""
    found = tables["runs"]
    drawn = {name: tables[name] for name in ("map", "curve", "workingset", "reuse", "neighbour") if name in tables}
    return draw(drawn | {"cost": found, "loss": found.dropna(subset=["oracle"])})


def timeline(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Page visits of each workload's first trial, one track per region of memory."""
    seen = tables.get("visits", pd.DataFrame(columns=["workload"]))
    parts = [page_slices(mine, str(workload)) for workload, mine in seen.groupby("workload", sort=False)]
    return pd.concat(parts, ignore_index=True) if parts else page_slices(pd.DataFrame(), "")
