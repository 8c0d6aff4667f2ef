# SPDX-License-Identifier: MIT
"""The bias map: loads in step with the tick, cell by cell; what a sampler tells of them beside the exact share.

A cell is one phase of the tick at which the work begins, and one duty: the part of each cycle that it takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from harness.errors import RunError
from harness.measure.raw import Answer
from harness.measure.rows import MetricRows
from harness.measure.statistics import ratio
from harness.measure.symbols import SymbolMap
from harness.oracle.reader import LAP, Oracle

from .handlers import BY_NMI, TASK_WORK
from .trialrows import TrialRows

#: The workload, and the arms of the map.
WORKLOAD = "step"
TICK, JITTER, NMI = ARMS = ("map-tick", "map-jitter", "map-nmi")
#: The samplers of the map, as the table `cells` names them.
SAMPLERS = ("tick", "jittered tick", "NMI", "ideal sampler")
#: The part of a workload, as the table `problems` names it.
CELLS = "cells"
TICKS, IDEAL = "ticks", "sampler"
_CONFIDENCE = 0.95


class Cell(Answer):
    """One cell as stepload prints it: `counts` are pairs of a counter's number and what it grew by."""

    phase: int
    duty: int
    counts: tuple[tuple[int, int], ...]


class Steps(Answer):
    """What stepload prints; phases are in parts of the period, `phases` of them."""

    phases: int
    cycles: int
    step: int
    jitter: bool
    cells: tuple[Cell, ...]


def cell_rows(steps: Steps, oracle: Oracle, symbols: SymbolMap, sampling: str) -> pd.DataFrame:
    """Rows of the table `cells`: each cell by the trial's own sampler, and by the ideal one where it ran.

    RunError when the laps of the oracle are not the cells, or when the work shares a counter with another function.
    """
    exact = _exact(oracle, symbols, len(steps.cells))
    own = SAMPLERS[2 if sampling == BY_NMI else 1 if steps.jitter else 0]
    first, last = _counters(symbols, steps.step)
    inside = [sum(count for index, count in cell.counts if first <= index < last) for cell in steps.cells]
    frames = [_frame(steps, own, exact, [sum(count for _, count in cell.counts) for cell in steps.cells], inside)]
    if oracle.report.absent("sampler") is None:
        samples = oracle.samples(symbols)
        samples = samples[(samples["lap"] >= 0) & ~(samples["user"] | samples["nmi"] | samples["idle"])]
        cells = range(len(steps.cells))
        total = samples["lap"].value_counts().reindex(cells, fill_value=0)
        work = samples.loc[samples["function"] == TASK_WORK, "lap"].value_counts().reindex(cells, fill_value=0)
        frames.append(_frame(steps, SAMPLERS[3], exact, total.tolist(), work.tolist()))
    return pd.concat(frames, ignore_index=True)


def interval(inside: int, samples: int) -> tuple[float, float]:
    """95 % interval of a share of which `inside` of so many independent samples tell (Clopper and Pearson 1934)."""
    tail = (1 - _CONFIDENCE) / 2
    low = 0.0 if inside == 0 else float(stats.beta.ppf(tail, inside, samples - inside + 1))
    high = 1.0 if inside == samples else float(stats.beta.ppf(1 - tail, inside + 1, samples - inside))
    return low, high


def _frame(
    steps: Steps, sampler: str, exact: Sequence[float], samples: Sequence[int], inside: Sequence[int]
) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for cell, share, whole, part in zip(steps.cells, exact, samples, inside, strict=True):
        low, high = interval(part, whole) if whole else (math.nan, math.nan)
        rows.append(
            {
                "sampler": sampler,
                "phase": cell.phase / steps.phases,
                "duty": cell.duty / 100,
                "samples": whole,
                "inside": part,
                "told": ratio(part, whole),
                "exact": share,
                "low": low,
                "high": high,
                "outside": bool(whole) and not low <= share <= high,
                "chance": float(stats.binomtest(part, whole, share).pvalue) if whole else math.nan,
            }
        )
    return pd.DataFrame(rows)


def _exact(oracle: Oracle, symbols: SymbolMap, cells: int) -> list[float]:
    """Of each lap, the work's share of the kernel's instructions, those in NMIs left out."""
    counts = oracle.functions(symbols, kind=LAP)
    counts = counts[~counts["context"].isin(["user", "nmi"])]
    laps = sorted(counts["region"].unique().tolist())
    if laps != list(range(cells)):
        raise RunError(f"the oracle has {len(laps)} laps, the load {cells} cells", where=str(oracle.folder))
    whole = counts.groupby("region")["instructions"].sum()
    work = counts[counts["function"] == TASK_WORK].groupby("region")["instructions"].sum().reindex(whole.index)
    return [float(share) for share in work.fillna(0) / whole]


def _counters(symbols: SymbolMap, step: int) -> tuple[int, int]:
    """First counter of the work's, and the one after its last."""
    places: npt.NDArray[np.intp] = symbols.find(TASK_WORK)
    if not places.size:
        raise RunError(f"has no {TASK_WORK}", where=str(symbols.path))
    begin = int(symbols.address[places[0]]) - symbols.stext
    end = begin + int(symbols.size[places[0]])
    if step <= 0 or begin % step or end % step:
        raise RunError(f"{TASK_WORK} shares a counter of {step} bytes with another function", where=str(symbols.path))
    return begin // step, end // step


def map_metrics(trial: TrialRows) -> None:
    """How many cells the samplers tell wrongly, and the worst of them."""
    problem = trial.problem(CELLS, workload=WORKLOAD)
    cells = trial.rows("cells", WORKLOAD)
    for name, rows in (
        (TICKS, cells[cells["sampler"] != SAMPLERS[3]]),
        (IDEAL, cells[cells["sampler"] == SAMPLERS[3]]),
    ):
        none = "a cell has no sample" if rows["told"].isna().any() else "no sampler ran" if rows.empty else None
        blind, all_of_it = rows[rows["inside"] == 0], rows[rows["inside"] == rows["samples"]]
        trial.put(f"map_outside.{name}", float(rows["outside"].mean()), problem, none)
        trial.put(f"map_error.{name}", float((rows["told"] - rows["exact"]).abs().mean()), problem, none)
        trial.put(f"map_blind.{name}", float(blind["exact"].max()) if len(blind) else 0.0, problem, none)
        trial.put(f"map_all.{name}", float(all_of_it["exact"].min()) if len(all_of_it) else 1.0, problem, none)


def blind_chance(tables: Mapping[str, pd.DataFrame], out: MetricRows) -> None:
    """In the cell in which the tick is blind to most: the chance of what other arms tell, in the same repetition."""
    cells, trials = tables["cells"], tables["trials"]
    own = cells[cells["sampler"] != SAMPLERS[3]]
    why = f"arm {TICK} has no trial of this repetition with a cell that it is blind to, or this one has not that cell"
    for arm, trial in trials.loc[trials["arm"].isin(ARMS[1:]), ["arm", "trial"]].itertuples(index=False):
        tick = own[(own["arm"] == TICK) & (own["trial"] == trial) & (own["inside"] == 0)]
        value = math.nan
        if len(tick):
            worst = tick.loc[tick["exact"].idxmax()]
            same = (own["phase"] == worst["phase"]) & (own["duty"] == worst["duty"])
            there = own[(own["arm"] == arm) & (own["trial"] == trial) & same]
            value = float(there["chance"].iloc[0]) if len(there) else math.nan
        out.put(arm, trial, "map_blind_chance", value, reason=why)
