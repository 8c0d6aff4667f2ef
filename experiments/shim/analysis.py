"""Yang, Blackburn and McKinley (2015): performance microscopy from a neighbouring CPU.

Pure functions of a result set's raw folders: `tables` decodes (decoding.py), `metrics` gives one figure per trial and
name, `summary` and `figures` show them (figures.py draws), `timeline` and `profiles` are for `./inv export`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from .decoding import decode
from .figures import draw
from .found import Trial

METRIC = ["arm", "trial", "metric", "value", "unit", "reason"]


def tables(trials: Sequence[Trial]) -> dict[str, pd.DataFrame]:
    """Decode every workload of every trial.

    trials    one row per trial: parameters, the host's wait share, `marked`: why it is left out of claims, or null
    measured  one row per value, before marked trials are left out
    runs      one row per run of the observer: samples, periods, trusted windows, switches
    counters  counters used and refused, with their check
    events    what `shim list` says
    periods   histogram of the period of each run, cycles
    recheck   the trust test done again on the samples, against the program's flags
    delays    delays that were put into samples
    host      how the host ran the vCPUs, in pieces of an observation; those that are not sound are left out of shares
    switches  switches seen against the kernel's sched_switch trace
    intervals histogram of how long threads and idle had the CPU, µs, as seen and as traced
    idle      idle share and idle periods, as seen, traced, and made by the load
    slices    timeline of the CPU, as seen and as traced
    rates     instructions by thread and interval of time; thread_rates: in all, against the known rate
    threads   windows, cycles and instructions by thread
    known     the counter over chunks of known work
    cost      cycles per iteration of the target beside the observer or a program that only spins, against beside nobody
    timer     the timer sampler
    rights    what the map of the slots allows and shows
    """
    return decode(trials)


def metrics(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Long form: arm, trial, metric, value, unit, reason.

    Nothing of a marked trial is a figure: it has no rows where another trial of its arm is sound, else rows that are
    absent with the mark as their reason, if they have none of their own. `host_wait_share` and `trial_marked` are of
    every trial.
    """
    trials, measured = tables["trials"], tables["measured"]
    marks = trials.set_index(["arm", "trial"])["marked"].to_dict()
    sound = {arm for (arm, _), reason in marks.items() if pd.isna(reason)}
    rows = []
    for (arm, trial), mine in measured.groupby(["arm", "trial"], sort=False):
        mark = marks[arm, trial]
        if pd.isna(mark):
            rows.append(mine[METRIC])
        elif arm not in sound:
            own = mine["reason"].where(mine["value"].isna())
            rows.append(mine[METRIC].assign(value=np.nan, reason=own.fillna(f"the trial is left out: {mark}")))
    for row in trials.to_dict("records"):
        key = {"arm": row["arm"], "trial": row["trial"], "unit": "1"}
        waited, mark = row["host_wait"], row["marked"]
        reason = None if pd.notna(waited) else "no record of the host's scheduling"
        rows.append(pd.DataFrame([key | {"metric": "host_wait_share", "value": waited, "reason": reason}]))
        rows.append(pd.DataFrame([key | {"metric": "trial_marked", "value": float(pd.notna(mark)), "reason": None}]))
    rows = [part.astype({"value": "float64", "reason": "object"}) for part in rows]
    return pd.concat(rows, ignore_index=True)[METRIC] if rows else measured[METRIC]


def _sound(tables: dict[str, pd.DataFrame], name: str) -> pd.DataFrame:
    """A table without the rows of marked trials; empty when there is no such table, or no sound trial."""
    if name not in tables:
        return pd.DataFrame()
    marked = tables["trials"].loc[tables["trials"]["marked"].notna(), ["arm", "trial"]]
    found = tables[name].merge(marked.assign(out=True), how="left", on=["arm", "trial"])
    return found[found["out"].isna()].drop(columns="out").reset_index(drop=True)


