# SPDX-License-Identifier: MIT
"""Scripts that are predicted in one boot and traced in the next: what is written down between the two, and its test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.errors import UsageError
from harness.measure.raw import Trial, read_predictions
from harness.measure.rows import TableRows

from .fit import Runs, stages_of
from .model.prediction import predict
from .runs import Run, read_runs
from .scripts import counts, script
from .validation import DRAWN, TRACED, fitted_model, lost, seen_accuracy

#: Digits of what is written: floats of another CPU differ in the last ones.
DIGITS = 1


def predictions(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """What each drawn script of a trial will cost, by that trial's fit: nothing of it was traced."""
    (trial,) = trials
    read = {name: read_runs(trial.path / name / "stdout") for name in trial.workloads if name != DRAWN}
    drawn = read_runs(trial.path / DRAWN / "stdout")
    named = {run.run: run for runs in read.values() for run in runs}
    model = fitted_model(trial, stages_of(Runs(named, None)))
    model = model.model_copy(update={"accuracy": seen_accuracy(trial, read, model)})
    drifts: dict[str, float] = {}
    for run in drawn:
        drifts[run.work] = max(drifts.get(run.work, 0.0), run.drift)
    told = []
    for run in drawn:
        row = {"script": run.run, "lines": probes_of(run), "rounds": run.rounds, "problem": run.problem}
        if not run.problem:
            wanted = script(run)
            cost = counts(run)
            cost = cost.model_copy(update={"drift": drifts[run.work] * cost.cost})
            try:
                made = predict(model, wanted.model_copy(update={"workload": cost}))
            except UsageError as error:
                told.append(row | {"problem": str(error)})
                continue
            figures = {"base": made.base, "predicted": made.added, "low": made.low, "high": made.high}
            row |= {name: round(value, DIGITS) for name, value in figures.items()} | {
                "firings": round(made.firings, DIGITS),
                "slowdown": round(made.slowdown, 9),
            }
        told.append(row)
    return told


def probes_of(run: Run) -> list[str]:
    """Its script without the first line, which says what is done with it."""
    return run.lines[1:]


def put_traced(rows: TableRows, trial: Trial, runs: Sequence[Run]) -> None:
    """Rows of validation of what was traced beside what was written down before. RunError where that is another file
    than the one whose hash the trial was begun with.
    """
    told = {row["script"]: row for row in read_predictions(trial) or []}
    rows.put("validation", list(_checks(runs, told)), trial)


def _checks(runs: Sequence[Run], told: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for run in runs:
        row = {"script": run.run, "source": "blind", "problem": run.problem or None}
        prediction = told.get(run.run)
        if prediction is None or prediction["lines"] != probes_of(run):
            yield row | {"problem": run.problem or "nothing was predicted of it"}
        elif run.problem or prediction["problem"]:
            yield row | {"problem": run.problem or prediction["problem"]}
        else:
            yield row | _check(run, prediction)


def _check(run: Run, told: Mapping[str, Any]) -> dict[str, Any]:
    measured, base = run.added, run.untraced
    # A batch has as many rounds as let readers look often enough, which is a matter of time: each boot has its own.
    times = run.rounds / told["rounds"]
    predicted = times * told["predicted"]
    slowdown = 1 + measured / base
    row = {"base": base, "measured": measured, "slowdown": slowdown, "firings": times * told["firings"]}
    if not measured and predicted:
        return row | {"problem": f"it adds nothing, and {predicted:,.0f} were predicted"}
    return (
        row
        | lost(run)
        | {
            "predicted": predicted,
            "low": times * told["low"],
            "high": times * told["high"],
            "predicted_slowdown": told["slowdown"],
            "error_added": predicted / measured - 1 if measured else 0.0,
            "error_slowdown": told["slowdown"] / slowdown - 1,
        }
    )


__all__ = ["TRACED", "predictions", "put_traced"]
