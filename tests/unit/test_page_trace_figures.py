"""The figures of page-trace: each is drawn from tables as the decoder makes them, and left out where there are none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from experiments.page_trace.trace.accessmap import AccessMap
from experiments.page_trace.trace.records import decode
from experiments.page_trace.trace.reuse import ReuseDistances
from experiments.page_trace.trace.tables import fill
from experiments.page_trace.trace.workingset import WorkingSet, WorkingSetCurve

from harness.measure.analysis import load_module
from harness.paths import ROOT
from harness.report.figures import figure_style, write_figures
from tests.page_traces import record, words_of

HEAP, STACK, DATA = 0x555555560, 0x7FFFFFFDE, 0x404


def programs():
    """Page sequences of some kinds of programs, with the stack in between."""
    random = np.random.default_rng(1)
    i = np.arange(4000)
    pages = {
        "stream": HEAP + i // 8 % 600,
        "stride": HEAP + 17 * i % 1000,
        "random": HEAP + random.integers(0, 800, i.size),
        "sort": HEAP + np.where(i % 3 == 0, i // 10, 400 + (i * i // 5000) % 300),
        "hash": np.where(i % 5 == 0, DATA + i % 3, HEAP + random.zipf(1.4, i.size) % 500),
    }
    return {name: np.stack([page, np.full(page.size, STACK)], axis=1).reshape(-1) for name, page in pages.items()}


def locality(name, pages):
    words = words_of(record(int(page), 700 * i, flags=i % 2) for i, page in enumerate(pages))
    last = 700 * pages.size
    tables = {
        "map": AccessMap(last // 200, 200),
        "curve": WorkingSetCurve(),
        "workingset": WorkingSet(last // 100, 100, [last // 100, last // 10]),
        "reuse": ReuseDistances(),
    }
    fill([decode(words)], list(tables.values()))
    return {key: table.frame().assign(arm="traced", trial=0, workload=name) for key, table in tables.items()}


def methods(trials):
    random = np.random.default_rng(2)
    price = {"untraced": (1, 0), "traced": (40, 2e7), "window-2": (20, 1e7), "window-4": (6, 4e6)}
    price |= {"window-16": (3, 8e5), "lackey": (90, 4e9), "damon": (1.02, 3e4)}
    lost = {"traced": 0.0, "window-2": 0.4, "window-4": 0.7, "window-16": 0.97}
    cost, loss, near = [], [], []
    for k, name in enumerate(programs()):
        for trial in range(trials):
            key = {"trial": trial, "workload": name}
            for arm, (times, size) in price.items():
                noise = float(random.lognormal(0, 0.05))
                factor = 1 + (times - 1) * (1 + k)
                cost.append(key | {"arm": arm, "seconds": 0.3 * factor * noise, "bytes": size * (1 + k)})
            loss += [key | {"arm": arm, "oracle": 100_000, "missing": int(1e5 * share)} for arm, share in lost.items()]
            near.append(key | {"arm": "neighbour", "alone": 1e6, "beside": 1e6 * float(random.normal(1, 0.01))})
    return {"cost": pd.DataFrame(cost), "loss": pd.DataFrame(loss), "neighbour": pd.DataFrame(near)}


@pytest.fixture(scope="module")
def tables():
    parts = [locality(name, pages) for name, pages in programs().items()]
    return {key: pd.concat([part[key] for part in parts], ignore_index=True) for key in parts[0]} | methods(6)


@pytest.fixture(scope="module")
def draw():
    return load_module(ROOT / "experiments/page-trace/figures.py").draw


def test_every_figure_is_drawn_and_written(tables, draw, tmp_path):
    with figure_style():
        figures = draw(tables)
    assert list(figures) == ["access-model", "working-set", "reuse-distance", "cost", "loss", "neighbour"]
    for path in write_figures(figures, tmp_path):
        assert path.stat().st_size < 1 << 20, path.name
    labels = {text.get_text() for legend in figures["cost"].legends for text in legend.get_texts()}
    assert labels == {"traced", "window-2", "window-4", "window-16", "lackey", "damon"}


def test_figures_without_data_are_left_out(tables, draw):
    assert draw({}) == {}
    assert draw({name: table.iloc[:0] for name, table in tables.items()}) == {}
    assert draw({name: table[table["arm"] == "untraced"] for name, table in tables.items()}) == {}


def test_few_trials_are_named_as_such(draw):
    labels = draw(methods(3))["neighbour"].axes[0].get_xlabel()
    assert "least to most of 3 trials" in labels
