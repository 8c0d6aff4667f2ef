# SPDX-License-Identifier: MIT
"""Small tables of shim: the paper's figures beside ours, and the summary of a run. Both fit into 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from harness.measure.trials import least_disturbed

from .measuring import EMULATED, NO_CACHES

Tables = Mapping[str, pd.DataFrame]
NO_SIBLING = "no sibling in QEMU"
NOT_TOLD = "not told"


def paper_beside(tables: Tables, metrics: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The paper's figures (native Haswell) with ours beside them; where there is none, the note says why."""

    def share(metric: str, arm: str) -> tuple[str, str]:
        return _here(metrics, metric, arm, lambda value: f"{100 * value:.3g} %")

    cycles = {arm: _period(tables, arm) for arm in ("fast", "period-1us", "period-10us", "period-100us")}
    trust, cost = [], []
    for what, paper, arm in (
        ("highest", "< 50 % at 30 cycles", "fast"),
        ("from 2500", "≥ 90 %", "period-1us"),
        ("from 2500", "≥ 90 %", "period-10us"),
        ("from 2500", "≥ 90 %", "period-100us"),
    ):
        here, why = share("trusted_share", arm)
        trust.append((f"{what}, {arm}", paper, here, why or f"median {cycles[arm]}"))
    trust.append(("highest, sibling", "< 50 % at 15 cycles", "—", NO_SIBLING))
    for where, told, arm in (
        ("highest", "100 % at 30 cycles", "fast"),
        ("near 1213 cycles", "2 % at 1213", "period-1us"),
    ):
        here, why = share("native_cost", arm)
        emulated, none = share("observer_over_spin", arm)
        note = f"emulated: {emulated}, no caches" if not none and why == NO_CACHES else why or cycles[arm]
        cost.append((where, told, here, note))
    cost.append(("highest, sibling", "61 % at 15 cycles", "—", NO_SIBLING))
    here, why = _here(metrics, "native_rate_over_timer", "fast", lambda value: f"{value:.0f} times")
    emulated, none = _here(metrics, "rate_over_timer", "fast", lambda value: f"{value:.0f} times")
    note = f"emulated: {emulated}" if not none and why == EMULATED else why or "perf's cpu-clock at its highest rate"
    finer = [("finer than a timer", "1,000 to 100,000 times", here, note)]
    here, why = share("timer_cost", "hand")
    finer.append(("a timer disturbs", "at a high rate", here, why or "of its target's instructions"))
    here, why = share("pmu_known_error", "hardware")
    finer.append(("hardware counters", "read by rdpmc", here, why or "error over a known loop"))
    return {
        "Paper, section 4.1: trusted windows": _beside(trust),
        "Paper, section 6.1: cost on the target": _beside(cost),
        "Paper, sections 1 and 3: resolution and counters": _beside(finer),
    }


