# SPDX-License-Identifier: MIT
"""Profiles for https://www.speedscope.app: its file format, https://www.speedscope.app/file-format-schema.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.errors import UsageError
from harness.measure.views import PROFILES
from harness.sets.resultset import ResultSet, view_file

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
UNITS = ("none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes")


def write_speedscope(result: ResultSet, path: Path) -> None:
    """One "sampled" profile for each name that the experiment's `profiles` gave; executes nothing.

    UsageError when the set has none, or when it has what speedscope cannot show.
    """
    stacks = result.view(PROFILES)
    if stacks is None:
        raise UsageError(
            "has no profiles",
            where=str(result.path),
            hint="its analysis.py has no function profiles; or the set is older: ./inv analyse makes one that has them",
        )
    data = speedscope(stacks, str(result.path / view_file(PROFILES.name)))
    data["name"] = f"{result.manifest.experiment.name} {result.manifest.id}"
    path.write_text(json.dumps(data, ensure_ascii=False) + "\n", encoding="utf-8")


def speedscope(stacks: pd.DataFrame, where: str) -> dict[str, Any]:
    """A speedscope file of weighted stacks (PROFILES); `where` is told in errors."""
    if stacks.empty:
        raise UsageError("profiles() gives no stacks of this set", where=where)
    bad = stacks[~stacks["weight"].between(0, np.finfo(float).max) | ~stacks["unit"].isin(UNITS)]
    if len(bad):
        one = bad.iloc[0]
        raise UsageError(
            f"profiles(): {one['stack']!r} has weight {one['weight']:g} and unit {one['unit']!r}",
            where=where,
            hint=f"weights are finite and 0 or more, units one of {', '.join(UNITS)}",
        )
    frames: dict[str, int] = {}
    profiles = []
    for name, rows in stacks.groupby("profile", sort=False):
        samples = [[frames.setdefault(frame, len(frames)) for frame in stack.split(";")] for stack in rows["stack"]]
        profiles.append(
            {
                "type": "sampled",
                "name": name,
                "unit": rows["unit"].iloc[0],
                "startValue": 0,
                "endValue": float(rows["weight"].sum()),
                "samples": samples,
                "weights": rows["weight"].tolist(),
            }
        )
    return {
        "$schema": SCHEMA,
        "exporter": "krepro",
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": frame} for frame in frames]},
        "profiles": profiles,
    }
