# SPDX-License-Identifier: MIT
"""What a person counted on paper, beside what two instruments have: in the golden trials, and in the README."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from experiments.page_trace.hand import BUFFER_PAGES, BY_HAND, OUTSIDE, READS, reads_into_buffer
from experiments.page_trace.shown import summaries

from harness.paths import EXPERIMENTS
from tests.golden import unpack

TITLE = "Visits counted by hand, and by two instruments"


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> pd.DataFrame:
    golden = unpack("page-trace", tmp_path_factory.mktemp("golden"))
    arms = ("known", "known-avx", "lackey-known")
    tables = golden.analysis.tables([trial for trial in golden.trials if trial.arm in arms])
    return summaries(tables, golden.metrics(tables))[TITLE].set_index("case")


def test_both_instruments_have_what_a_person_counts(counted):
    assert set(counted.index) == set(BY_HAND)
    assert (counted["page trace"] == counted["by hand"]).all()
    assert (counted["lackey"] == counted["by hand"]).drop(OUTSIDE).all()
    assert pd.isna(counted.loc[OUTSIDE, "lackey"]), "it does not see what the kernel does"


def test_the_readme_has_the_same_table(counted):
    text = (EXPERIMENTS / "page-trace/README.md").read_text()
    for case, row in counted.iterrows():
        lackey = "" if pd.isna(row["lackey"]) else f"{row['lackey']:.0f}"
        cells = [f"`{case}`", row["by hand"], f"{row['page trace']:.0f}", lackey, row["counted"]]
        assert " ".join(f"| {cell}" for cell in cells).replace("|  |", "| |") + " |" in text


def test_reads_that_are_not_whole_are_said():
    page = np.arange(1000, 1000 + BUFFER_PAGES)
    pages = np.concatenate([[1, 2, *page] for _ in range(READS)])
    kernel = pages >= 1000
    assert reads_into_buffer(pages, kernel) == (BY_HAND[OUTSIDE].visits, None)
    seen, wrong = reads_into_buffer(np.delete(pages, 100), np.delete(kernel, 100))
    assert (seen, wrong is None) == (BY_HAND[OUTSIDE].visits - 1, False)
