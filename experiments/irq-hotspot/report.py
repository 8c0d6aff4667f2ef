# SPDX-License-Identifier: MIT
"""The small tables of irq-hotspot for terminal and report: means over the trials of an arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from harness.oracle.truth import shares

from .byhand import by_hand_table
from .decoding import SWEEP, SWEEP_WORKLOAD
from .peers import peer_table
from .spread import spread_table
from .stepped import SAMPLERS
from .stepped import TICK as MAP_TICK

Tables = Mapping[str, pd.DataFrame]
#: Functions that a table of hot spots shows, and one of the truth.
_TOP, _TOP_TRUTH = 10, 5
_KEYS = ["arm", "trial", "workload"]


def summarise(tables: Tables, metrics: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Tables by title; those for which there is data."""
    made: dict[str, Callable[[], pd.DataFrame]] = {
        "Hot spots, workload edu: counts": lambda: _hot_spots(tables, "edu", wall=False),
        "Hot spots, workload edu, arms on the wall clock: counts": lambda: _hot_spots(tables, "edu", wall=True),
        "Hot spots, workload idle: counts": lambda: _hot_spots(tables, "idle", wall=False),
        "Handlers: entries against /proc/interrupts, and ticks inside": lambda: _entries(tables["handlers"]),
        "N sweep: ticks in counters that several functions share": lambda: _sweep(tables),
        "Fault 3: ticks by the pseudo-code as printed": lambda: _printed(tables["buffers"]),
        "Fault 5: time in the edu handler, known and by ticks": lambda: _time(metrics),
        "Fault 6: counts of two units in one array": lambda: _units(tables),
        "Peers, workload peers: the edu handler's time by each profiler": lambda: peer_table(tables["peers"], metrics),
        "Counted by hand, and by instruments": lambda: by_hand_table(tables, metrics),
        "Truth, workload edu: share of the kernel's instructions": lambda: _truth(tables["truth"]),
        "Truth, loads of many functions: error of the buffer and of the ideal sampler": lambda: spread_table(metrics),
        "The premise, workload step: shares told of a load in step with the tick": lambda: _in_step(tables["cells"]),
    }
    frames = {title: make() for title, make in made.items()}
    return {title: frame for title, frame in frames.items() if not frame.empty}


def mean_counts(tables: Tables, workload: str, column: str = "ticks") -> pd.DataFrame:
    """Mean `column` of the table `profile` in a workload, shape (functions, arms); 0 where nothing was counted."""
    profile = tables["profile"]
    profile = profile[profile["workload"] == workload]
    buffers = tables["buffers"]
    trials = buffers[buffers["workload"] == workload].groupby("arm", sort=False)["trial"].nunique()
    # A function without counts in a trial has no row there, so means are sums over the number of trials.
    sums = profile.pivot_table(index="function", columns="arm", values=column, aggfunc="sum", fill_value=0.0)
    return sums.reindex(columns=trials.index, fill_value=0.0) / trials


def _hot_spots(tables: Tables, workload: str, *, wall: bool) -> pd.DataFrame:
    """The functions with most counts in any arm, arms side by side."""
    trials = tables["trials"]
    arms = trials.loc[(trials["clock"] == "wall") == wall, "arm"]
    means = mean_counts(tables, workload)
    means = means[[arm for arm in means.columns if arm in set(arms) and arm not in SWEEP]]
    if means.empty or not means.shape[1]:
        return pd.DataFrame()
    order = means.max(axis=1).sort_values(ascending=False, kind="stable").index[:_TOP]
    shown = means.loc[order].round(1)
    return shown.rename(columns=lambda arm: str(arm).removesuffix("-wall")).rename_axis(None, axis=1).reset_index()


def _entries(handlers: pd.DataFrame) -> pd.DataFrame:
    """All workloads of a trial together."""
    rows = handlers[~handlers["arm"].isin(SWEEP)]
    if rows.empty:
        return pd.DataFrame()
    columns = ["interrupts", "entries", "ticks"]
    summed = rows.groupby(["handler", "arm", "trial"])[columns].sum(min_count=1)
    mean = summed.groupby(["handler", "arm"]).mean()
    mean["entries per"] = mean["entries"] / mean["interrupts"].where(mean["interrupts"] > 0)
    return mean.round({"interrupts": 1, "entries": 1, "ticks": 2, "entries per": 4}).reset_index()


def _sweep(tables: Tables) -> pd.DataFrame:
    buffers = tables["buffers"]
    rows = buffers[buffers["arm"].isin(SWEEP) & (buffers["workload"] == SWEEP_WORKLOAD)]
    if rows.empty:
        return pd.DataFrame()
    rows = rows.assign(share=rows["shared"] / (rows["total"] - rows["out_of_text"]))
    mean = rows.groupby("arm")[["step", "total", "share", "readprofile_error"]].mean()
    folded = tables["sweep"].groupby("n")["neighbour_share"].mean()
    mean["folded"] = folded.rename(lambda n: f"n{int(n)}").reindex(mean.index)
    wrongly = tables["handlers"].groupby(["arm", "trial"])["ticks"].sum().groupby("arm").mean()
    mean["wrongly"] = wrongly.reindex(mean.index)
    names = {
        "step": "bytes",
        "total": "ticks",
        "share": "shared",
        "folded": "n2 folded",
        "wrongly": "in handlers",
        "readprofile_error": "readprofile",
    }
    return mean.reindex(columns=list(names)).rename(columns=names).round(3).reset_index()


