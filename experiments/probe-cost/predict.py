# SPDX-License-Identifier: MIT
"""The hook `predict`: what a trace will cost before it runs, by a fitted model and a script."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from harness.errors import UsageError
from harness.yamlfile import load_model

from .foreign import Foreign
from .model.cost import CostModel, Script, stages
from .model.prediction import Prediction, ratio
from .model.prediction import predict as by_model
from .pricing import price


def predict(document: Mapping[str, Any], script: Path) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Added cost by probe and stage, and in all; UsageError where `document` is no model or `script` no script."""
    try:
        model = CostModel.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "(whole file)"
        raise UsageError(f"is no cost model: {field}: {first['msg']}") from error
    if script.suffix == ".json":
        return price(model, _foreign(script))
    prediction = by_model(model, load_model(script, Script))
    tables = {"Added cost": _table(prediction)} if prediction.parts else {}
    return tables, _lines(model, prediction)


def _foreign(path: Path) -> Foreign:
    try:
        return Foreign.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise UsageError(
            f"is no script that a tool has compiled: {str(error).splitlines()[0]}", where=str(path)
        ) from error


def _lines(model: CostModel, prediction: Prediction) -> list[str]:
    low, high = prediction.interval
    exact = "exactly " if prediction.added == 0 else ""
    spread = "" if exact else f" [{ratio(low)}, {ratio(high)}]"
    return [
        f"untraced: {prediction.base:,.0f} {prediction.unit}",
        f"added:    {prediction.added:,.0f} {prediction.unit} [{prediction.low:,.0f}, {prediction.high:,.0f}]",
        f"slowdown: {exact}{ratio(prediction.slowdown)}{spread}",
        *(f"note: {note}" for note in [*prediction.notes, *_interval_notes(model)]),
        f"by {model.experiment}/{model.arm} on {model.kernel}, fidelity {model.fidelity}",
    ]


def _interval_notes(model: CostModel) -> list[str]:
    """What the interval is worth; README.md has the figures."""
    if model.accuracy is None:
        return []
    errors = f"the stages' intervals, and the error that 19 of 20 of {model.accuracy.scripts} other scripts were within"
    return [f"the interval is {errors}"]


def _table(prediction: Prediction) -> pd.DataFrame:
    """One row per probe and stage, each probe's stages in their order, and a probe's sum."""
    order: dict[str, int] = {stage: place for place, stage in enumerate(stages())}
    sums: dict[str, dict[str, tuple[float, float]]] = {}
    for part in prediction.parts:
        by_stage = sums.setdefault(part.probe, {})
        count, added = by_stage.get(part.stage, (0.0, 0.0))
        by_stage[part.stage] = (count + part.count, added + part.added)
    rows: list[tuple[str, ...]] = []
    for probe, by_stage in sums.items():
        label = probe
        for stage, (count, added) in sorted(by_stage.items(), key=lambda item: order.get(item[0], len(order))):
            share = f"{added / prediction.added:.1%}" if prediction.added else ""
            rows.append((label, stage, f"{count:,.0f}", f"{added / count:,.1f}", f"{added:,.0f}", share))
            label = ""
        rows.append(("", "sum", "", "", f"{sum(added for _, added in by_stage.values()):,.0f}", ""))
    return pd.DataFrame(rows, columns=["probe", "stage", "times", "each", f"added, {prediction.unit}", "of all"])
