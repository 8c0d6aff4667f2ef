# SPDX-License-Identifier: MIT
"""Weighted stacks for `./inv export`: the buffer's counts, and with an oracle the exact ones."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd


def weighted(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Every arm and workload, summed over trials. A stack is `ROLE;FUNCTION`, or `FUNCTION` without a role."""
    parts = [_stacks(tables["profile"], "ticks", "/proc/profile")]
    parts += [
        _stacks(tables["truth"], column, source)
        for column, source in (("instructions", "exact instructions"), ("samples", "ideal sampler"))
    ]
    return pd.concat(parts, ignore_index=True)


def _stacks(counts: pd.DataFrame, column: str, source: str) -> pd.DataFrame:
    rows = counts[counts[column] > 0].astype(dict.fromkeys(("arm", "workload", "function", "role"), "str"))
    stack = rows["function"].where(rows["role"] == "other", rows["role"] + ";" + rows["function"])
    profile = rows["arm"] + ", " + rows["workload"] + ": " + source
    summed = rows[column].groupby([profile.rename("profile"), stack.rename("stack")]).sum()
    return summed.rename("weight").reset_index().assign(unit="none")
