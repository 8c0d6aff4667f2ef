# SPDX-License-Identifier: MIT
"""The bias map: cells of a load in step with the tick, told by samplers and exact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.irq_hotspot.stepped import Steps, cell_rows, interval
from scipy import stats

from harness.errors import RunError
from harness.measure.analysis import Analysis
from harness.measure.symbols import parse_system_map, read_system_map
from harness.oracle.reader import Oracle
from harness.paths import EXPERIMENTS
from harness.trial.model import TrialRecord
from tests.oracle_files import write_oracle
from tests.records import trial_record

STEXT = 0xC1000000
WORK, ZERO = STEXT + 64, STEXT + 128
MAP = f"{STEXT:08x} T _stext\n{WORK:08x} t krepro_edu_task_work\n{ZERO:08x} T read_zero\n{STEXT + 256:08x} T _etext\n"
#: Two cells: the exact share of the work is 0.95 and 0.1.
LAPS = (
    {(WORK, "task"): (950, 1), (ZERO, "task"): (40, 4), (ZERO, "interrupt"): (10, 1), (0, "user"): (500, 0)},
    {(WORK, "task"): (100, 1), (ZERO, "task"): (900, 9), (ZERO, "nmi"): (5000, 9)},
)


def load(*told: tuple[int, int], step: int = 64, jitter: bool = False) -> dict[str, Any]:
    """What stepload prints: counts in the work and elsewhere, of each cell."""
    cells = [
        {"phase": 2 * i + 1, "duty": 95, "counts": [[64 // step, inside], [128 // step, rest]]}
        for i, (inside, rest) in enumerate(told)
    ]
    return {"phases": 40, "cycles": 20, "step": step, "jitter": jitter, "elapsed_ns": 1, "cells": cells}


def trial(root: Path, arm: str, answer: dict[str, Any], sampling: str = "off", laps: Any = LAPS) -> TrialRecord:
    path, system_map = root / "raw" / arm / "0", root / "System.map"
    (path / "step").mkdir(parents=True)
    system_map.write_text(MAP)
    (path / "step" / "exit").write_text("0\n")
    (path / "step" / "stdout").write_text(json.dumps(answer))
    samples = [(0, WORK, 0)] * 19 + [(0, ZERO, 0), (0, ZERO)] + [(0, WORK, 1)] * 2 + [(0, ZERO, 1)] * 18
    write_oracle(path, [{}], samples, laps=laps)
    told = {"kernel": "classic-peers", "params": {"irq_sampling": sampling}, "workloads": ("step",)}
    return trial_record(arm, root=root, **told)


def metrics(*trials: TrialRecord) -> dict[tuple[str, str], float]:
    analysis = Analysis(EXPERIMENTS / "irq-hotspot")
    frame = analysis.metrics(analysis.tables(list(trials)), [])
    return {(row.arm, row.metric): row.value for row in frame.itertuples() if row.metric.startswith("map_")}


@pytest.mark.parametrize(("inside", "samples"), [(0, 20), (20, 20), (7, 20), (500, 1000)])
def test_the_interval_is_that_of_the_exact_test(inside, samples):
    exact = stats.binomtest(inside, samples).proportion_ci(method="exact")
    assert interval(inside, samples) == pytest.approx((exact.low, exact.high))


def test_cells_have_the_share_told_and_the_exact_one_without_user_mode_and_nmis(tmp_path):
    one = trial(tmp_path, "map-tick", load((0, 20), (20, 0)))
    rows = cell_rows(
        Steps.model_validate_json((one.path / "step/stdout").read_text()),
        Oracle(one.path), read_system_map(one.system_map), "off",
    )  # fmt: skip
    assert rows["sampler"].tolist() == ["tick", "tick", "ideal sampler", "ideal sampler"]
    assert rows["exact"].tolist() == [0.95, 0.1, 0.95, 0.1]
    assert rows["told"].tolist() == [0, 1, 0.95, 0.1]
    assert rows["outside"].tolist() == [True, True, False, False]
    assert rows["phase"].tolist() == [0.025, 0.075, 0.025, 0.075]
    assert rows["samples"].tolist() == [20, 20, 20, 20], "a sample in no lap is of no cell"


def test_the_map_is_summed_up_by_arm(tmp_path):
    tick = trial(tmp_path, "map-tick", load((0, 20), (20, 0)))
    jitter = trial(tmp_path, "map-jitter", load((18, 2), (3, 17), jitter=True))
    nmi = trial(tmp_path, "map-nmi", load((500, 500), (100, 900)), sampling="nmi")
    found = metrics(tick, jitter, nmi)
    assert found["map-tick", "map_outside.ticks"] == 1
    assert found["map-tick", "map_outside.sampler"] == 0
    assert found["map-tick", "map_blind.ticks"] == 0.95
    assert found["map-tick", "map_all.ticks"] == 0.1
    assert found["map-tick", "map_error.ticks"] == pytest.approx((0.95 + 0.9) / 2)
    assert found["map-jitter", "map_outside.ticks"] == 0
    assert found["map-jitter", "map_blind.ticks"] == 0, "no cell without a sample in the work"
    assert found["map-jitter", "map_blind_chance"] == pytest.approx(stats.binomtest(18, 20, 0.95).pvalue)
    assert found["map-nmi", "map_outside.ticks"] == 0.5
    assert found["map-nmi", "map_blind_chance"] < 1e-9


def test_without_the_tick_nothing_is_said_of_where_it_is_blind(tmp_path):
    assert np.isnan(metrics(trial(tmp_path, "map-jitter", load((18, 2), (3, 17))))["map-jitter", "map_blind_chance"])


@pytest.mark.parametrize(
    ("answer", "laps", "says"),
    [
        (load((1, 1)), LAPS, "2 laps, the load 1 cells"),
        (load((1, 1), (1, 1), step=128), LAPS, "shares a counter of 128 bytes"),
        (load((1, 1), (1, 1), step=64) | {"step": 0}, LAPS, "shares a counter of 0 bytes"),
    ],
)
def test_what_does_not_fit_together_is_refused(tmp_path, answer, laps, says):
    one = trial(tmp_path, "map-tick", answer, laps=laps)
    with pytest.raises(RunError, match=says):
        cell_rows(Steps.model_validate(answer), Oracle(one.path), read_system_map(one.system_map), "off")


def test_a_kernel_without_the_work_is_refused(tmp_path):
    one = trial(tmp_path, "map-tick", load((1, 1), (1, 1)))
    with pytest.raises(RunError, match="has no krepro_edu_task_work"):
        cell_rows(
            Steps.model_validate(load((1, 1), (1, 1))), Oracle(one.path),
            parse_system_map(MAP.replace("krepro_edu_task_work", "other")), "off",
        )  # fmt: skip