def _beside(rows: list[tuple[str, str, str, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["what", "the paper", "here", "note"])


def _here(metrics: pd.DataFrame, metric: str, arm: str, text: Callable[[float], str]) -> tuple[str, str]:
    """The median of a metric over an arm's trials as text, and why there is none."""
    rows = metrics[(metrics["metric"] == metric) & (metrics["arm"] == arm)]
    values = rows["value"].dropna()
    if len(values):
        return text(float(values.median())), ""
    if rows.empty:
        return "—", "the arm took no part"
    reason = str(rows["reason"].iloc[0])
    return "—", "host disturbed" if reason.startswith("the trial is left out") else reason


def _period(tables: Tables, arm: str) -> str:
    """The median period of an arm's undisturbed runs, in cycles."""
    runs, periods = (least_disturbed(tables[name], tables["trials"]) for name in ("runs", "period_quantiles"))
    both = runs.merge(periods, on=["arm", "trial", "workload", "run"])
    both = both[(both["arm"] == arm) & (both["workload"] == "trust") & (both["run"] == "clean")]
    return f"{(both['p50_ns'] * both['tsc_hz'] / 1e9).median():.0f} cycles" if len(both) else NOT_TOLD


def summarise(tables: Tables) -> dict[str, pd.DataFrame]:
    """Medians over trials, of those that the host did not disturb where an arm has one; only tables with rows."""
    trials = tables["trials"]
    chosen = {name: least_disturbed(table, trials) for name, table in tables.items()}
    disturbed = trials.loc[trials["disturbed"].notna(), ["arm", "trial", "host_wait"]]
    shown = {
        "Trials that the host disturbed": disturbed.reset_index(drop=True),
        "Observer, workload trust": _medians(
            _runs(chosen), ["arm"], {"samples_per_s": "samples/s", "p50_ns": "p50 ns", "p99_ns": "p99 ns",
                                     "trusted_share": "trusted", "samples_lost": "lost"},
        ),
        "Switches against sched_switch": _medians(
            chosen["switches"], ["arm"], {"per_s": "per s", "missed_share": "missed", "sound_share": "sound",
                                          "wrong": "wrong", "unmatched": "unmatched", "lag_median_us": "lag us"},
        ),
        "Delays put into samples": _medians(
            chosen["recheck"][chosen["recheck"]["run"] == "injected"], ["arm"],
            {"long_delay": "windows", "long_delay_trusted": "trusted", "beyond": "beyond",
             "beyond_trusted": "trusted too", "wrong": "flags wrong"},
        ),
        "Idle, shares of time": _medians(
            chosen["idle"], ["arm"], {"seen_share": "seen", "truth_share": "trace", "load_share": "load",
                                      "periods_all": "periods", "missed_all": "missed"},
        ),
        "Target slower by": _medians(_slower(chosen["cost"]), ["arm", "beside"], {"slower": "slower"}),
        "Counter over known work": _medians(
            chosen["known"], ["arm", "source"], {"chunks": "chunks", "error": "error", "outside": "outside"}
        ),
        "Instructions per cycle of the clock": _medians(
            chosen["thread_rates"], ["mix"], {"known": "known", "seen": "trusted", "error": "error",
                                               "seen_all": "all", "error_all": "error all"}
        ),
        "hello world, of the thread that prints it": chosen["hello"][["arm", "event", "counted", "reason"]],
        "Switches counted on paper, by the slots, by the kernel and by perf": chosen["by_hand"][
            ["arm", "part", "by_hand", "slot", "kernel", "perf"]
        ],
        "Counters not used": _not_used(chosen["counters"]),
        "The map of the slots": _answers(tables["rights"]),
    }  # fmt: skip
    return {title: table for title, table in shown.items() if len(table)}


def _runs(tables: Tables) -> pd.DataFrame:
    runs = tables["runs"][(tables["runs"]["workload"] == "trust") & (tables["runs"]["run"] == "clean")]
    return runs.merge(tables["period_quantiles"], how="left", on=["arm", "trial", "workload", "run"])


def _slower(cost: pd.DataFrame) -> pd.DataFrame:
    rows = cost.assign(beside=cost["what"], slower=cost["ratio"] - 1)
    beside = rows["workload"].isin(["cost", "timer", "disturb"])
    return rows[beside & ~((rows["workload"] == "timer") & (rows["what"] == "observer"))]


def _medians(table: pd.DataFrame, by: list[str], names: Mapping[str, str]) -> pd.DataFrame:
    """Medians to three digits of some columns, under short names; no column where there is nothing."""
    medians = table.groupby(by, sort=False)[[*names]].median().reset_index().rename(columns=dict(names))
    for name in names.values():
        medians[name] = [np.nan if pd.isna(value) else float(f"{value:.3g}") for value in medians[name]]
    return medians.dropna(axis=1, how="all")


def _not_used(counters: pd.DataFrame) -> pd.DataFrame:
    refused = counters[~counters["used"]]
    by = ["name", "source", "reason"]
    return refused.groupby(by, sort=False, dropna=False).size().rename("runs").reset_index()


def _answers(rights: pd.DataFrame) -> pd.DataFrame:
    """What each question was answered, in all trials."""
    asked = rights.assign(answer=rights["answer"].fillna("—"))
    return asked.groupby("what", sort=False)["answer"].agg(lambda given: ", ".join(dict.fromkeys(given))).reset_index()
