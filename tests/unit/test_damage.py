# SPDX-License-Identifier: MIT
"""Raw files of the golden trials, deleted, truncated or filled with noise: the rest of the analysis stands.

Each file of the chosen arms in one of these ways, of SMALL always and of the others among the deep tests;
tests/faults/test_damage_everywhere.py tries all ways and arms.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
import pytest

from harness.trial.model import TrialRecord
from tests.golden import golden_names, records, unpack

KEY = ["arm", "trial", "metric"]
STATES = ("deleted", "truncated", "noise")
#: Files of the harness that no analysis reads.
UNREAD = {"console.log", "qmp-events.json", "dmesg"}
#: An arm of each experiment whose trial is decoded in no time.
SMALL = {
    ("irq-hotspot", "map-tick"),
    ("lock-trace", "per-lock"),
    ("page-trace", "exact"),
    ("probe-cost", "wall"),
    ("shim", "hardware"),
}


def damaged(path: Path, states: Sequence[str]) -> Iterator[str]:
    """The file in each of these states in turn, then as it was."""
    whole = path.read_bytes()
    for state in states:
        if state == "deleted":
            path.unlink()
        elif state == "truncated":
            path.write_bytes(whole[: len(whole) // 2])
        else:
            path.write_bytes(random.Random(path.name).randbytes(max(len(whole), 64)))
        yield state
        path.write_bytes(whole)


def values(metrics: pd.DataFrame) -> dict[tuple[str, int, str], tuple[float | None, str | None]]:
    return {
        (row.arm, row.trial, row.metric): (None if pd.isna(row.value) else row.value, row.reason)
        for row in metrics.itertuples()
    }


def files(trial: TrialRecord) -> list[Path]:
    return [path for path in sorted(trial.path.rglob("*")) if path.is_file() and path.name not in UNREAD]


def arms_of(name: str) -> list[str]:
    """The arms that have golden trials."""
    return list(dict.fromkeys(trial.arm for trial in records(name)))


def told_apart(trial: TrialRecord, path: Path, by_workload: bool) -> TrialRecord:
    """The trial, with only the workload that the file is of, where an experiment decodes workloads one by one."""
    first = path.relative_to(trial.path).parts[0]
    alone = by_workload and first in trial.workloads
    return trial.model_copy(update={"workloads": (first,)}) if alone else trial


def check_damage(name: str, arm: str, root: Path, every_state: bool) -> None:
    """Damage each file of an arm's first trial; without `every_state` in one way each, the three taking turns."""
    golden = unpack(name, root)
    module = importlib.import_module(f"tests.mutations.{name.replace('-', '_')}")
    allowed: dict[str, set[str]] = getattr(module, "MAY_CHANGE", {})
    by_workload: bool = getattr(module, "BY_WORKLOAD", False)
    arms = arms_of(name)
    other = arms[(arms.index(arm) + 1) % len(arms)]  # one more arm is enough to see that others stand
    mine, *others = sorted((one for one in golden.trials if one.arm in (arm, other)), key=lambda one: one.arm != arm)
    before: dict[tuple[str, ...], dict[tuple[str, int, str], tuple[float | None, str | None]]] = {}
    for index, path in enumerate(files(mine)):
        golden.trials = [told_apart(mine, path, by_workload), *others]
        part = golden.trials[0].workloads
        if part not in before:
            before[part] = values(golden.metrics(golden.tables()))
        whole = before[part]
        for state in damaged(path, STATES if every_state else [STATES[index % len(STATES)]]):
            what = f"{path.relative_to(golden.root)} {state}"
            tables = golden.tables()
            left = values(golden.metrics(tables))
            for key, (value, reason) in left.items():
                if value is None:
                    assert reason, (what, key)
                elif key in whole and key[2].partition(".")[0] not in allowed.get(path.name, set()):
                    # A cost that is known in two parts, or as their sum only, comes out otherwise in the last digit.
                    assert value == pytest.approx(whole[key][0], rel=1e-12, abs=0), (what, key)
            gone = whole.keys() - left.keys()
            problems = tables["problems"]
            told = ((problems["arm"] == mine.arm) & (problems["trial"] == mine.repetition)).any()
            assert told or not any(key[:2] == (mine.arm, mine.repetition) for key in gone), (what, sorted(gone)[:3])


def pairs(*, chosen: bool) -> list[tuple[str, str]]:
    """Experiments and arms; `chosen`: DAMAGED of the mutations, with every kind of file between them, where it is."""
    found = []
    for name in golden_names():
        module = importlib.import_module(f"tests.mutations.{name.replace('-', '_')}")
        found += [(name, arm) for arm in (chosen and getattr(module, "DAMAGED", None)) or arms_of(name)]
    return found


def test_small_arms_are_there():
    assert set(pairs(chosen=True)) >= SMALL


@pytest.mark.parametrize(
    ("name", "arm"),
    [pytest.param(*pair, marks=() if pair in SMALL else pytest.mark.deep) for pair in pairs(chosen=True)],
)
def test_a_damaged_file_costs_what_it_tells_and_nothing_else(name, arm, tmp_path):
    check_damage(name, arm, tmp_path, every_state=False)
