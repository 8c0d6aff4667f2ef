"""Where decoders put what they find: tables, values, and why a value is absent."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from harness.errors import RunError


class Trial(Protocol):
    """What this analysis reads of a trial; `path` is its raw folder, with one folder per workload."""

    arm: str
    repetition: int
    path: Path
    workloads: tuple[str, ...]
    params: dict[str, Any]
    clock: str
    fidelity: str
    pmu: str


class Found:
    """Tables and values of all trials, as they are decoded."""

    def __init__(self) -> None:
        self.parts: dict[str, list[pd.DataFrame]] = {}
        self.values: list[dict[str, Any]] = []
        self.key: dict[str, Any] = {}
        self.workload = ""

    def put(self, table: str, rows: pd.DataFrame | list[dict[str, Any]]) -> None:
        """Rows of the current trial and workload."""
        frame = pd.DataFrame(rows)
        if len(frame):
            names = [name for name in frame.columns if name not in self.key and name != "workload"]
            frame = frame[names].assign(**self.key, workload=self.workload)
            self.parts.setdefault(table, []).append(frame[["arm", "trial", "workload", *names]])

    def value(self, metric: str, value: float | None, unit: str, reason: str | None = None) -> None:
        """One figure of the current trial; where it is absent, why."""
        number = math.nan if value is None else float(value)
        if math.isfinite(number):
            reason = None
        row = {"workload": self.workload, "metric": metric, "value": number, "unit": unit}
        self.values.append(
            self.key | row | {"reason": reason if reason or math.isfinite(number) else "nothing counted"}
        )

    def tables(self) -> dict[str, pd.DataFrame]:
        """All of them; `measured` has the values."""
        made = {name: pd.concat(parts, ignore_index=True) for name, parts in self.parts.items()}
        columns = ["arm", "trial", "workload", "metric", "value", "unit", "reason"]
        measured = pd.DataFrame(self.values, columns=columns)
        return made | {"measured": measured.astype({"value": "float64", "reason": "object"})}


Part = tuple[dict[str, str], Callable[[Found, Trial, Path], None]]


def guarded(found: Found, part: Part, trial: Trial, folder: Path) -> None:
    """One part of a workload: its metrics are there, or are absent with the reason."""
    names, decoder = part
    before = len(found.values)
    reason = "was not reported"
    try:
        decoder(found, trial, folder)
    except RunError as error:
        name = Path(str(error.where).partition(",")[0]).name if error.where else ""
        reason = f"{found.workload}/{name}: {error.message}" if name else error.message
    given = {row["metric"] for row in found.values[before:]}
    for metric, unit in names.items():
        if metric not in given:
            found.value(metric, None, unit, reason)
