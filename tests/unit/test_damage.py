"""Every raw file of the golden trials, deleted, truncated and filled with noise: the rest of the analysis stands."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from harness.experiment.trial import TrialRecord
from tests.golden import golden_names, records, unpack

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


def files(trial: TrialRecord) -> list[Path]:
    return [path for path in sorted(trial.path.rglob("*")) if path.is_file() and path.name not in UNREAD]


def pairs() -> list[tuple[str, str]]:
    """The arms to damage: DAMAGED of an experiment's mutations, with every kind of file between them; else all."""
    chosen = []
    for name in golden_names():
        module = importlib.import_module(f"tests.mutations.{name.replace('-', '_')}")
        arms = getattr(module, "DAMAGED", None)
        chosen += [
            (name, arm) for arm in dict.fromkeys(trial.arm for trial in records(name)) if not arms or arm in arms
        ]
    return chosen


@pytest.mark.parametrize(("name", "arm"), pairs())
def test_a_damaged_file_costs_what_it_tells_and_nothing_else(name, arm, tmp_path):
    golden = unpack(name, tmp_path)
    arms = list(dict.fromkeys(trial.arm for trial in golden.trials))
    other = arms[(arms.index(arm) + 1) % len(arms)]  # one more arm is enough to see that others stand
    golden.trials = [trial for trial in golden.trials if trial.arm in (arm, other)]
    damaged_trial = next(trial for trial in golden.trials if trial.arm == arm)
    whole = values(golden.metrics(golden.tables()))
    allowed = may_change(name)
    for path in files(damaged_trial):
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
            mine = (damaged_trial.arm, damaged_trial.repetition)
            problems = tables["problems"]
            told = ((problems["arm"] == mine[0]) & (problems["trial"] == mine[1])).any()
            assert told or not any(key[:2] == mine for key in gone), (what, sorted(gone)[:3])
