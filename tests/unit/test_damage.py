"""Every raw file of the golden trials, deleted, truncated and filled with noise: the rest of the analysis stands."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from tests.golden import Golden, golden_names, unpack

KEY = ["arm", "trial", "metric"]
#: Files of the harness that no analysis reads.
UNREAD = {"console.log", "qmp-events.json", "dmesg"}


def damaged(path: Path) -> Iterator[str]:
    """The file in each state in turn, then as it was."""
    whole = path.read_bytes()
    path.unlink()
    yield "deleted"
    path.write_bytes(whole[: len(whole) // 2])
    yield "truncated"
    path.write_bytes(random.Random(path.name).randbytes(max(len(whole), 64)))
    yield "noise"
    path.write_bytes(whole)


def values(metrics: pd.DataFrame) -> dict[tuple[str, int, str], tuple[float | None, str | None]]:
    return {
        (row.arm, row.trial, row.metric): (None if pd.isna(row.value) else row.value, row.reason)
        for row in metrics.itertuples()
    }


def may_change(name: str) -> dict[str, set[str]]:
    """MAY_CHANGE of an experiment's mutations: by name of a file the families whose values follow from any content."""
    module = importlib.import_module(f"tests.mutations.{name.replace('-', '_')}")
    return dict(getattr(module, "MAY_CHANGE", {}))


def files(golden: Golden) -> list[Path]:
    """One trial of each arm."""
    first = {trial.arm: trial.path for trial in reversed(golden.trials)}
    return [
        path
        for folder in first.values()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in UNREAD
    ]


@pytest.mark.parametrize("name", golden_names())
def test_a_damaged_file_costs_what_it_tells_and_nothing_else(name, tmp_path):
    golden = unpack(name, tmp_path)
    whole = values(golden.metrics(golden.tables()))
    allowed = may_change(name)
    for path in files(golden):
        for state in damaged(path):
            what = f"{path.relative_to(golden.root)} {state}"
            tables = golden.tables()
            left = values(golden.metrics(tables))
            for key, (value, reason) in left.items():
                if value is None:
                    assert reason, (what, key)
                elif key in whole and key[2].partition(".")[0] not in allowed.get(path.name, set()):
                    assert value == whole[key][0], (what, key)
            gone = whole.keys() - left.keys()
            arm, trial = path.relative_to(golden.root).parts[1:3]
            problems = tables["problems"]
            told = ((problems["arm"] == arm) & (problems["trial"] == int(trial))).any()
            assert told or not any(key[:2] == (arm, int(trial)) for key in gone), (what, sorted(gone)[:3])
