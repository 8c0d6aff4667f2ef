# SPDX-License-Identifier: MIT
"""Held-out scripts: what their trial's own fit predicts, beside what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from harness.errors import UsageError
from harness.measure.raw import Trial
from harness.measure.rows import TableRows

from .fitted import accuracy, costs_of, model_of, unit_of
from .model.cost import Accuracy, CostModel
from .model.prediction import predict
from .runs import Run
from .scripts import counts, events_of, script

#: Scripts by the guest's workload that runs them: seen, drawn by the trial's seed, before and after advice.
SOURCES = {"validate": "held-out", "blind": "blind", "advice": "advice"}
#: Of what was drawn, counted in the one boot and traced in another.
DRAWN, TRACED = "drawn", "traced"

#: Why no script of a trial is predicted whose fit is not there.
UNFITTED = "the runs of the fit are not known"


def put_scripts(
    rows: TableRows, trial: Trial, read: Mapping[str, Sequence[Run]], stages: Sequence[dict[str, Any]]
) -> None:
    """Rows of validation, workloads and firings. `stages` are those of this trial: another one's do not matter, so
    trials are independent of each other; none where the fit is not known.

    The interval of scripts that were drawn is widened by the worst error of those that were seen, of the same trial.
    """
    model = fitted_model(trial, stages) if stages else None
    for workload, source in SOURCES.items():
        checks = _put(rows, trial, [run for run in read.get(workload, []) if run.held_out], model, source)
        if source == "held-out" and model is not None and checks:
            seen = accuracy(pd.DataFrame(checks).assign(arm=trial.arm))
            model = model.model_copy(update={"accuracy": seen})


def _put(
    rows: TableRows, trial: Trial, runs: Sequence[Run], model: CostModel | None, source: str
) -> list[dict[str, Any]]:
    checks: list[dict[str, Any]] = []
    workloads: list[dict[str, Any]] = []
    firings: list[dict[str, Any]] = []
    for run in runs:
        name = {"script": run.run, "source": source}
        if run.problem:
            checks.append(name | {"problem": run.problem})
            continue
        counted = counts(run)
        checks.append({"problem": None} | name | _check(run, model, least=trial.fidelity == "host"))
        name = {"script": run.run}
        workloads.append(name | {"cost": counted.cost, "syscalls": counted.syscalls, "switches": counted.switches})
        firings += [name | {"probe": probe, "firings": count} for probe, count in counted.firings.items()]
    rows.put("validation", checks, trial)
    rows.put("workloads", workloads, trial)
    rows.put("firings", firings, trial)
    return checks


def fitted_model(trial: Trial, stages: Sequence[dict[str, Any]]) -> CostModel:
    costs = costs_of(pd.DataFrame(stages).assign(arm=trial.arm))
    return model_of(
        costs, arm=trial.arm, kernel=trial.kernel, fidelity=trial.fidelity, unit=unit_of(trial.clock), trials=1
    )


def seen_accuracy(trial: Trial, read: Mapping[str, Sequence[Run]], model: CostModel) -> Accuracy | None:
    """The errors of this trial's other scripts, held-out ones and those of advice; None where it has none."""
    others = [*read.get("validate", []), *read.get("advice", [])]
    runs = [run for run in others if run.held_out and not run.problem]
    checks = [{"problem": None, "script": run.run} | _check(run, model, least=False) for run in runs]
    return accuracy(pd.DataFrame(checks).assign(arm=trial.arm)) if checks else None


def lost(run: Run) -> dict[str, float]:
    """What is known of firings that were lost, per batch; the kernel counts misses of kprobes alone."""
    told = [probe for probe in run.probes if probe.misses >= 0]
    row: dict[str, float] = {
        "missable": sum(probe.firings for probe in told) / run.batches,
        "misses": sum(probe.misses for probe in told) / run.batches,
    }
    if not run.drained:  # else the reader took them out
        there = [buffer.entries + buffer.overrun for buffer in run.buffers]
        wanted = events_of(run)
        row["events"] = sum(wanted) / run.batches
        row["events_lacking"] = sum(max(one - other, 0) for one, other in zip(wanted, there, strict=True)) / run.batches
    return row


def _check(run: Run, model: CostModel | None, *, least: bool) -> dict[str, Any]:
    """Predicted against measured, per batch; `least`: the quickest one."""
    base = counts(run).cost
    measured = run.added_least if least else run.added
    slowdown = 1 + measured / base
    row: dict[str, Any] = {"base": base, "measured": measured, "slowdown": slowdown}
    row |= lost(run)
    if model is None:
        return row | {"problem": UNFITTED}
    try:
        prediction = predict(model, script(run))
    except UsageError as error:  # a run of the fit failed, and a stage is missing: no reason to lose the others
        return row | {"problem": str(error)}
    if not measured and prediction.added:
        return row | {"problem": f"it adds nothing, and {prediction.added:,.0f} were predicted"}
    return row | {
        "predicted": prediction.added,
        "low": prediction.low,
        "high": prediction.high,
        "firings": prediction.firings,
        "predicted_slowdown": prediction.slowdown,
        "error_added": prediction.added / measured - 1 if measured else 0.0,  # nothing fires on this kernel
        "error_slowdown": prediction.slowdown / slowdown - 1,
    }
