# SPDX-License-Identifier: MIT
"""Time on a page and accesses: traced programs beside the same programs undisturbed (arm `exact`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from harness.errors import RunError
from harness.measure.raw import Trial
from harness.measure.rows import TableRows
from harness.oracle.reader import Oracle

from .trace.cost import NOTHING, Cost, measured
from .trace.dwell import dwells, errors
from .trace.maps import read_maps
from .trace.program import Program
from .trace.records import Trace

#: The workload whose trace tells what the tracer takes; no program of the experiment.
COST = "cost"
#: Names of parts, as the table problems has them.
TRACER, DWELLS = "the tracer's own time", "time on a page"


def programs_of(trial: Trial) -> list[str]:
    """A trial's workloads but the one that only tells of the tracer."""
    return [workload for workload in trial.workloads if workload != COST]


def cost_of(trial: Trial) -> Cost:
    """By the trial's own workload `cost`; nothing is known where it had none."""
    if COST not in trial.workloads:
        return NOTHING
    return measured(trial.path / COST / "trace", trial.path / COST / "stdout")


def decode_dwells(rows: TableRows, trials: Sequence[Trial]) -> None:
    """The tables tracer and dwells; each trial of a trace beside that of the undisturbed programs of its repetition."""
    exact = {trial.repetition: trial for trial in trials if trial.params.get("method") == "exact"}
    for trial in trials:
        if trial.params.get("method") != "trace" or COST not in trial.workloads:
            continue
        with rows.part(trial, TRACER, COST):
            rows.put("tracer", asdict(cost_of(trial)), trial, COST)
        for workload in programs_of(trial):
            with rows.part(trial, DWELLS, workload):
                beside = exact.get(trial.repetition)
                if beside is None or workload not in beside.workloads:
                    raise RunError(f"{workload} did not run undisturbed in this repetition")
                rows.put("dwells", _errors(trial, beside, workload), trial, workload)


def _errors(trial: Trial, beside: Trial, workload: str) -> dict[str, float | int]:
    folder, cost = trial.path / workload, cost_of(trial)
    sequence = Oracle(beside.path).pages(beside.workloads.index(workload))
    told = dwells(Program(Trace(folder / "trace")).chunks(), sequence.chunks(), read_maps(folder / "maps"), cost)
    values = errors(told, cost)
    return {name: value if isinstance(value, int) or np.isfinite(value) else np.nan for name, value in values.items()}