def summary(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """What the terminal shows; medians over trials that are not marked."""
    shown: dict[str, pd.DataFrame] = {}
    trials = tables["trials"]
    if trials["marked"].notna().any():
        marked = trials[trials["marked"].notna()]
        shown["Trials left out"] = marked[["arm", "trial", "marked"]].reset_index(drop=True)
    runs = _sound(tables, "runs")
    runs = runs[runs["workload"].isin(["trust", "timer"])] if len(runs) else runs
    if len(runs):
        names = ["samples_per_s", "period_p10_ns", "period_p50_ns", "period_p99_ns", "trusted_share", "samples_lost"]
        runs["run"] = runs["workload"] + "/" + runs["run"]
        shown["Runs of the observer"] = _medians(runs, ["arm", "run"], names)
    for name, title, by, names in (
        (
            "switches",
            "Switches against sched_switch",
            ["arm"],
            [
                "per_s",
                "events",
                "missed",
                "missed_share",
                "sound_share",
                "sound",
                "sound_missed",
                "wrong",
                "unmatched",
                "torn",
                "lag_median_us",
            ],
        ),
        ("idle", "Idle, shares of time", ["arm"], ["seen_share", "truth_share", "load_share", "periods", "missed"]),
        ("thread_rates", "Instructions per cycle of the clock, by thread", ["arm", "mix"], ["known", "seen", "error"]),
        (
            "known",
            "Counter over known work",
            ["arm", "source"],
            ["chunks", "known", "counted", "error", "outside", "unsure"],
        ),
        (
            "recheck",
            "Trust test done again",
            ["arm", "run"],
            ["windows", "trusted", "wrong", "delayed", "delayed_trusted", "within_bounds", "alike"],
        ),
        ("timer", "Timer sampler", ["arm", "when"], ["samples", "lost", "samples_per_s"]),
    ):
        found = _sound(tables, name)
        if len(found):
            if name == "thread_rates":
                found["mix"] = found["thread"].str.split().str[0]
            shown[title] = _medians(found, by, names)
    cost = _sound(tables, "cost")
    if len(cost):
        cost["slower_%"] = 100 * (cost["ratio"] - 1)
        shown["Cost on the target, cycles per iteration"] = _medians(
            cost, ["arm", "workload", "what"], ["off", "on", "slower_%"]
        )
    if "counters" in tables:
        refused = tables["counters"][~tables["counters"]["used"].astype(bool)]
        if len(refused):
            said = refused.groupby(["arm", "name", "source", "reason"], sort=False, dropna=False).size()
            shown["Counters refused"] = said.rename("runs").reset_index()
    if "rights" in tables:
        said = tables["rights"].groupby("what", sort=False)["answer"]
        shown["The map of the slots"] = said.agg(lambda answers: ", ".join(dict.fromkeys(answers))).reset_index()
    return shown


def _medians(table: pd.DataFrame, by: list[str], names: list[str]) -> pd.DataFrame:
    """Three digits, and no column where there is nothing."""
    names = [name for name in names if name in table]
    found = table.groupby(by, sort=False)[names].median().reset_index()
    for name in names:
        found[name] = [np.nan if pd.isna(x) else float(f"{x:.3g}") for x in found[name]]
    return found.dropna(axis=1, how="all")


def figures(tables: dict[str, pd.DataFrame]) -> dict[str, Figure]:
    """figures.py draws them, of the trials that are not marked."""
    return draw({name: _sound(tables, name) for name in tables if name not in ("trials", "measured")})


def timeline(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The observed CPU: who ran, as the observer saw it and by sched_switch; rates of instructions are in `figures`."""
    columns = ["process", "track", "name", "start_s", "duration_s"]
    if "slices" not in tables:
        return pd.DataFrame({name: pd.Series(dtype="object") for name in columns})
    found = tables["slices"]
    process = found["arm"] + ", trial " + found["trial"].astype(str) + ", " + found["workload"]
    return found.assign(process=process)[columns]


def profiles(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Time and, with a counter, instructions of each thread in windows of its own, summed over trials."""
    columns = ["profile", "unit", "stack", "weight"]
    if "threads" not in tables:
        return pd.DataFrame({name: pd.Series(dtype="object") for name in columns})
    found = tables["threads"]
    profile = found["arm"] + ", " + found["workload"] + "/" + found["run"]
    stack = "CPU;" + found["thread"]
    parts = [found.assign(profile=profile + ": time", unit="nanoseconds", stack=stack)]
    parts[0]["weight"] = found["cycles"] / found["tsc_hz"] * 1e9
    if "instructions" in found:
        counted = found.assign(profile=profile + ": instructions", unit="none", stack=stack)
        counted["weight"] = found["instructions"].fillna(0.0)
        parts.append(counted[counted["weight"] > 0])
    every = pd.concat(parts, ignore_index=True)
    return every.groupby(["profile", "unit", "stack"], sort=False)["weight"].sum().reset_index()[columns]
