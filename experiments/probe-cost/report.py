"""Tables for the terminal and the report."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from .fit import PROVIDERS
from .model.cost import stages as all_stages

_STAGES = ("trap", "dispatch", "iteration", "consumer", "register", "memory", "predicate", "term", "predicate-false")
_MORE = ("histogram", "unrecorded", "program", "instruction", "aggregation", "passage", "miss", "sample", "stack")

#: The paper's providers and what stands for them in Linux.
EQUIVALENTS = (
    ("syscall", "syscall, syscall-return", "none: a slow way in and out of every system call"),
    ("sdt", "tracepoint, raw-tracepoint", "none: a jump that is patched in"),
    ("fbt, entry", "fprobe", "call into a trampoline"),
    ("fbt, entry", "kprobe-ftrace", "call into a trampoline"),
    ("fbt, any place", "kprobe-optimised", "jump into a detour buffer"),
    ("fbt, any place", "kprobe-int3", "int3, and the instruction from a copy"),
    ("fbt, return", "kretprobe", "call, and a return into a trampoline"),
    ("pid, simple instruction", "uprobe", "int3, instruction emulated"),
    ("pid, other instruction", "uprobe-step", "int3, and a second trap after a step out of line"),
    ("pid, return", "uretprobe", "int3 at entry, int3 at return"),
    ("USDT", "usdt", "int3 on a nop, emulated"),
    ("profile", "sample", "timer interrupt"),
)


def summaries(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Title to table; medians over trials."""
    found = {}
    for arm, mine in tables["stages"].groupby("arm", sort=False):
        unit = tables["trials"].set_index("arm")["unit"].to_dict()
        unit = str(tables["trials"][tables["trials"]["arm"] == arm]["unit"].iloc[0])
        found[f"Stages, {arm}: {unit} per firing"] = _wide(mine, _STAGES)
        found[f"Actions and what goes with them, {arm}: {unit}"] = _wide(mine, _MORE)
        found[f"The same for all providers, {arm}: {unit}"] = _general(mine)
        found[f"The paper's providers and Linux, {arm}: {unit} of one recorded firing"] = _providers(mine)
    checks = tables["validation"]
    for arm, mine in checks.groupby("arm", sort=False):
        found[f"Held-out scripts, {arm}"] = _validation(mine)
    lost = tables["effects"]
    lost = lost[~lost["effect"].str.startswith(("rate-", "period"))]
    if not lost.empty:
        table = lost.pivot_table(index="effect", columns="what", values="value", aggfunc="median", sort=False)
        found["Lost hits and the like"] = table.round(2).reset_index()
    return {title: table for title, table in found.items() if not table.empty}


def _medians(stages: pd.DataFrame) -> pd.DataFrame:
    wide = stages.pivot_table(index="provider", columns="stage", values="value", aggfunc="median")
    return wide.reindex([name for name in PROVIDERS if name in wide.index])


def _wide(stages: pd.DataFrame, columns: tuple[str, ...]) -> pd.DataFrame:
    wide = _medians(stages)
    return wide.reindex(columns=[name for name in columns if name in wide]).round(1).reset_index()


def _general(stages: pd.DataFrame) -> pd.DataFrame:
    mine = stages[stages["provider"] == "general"].groupby("stage")["value"].median()
    order = [stage for stage in all_stages() if stage in mine.index]
    return mine.reindex(order).round(1).rename("value").reset_index()


def _providers(stages: pd.DataFrame) -> pd.DataFrame:
    wide = _medians(stages)
    rows = []
    for paper, linux, how in EQUIVALENTS:
        for name in linux.split(", "):
            if name not in wide.index:
                continue
            mine = wide.loc[name].reindex(["trap", "dispatch", "consumer", "sample"]).fillna(0.0)
            rows.append({"DTrace": paper, "Linux": name, "how it traps": how, "trap": round(mine["trap"], 1)})
            rows[-1]["one firing"] = round(float(mine.sum()), 1)
    return pd.DataFrame(rows)


def _validation(checks: pd.DataFrame) -> pd.DataFrame:
    mean = checks.groupby("script")[
        ["firings", "slowdown", "predicted_slowdown", "measured", "predicted", "error_added", "error_slowdown"]
    ].median()
    mean["error of added cost %"] = (100 * mean.pop("error_added")).round(2)
    mean["error of slowdown %"] = (100 * mean.pop("error_slowdown")).round(2)
    return mean.round(
        {"firings": 0, "slowdown": 4, "predicted_slowdown": 4, "measured": 0, "predicted": 0}
    ).reset_index()
