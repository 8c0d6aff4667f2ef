# SPDX-License-Identifier: MIT
"""What a person counted on paper, beside what is told of it: in the golden trials, and in the README."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from experiments.probe_cost.hand import COUNTS
from experiments.probe_cost.report import summaries

from harness.paths import EXPERIMENTS
from tests.golden import unpack

TITLE = "Counted on paper, and by the kernel"
README = EXPERIMENTS / "probe-cost/README.md"


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    golden = unpack("probe-cost", tmp_path_factory.mktemp("golden"))
    tables = golden.analysis.tables([trial for trial in golden.trials if trial.arm in ("virtual", "hand")])
    return summaries(tables)[TITLE].drop(columns="arm")


def row_of(row: pd.Series) -> str:
    numbers = ["" if pd.isna(value) else f"{value:.0f}" for value in row[["on paper", "told", "2nd opinion", "oracle"]]]
    cells = [f"`{row['run']}`", row["what"], *numbers, row["counted"]]
    return ("| " + " | ".join(cells) + " |").replace("|  |", "| |").replace("|  |", "| |")


def test_all_that_can_be_counted_is_told_as_it_is_on_paper(counted):
    assert sorted(zip(counted["run"], counted["what"], strict=True)) == sorted((one.run, one.what) for one in COUNTS)
    assert (counted["told"] == counted["on paper"]).all()
    for opinion in ("2nd opinion", "oracle"):
        asked = counted[counted[opinion].notna()]
        assert len(asked) >= 2
        assert (asked[opinion] == asked["on paper"]).all()


def test_the_readme_has_the_same_table(counted):
    rows = [row_of(row) for _, row in counted.iterrows()]
    text = README.read_text()
    assert [row for row in rows if row not in text] == []
    assert text.count("\n| `hand.") == sum(row.startswith("| `hand.") for row in rows)


def test_what_did_not_run_has_no_row(tmp_path: Path):
    golden = unpack("probe-cost", tmp_path)
    path = golden.raw("hand") / "hand" / "stdout"
    lines = [line for line in path.read_text().splitlines(keepends=True) if '"run": "hand.turn"' not in line]
    path.write_text("".join(lines))
    (golden.raw("hand") / "oracle" / "oracle.json").unlink()
    rows = golden.analysis.tables([trial for trial in golden.trials if trial.arm == "hand"])["by_hand"]
    assert set(rows["run"]) == {"hand.calls", "hand.pages", "hand.filter", "hand.program250", "hand.dd"}
    assert rows["exact"].isna().all()
