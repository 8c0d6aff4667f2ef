# SPDX-License-Identifier: MIT
"""Yang, Blackburn and McKinley (2015): performance microscopy from a neighbouring CPU.

Pure functions: `tables` decodes the raw folders (decoding.py, cpu.py), `metrics` gives one value per trial and name
(measuring.py), `paper` and `summary` are small tables (shown.py), `figures` draws (figures.py), `timeline` and
`profiles` are for `./inv export`.
"""

from __future__ import annotations

import pandas as pd

from .declared import TABLES
from .decoding import decode as tables
from .families import METRICS
from .figures import draw as figures
from .measuring import measure as metrics
from .shown import paper_beside as paper
from .shown import summarise as summary

__all__ = ["METRICS", "TABLES", "figures", "metrics", "paper", "profiles", "summary", "tables", "timeline"]


def timeline(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The observed CPU: who ran, as the observer saw it and by sched_switch; rates of instructions are in `figures`."""
    slices = tables["slices"]
    process = slices["arm"] + ", trial " + slices["trial"].astype(str) + ", " + slices["workload"]
    return slices.assign(process=process)[["process", "track", "name", "start_s", "duration_s"]]


def profiles(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Time and, with a counter, instructions of each thread in windows of its own, summed over trials."""
    threads = tables["threads"]
    run = threads["arm"] + ", " + threads["workload"] + "/" + threads["run"]
    stacks = threads.assign(stack="CPU;" + threads["thread"])
    time = stacks.assign(profile=run + ": time", unit="nanoseconds", weight=stacks["cycles"] / stacks["tsc_hz"] * 1e9)
    counted = stacks.assign(profile=run + ": instructions", unit="none", weight=stacks["instructions"].fillna(0.0))
    every = pd.concat([time, counted[counted["weight"] > 0]], ignore_index=True)
    return every.groupby(["profile", "unit", "stack"], sort=False)["weight"].sum().reset_index()