def _printed(buffers: pd.DataFrame) -> pd.DataFrame:
    """First trial of the tick arms: the hottest function, and how much of all ticks is in wrong functions."""
    rows = buffers[buffers["arm"].isin(["tick", "tick-wall"])].sort_values("trial", kind="stable")
    first = rows.drop_duplicates(["arm", "workload"])
    return pd.DataFrame(
        {
            "arm": first["arm"],
            "workload": first["workload"],
            "hottest": first["top_function"],
            "ticks": first["top_ticks"],
            "printed": first["top_printed"],
            "wrong": first["printed_error"].round(3),
            "readprofile": first["readprofile_error"].round(3),
        }
    ).reset_index(drop=True)


def _time(metrics: pd.DataFrame) -> pd.DataFrame:
    wanted = {
        "handler_time_known": "known s",
        "handler_time_share": "of time",
        "handler_ticks.edu": "ticks in it",
        "handler_time_ratio": "ticks/known",
        "displaced_time_ratio": "displaced/known",
    }
    rows = metrics[metrics["metric"].isin(list(wanted)) & ~metrics["arm"].isin(SWEEP)]
    if rows["value"].isna().all():
        return pd.DataFrame()
    wide = rows.pivot_table(index="arm", columns="metric", values="value", aggfunc="mean", dropna=False)
    return wide.reindex(columns=list(wanted)).rename(columns=wanted).round(3).reset_index()


def _units(tables: Tables) -> pd.DataFrame:
    """Per arm and workload: counts of each unit in the one array, and the time that entries do not show."""
    buffers = tables["buffers"]
    rows = buffers[buffers["workload"].isin(["idle", "edu", "edu-light"]) & ~buffers["arm"].isin(SWEEP)]
    if rows.empty:
        return pd.DataFrame()
    lines = tables["interrupts"]
    is_timer = (lines["irq"] == "LOC") | lines["actions"].str.split(", ").map(lambda names: "timer" in names)
    parts = {
        "ticks": lines[is_timer].groupby(_KEYS)["interrupts"].sum(),
        "entries": tables["handlers"].groupby(_KEYS)["entries"].sum(),
    }
    both = rows[[*_KEYS, "total"]]
    for name, counts in parts.items():
        both = both.merge(counts.rename(name).reset_index(), on=_KEYS, how="left")
    both = both.merge(tables["answers"][[*_KEYS, "handled", "handler_ns"]], on=_KEYS, how="left")
    both["samples"] = both["total"] - both["entries"].fillna(0.0)
    both["edu s"] = both["handled"] * both["handler_ns"] / 1e9
    mean = both.groupby(["workload", "arm"])[["ticks", "samples", "entries", "edu s"]].mean()
    mean["samples/tick"] = mean["samples"] / mean["ticks"]
    return mean.round(3).reset_index().rename(columns={"ticks": "timer"})


def _in_step(cells: pd.DataFrame) -> pd.DataFrame:
    """Per sampler and duty, over all cells of all trials; of the ideal sampler, those beside one arm."""
    ideal = cells["sampler"] == SAMPLERS[-1]
    beside = cells["arm"] == (MAP_TICK if MAP_TICK in set(cells["arm"]) else cells["arm"].min())
    rows = cells[~ideal | beside].assign(off=lambda frame: (frame["told"] - frame["exact"]).abs())
    made = [
        {
            "sampler": sampler,
            "duty": duty,
            "exact": part["exact"].mean(),
            "told": f"{part['told'].min():.2f} to {part['told'].max():.2f}",
            "mean error": part["off"].mean(),
            "worst": part["off"].max(),
            "outside": f"{int(part['outside'].sum())} of {len(part)}",
        }
        for (sampler, duty), part in rows.groupby(["sampler", "duty"])
    ]
    order = {sampler: place for place, sampler in enumerate(SAMPLERS)}
    made.sort(key=lambda row: (order[str(row["sampler"])], row["duty"]))
    return pd.DataFrame(made).round(3)


def _truth(truth: pd.DataFrame) -> pd.DataFrame:
    """The functions with most time or most counts: exact share, and each profiler's, in percent; medians."""
    rows = []
    for arm, part in truth[truth["workload"] == "edu"].groupby("arm", sort=False):
        share = part.copy()
        for column in ("instructions", "ticks", "samples"):
            share[column] = part.groupby("trial")[column].transform(lambda counts: 100 * shares(counts))
        most = share.groupby("function")[["instructions", "ticks"]].sum().max(axis=1)
        for function in most.sort_values(ascending=False, kind="stable").index[:_TOP_TRUTH]:
            own = share[share["function"] == function].set_index("trial")
            own = own[["instructions", "ticks", "samples"]].reindex(part["trial"].unique(), fill_value=0.0)
            middle = own.median().round(2)
            rows.append(
                {
                    "arm": arm,
                    "function": function,
                    "exact %": middle["instructions"],
                    "buffer %": middle["ticks"],
                    "sampler %": middle["samples"],
                    "buffer off": np.round((own["ticks"] - own["instructions"]).median(), 2),
                    "sampler off": np.round((own["samples"] - own["instructions"]).median(), 2),
                }
            )
    return pd.DataFrame(rows)
