# SPDX-License-Identifier: MIT
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

from harness.measure.loading import load_module
from harness.paths import ROOT
from harness.report.figures import figure_style, write_figures
from tests.experiments.page_trace.traces import record, words_of

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


def measured(trials):
    """Metrics of so many trials of every arm."""
    random = np.random.default_rng(2)
    price = {"traced": (40, 2e7), "window-2": (20, 1e7), "window-4": (6, 4e6), "window-16": (3, 8e5)}
    price |= {"lackey": (90, 4e9), "faults": (1.01, 3e4), "soft-dirty": (1.3, 9e4), "damon": (1.02, 3e4)}
    price |= {"traced-wall": (50, 2e7)}
    lost = {"traced": 0.0, "window-2": 0.4, "window-4": 0.7, "window-16": 0.97}
    rows = []
    for trial in range(trials):
        for place, program in enumerate(programs()):
            for arm, (times, size) in price.items():
                factor = 1 + (times - 1) * (1 + place) * float(random.lognormal(0, 0.05))
                rows += [
                    (arm, trial, f"slowdown.{program}", factor),
                    (arm, trial, f"bytes.{program}", size * (1 + place)),
                ]
            rows += [(arm, trial, f"missing_share.{program}", share) for arm, share in lost.items()]
        for place, arm in enumerate(("stream-1", "stream-4", "stream-16", "stream-long")):
            cost = 8e3 * float(random.lognormal(0, 0.01))
            rows += [
                (arm, trial, "visits.long", 6e4 * 4**place),
                (arm, trial, "visit_time", cost),
                (arm, trial, "bytes_per_visit", 7.0),
            ]
        for name in ("neighbour_slowdown", "neighbour_slowdown_fastest"):
            rows.append(("neighbour", trial, name, float(random.normal(0, 0.01))))
    return pd.DataFrame(rows, columns=["arm", "trial", "metric", "value"])


@pytest.fixture(scope="module")
def tables():
    parts = [locality(name, pages) for name, pages in programs().items()]
    return {key: pd.concat([part[key] for part in parts], ignore_index=True) for key in parts[0]}


@pytest.fixture(scope="module")
def draw():
    return load_module(ROOT / "experiments/page-trace/analysis.py").figures


MODEL = ["access-model", "working-set", "working-set-over-time", "reuse-distance"]
ALL = [*MODEL, "cost", "cost-wall", "cost-by-length", "loss", "neighbour"]


@pytest.mark.deep
def test_every_figure_is_drawn_and_written(tables, draw, tmp_path):
    with figure_style():
        figures = draw(tables, measured(6))
    assert list(figures) == ALL
    for path in write_figures(figures, tmp_path):
        assert path.stat().st_size < 1 << 20, path.name
    labels = {text.get_text() for legend in figures["cost"].legends for text in legend.get_texts()}
    assert labels == {"traced", "window-2", "window-4", "window-16", "lackey", "faults", "soft-dirty"}


def test_every_program_has_its_panel(tables, draw):
    many = {
        name: pd.concat([table.assign(workload=table["workload"] + str(i)) for i in range(3)], ignore_index=True)
        for name, table in tables.items()
    }
    figures = draw(many, measured(1).iloc[:0])
    for name in MODEL:
        titles = [axes.get_title() for axes in figures[name].axes if axes.get_visible() and axes.get_title()]
        assert sorted(titles) == sorted(f"{program}{i}" for program in programs() for i in range(3)), name


def test_any_subset_of_arms_gets_the_figures_it_has_data_for(tables, draw):
    empty, metrics = {name: table.iloc[:0] for name, table in tables.items()}, measured(2)
    assert draw(empty, metrics.iloc[:0]) == {}
    assert list(draw(tables, metrics.iloc[:0])) == MODEL
    for arm, names in {"lackey": ["cost"], "traced-wall": ["cost-wall"], "neighbour": ["neighbour"]}.items():
        assert list(draw(empty, metrics[metrics["arm"] == arm])) == names
    # Without the arm untraced there is no slowdown; the data is still told.
    alone = metrics[(metrics["arm"] == "traced") & ~metrics["metric"].str.startswith("slowdown")]
    assert [axes.get_xlabel() for axes in draw(empty, alone)["cost"].axes] == [
        "bytes of data (median, least to most of 2 trials)"
    ]


def test_what_a_visit_costs_is_drawn_by_length(tables, draw):
    empty, metrics = {name: table.iloc[:0] for name, table in tables.items()}, measured(1)
    streams = metrics[metrics["arm"].str.startswith("stream-")]
    left, right = draw(empty, streams)["cost-by-length"].axes
    for axes, height in ((left, 8e3), (right, 7.0)):
        at, told = axes.lines[0].get_data()
        assert list(at) == [6e4, 24e4, 96e4, 384e4]
        assert told == pytest.approx([height] * 4, rel=0.1)
    assert draw(empty, streams[streams["arm"] == "stream-4"]) == {}


def test_few_trials_are_named_as_such(tables, draw):
    labels = draw(tables, measured(3))["neighbour"].axes[0].get_xlabel()
    assert "least to most of 3 trials" in labels
