"""Predicting what a trace will cost, from a fitted model and a script: `./inv predict`."""

from __future__ import annotations

import math
from pathlib import Path

from pydantic import ValidationError
from rich import box
from rich.console import Console
from rich.table import Table

from harness.errors import EXIT_OK, UsageError
from harness.measure.prediction import Prediction, predict
from harness.measure.probecost import CostModel, Script, Stage, stages
from harness.store.listing import find_set
from harness.store.resultset import DOCUMENTS
from harness.yamlfile import load_model


def load_cost_model(results: Path, text: str, name: str = "model") -> CostModel:
    """The model in a file, or in the result set that `text` means; UsageError when there is none, or it is no model."""
    path = Path(text).expanduser()
    hint = "./inv run probe-cost makes a set with a model"
    if not path.is_file():
        folder = find_set(results, text) / DOCUMENTS
        path = folder / f"{name}.json"
        if models := sorted(other.stem for other in folder.glob("model*.json")):
            hint = f"--name: {', '.join(models)}"
    try:
        return CostModel.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path), hint=hint) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "(whole file)"
        raise UsageError(f"is no cost model: {field}: {first['msg']}", where=str(path)) from error


def predict_script(results: Path, model_text: str, script: Path, name: str, console: Console) -> int:
    """Print what `script` will cost by the model."""
    model = load_cost_model(results, model_text, name)
    prediction = predict(model, load_model(script, Script))
    _print(model, prediction, console)
    return EXIT_OK


def _print(model: CostModel, prediction: Prediction, console: Console) -> None:
    low, high = prediction.interval
    if prediction.parts:
        console.print(_table(prediction))
    console.print(f"untraced: {prediction.base:,.0f} {prediction.unit}")
    console.print(
        f"added:    {prediction.added:,.0f} {prediction.unit} [{prediction.low:,.0f}, {prediction.high:,.0f}]",
        markup=False,
    )
    exact = "exactly " if prediction.added == 0 else ""
    spread = "" if exact else f" [{_ratio(low)}, {_ratio(high)}]"
    console.print(f"slowdown: {exact}{_ratio(prediction.slowdown)}{spread}", markup=False)
    for note in prediction.notes:
        console.print(f"note: {note}", markup=False, soft_wrap=True)
    console.print(f"by {model.experiment}/{model.arm} on {model.kernel}, fidelity {model.fidelity}", markup=False)


def _ratio(value: float) -> str:
    """1.0x, and as many digits as the difference from 1 needs to show two of them."""
    if value == 1:
        return "1.0x"
    return f"{value:.{max(2, 1 - math.floor(math.log10(abs(value - 1))))}f}x"


def _table(prediction: Prediction) -> Table:
    """One row per probe and stage, each probe's stages in their order, and a probe's sum."""
    order = {stage: place for place, stage in enumerate(stages())}
    table = Table("probe", "stage", box=box.SIMPLE_HEAD)
    for name in ("times", "each", f"added, {prediction.unit}", "of all"):
        table.add_column(name, justify="right")
    sums: dict[str, dict[Stage, tuple[float, float]]] = {}
    for part in prediction.parts:
        mine = sums.setdefault(part.probe, {})
        count, added = mine.get(part.stage, (0.0, 0.0))
        mine[part.stage] = (count + part.count, added + part.added)
    for probe, mine in sums.items():
        label = probe
        for stage, (count, added) in sorted(mine.items(), key=lambda item: order[item[0]]):
            share = f"{added / prediction.added:.1%}" if prediction.added else ""
            table.add_row(label, stage, f"{count:,.0f}", f"{added / count:,.1f}", f"{added:,.0f}", share)
            label = ""
        table.add_row("", "sum", "", "", f"{sum(added for _, added in mine.values()):,.0f}", "", end_section=True)
    return table
