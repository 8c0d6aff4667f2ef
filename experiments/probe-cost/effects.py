# SPDX-License-Identifier: MIT
"""Hits that are lost, against known answers; and where costs stop being what the model says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from .runs import Run

#: Nested firings: what the outer probe's handler calls, and the inner probe is on.
NESTED = ("int3-ftrace", "ftrace-ftrace", "optimised-ftrace", "int3-int3")
_INNER = "copy_from_kernel_nofault"
#: Calls in a round of `sleepers`: eight tasks, four calls each (guest/effects.sh, and w_sleepers of the guest).
_SLEEPS = 8 * 4


def losses(runs: Mapping[str, Run], laps: pd.DataFrame | None) -> Iterator[dict[str, Any]]:
    """Rows of the table `losses`, without arm and trial; nothing for runs that are not there."""
    good = {name: run for name, run in runs.items() if not run.problem}
    for name in NESTED:
        if run := good.get(f"nested.{name}"):
            inner = run.probes[1]
            yield _row(f"nested-{name}", _entries(laps, run), hits=inner.hits, misses=inner.misses)
    for name in ("enough", "short"):
        if run := good.get(f"maxactive.{name}"):
            probe = run.probes[0]
            yield _row(f"maxactive-{name}", _SLEEPS * run.firing_rounds, hits=probe.hits, misses=probe.misses)
    for depth in (64, 100):
        if run := good.get(f"depth.{depth}"):
            recorded = run.buffers[0].entries + run.buffers[0].overrun
            yield _row(f"depth-{depth}", depth * run.firing_rounds, hits=run.probes[0].hits, recorded=recorded)
    for name in ("none", "some"):
        if run := good.get(f"overrun.{name}"):
            buffer = run.buffers[0]
            hits = run.probes[0].hits
            yield _row(f"overrun-{name}", run.firing_rounds, hits=hits, recorded=buffer.entries, lost=buffer.overrun)
    if run := good.get("full.hist"):
        yield _row("full-table", run.firing_rounds, hits=run.probes[0].hits, lost=run.drops)


def _row(effect: str, executed: float, **counts: int) -> dict[str, Any]:
    return {"effect": effect, "executed": float(executed), **{name: float(value) for name, value in counts.items()}}


def _entries(laps: pd.DataFrame | None, run: Run) -> float:
    """How often the inner probe's place was executed."""
    if laps is None or not (laps["run"] == run.run).any():
        return math.nan
    return float(laps.loc[(laps["run"] == run.run) & (laps["function"] == _INNER), "entries"].sum())


def rates(runs: Mapping[str, Run]) -> Iterator[dict[str, Any]]:
    """Rows of the table `rates`, without arm and trial."""
    good = {name: run for name, run in runs.items() if not run.problem}
    for name, run in good.items():
        kind, _, rest = name.partition(".")
        provider, _, spin = rest.rpartition(".")
        if kind == "rate" and not provider.startswith("bare"):
            bare = good.get(f"rate.{'bare-user' if provider == 'uprobe' else 'bare'}.{spin}")
            if bare is not None:
                yield {"provider": provider, "base": bare.per_round, "traced": run.per_round}


def periods(runs: Mapping[str, Run]) -> Iterator[dict[str, Any]]:
    """Rows of the table `periods`, without arm and trial."""
    bare = runs.get("period.bare")
    if bare is None or bare.problem:
        return
    for name, run in runs.items():
        kind, _, period = name.partition(".")
        if kind == "period" and period != "bare" and not run.problem:
            yield {"period": float(period), "base": bare.per_round, "traced": run.per_round}
