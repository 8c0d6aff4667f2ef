# SPDX-License-Identifier: MIT
"""The README's table of scripts that three seeds have drawn is of the file that has each of them."""

from __future__ import annotations

import pandas as pd

from harness.paths import EXPERIMENTS, ROOT

TABLE = ROOT / "docs/figures/blind-scripts.csv"
TEXT = EXPERIMENTS / "probe-cost" / "README.md"


def test_the_table_of_seeds_is_that_of_the_file():
    scripts = pd.read_csv(TABLE)
    text = TEXT.read_text()
    rows = [*scripts.groupby("seed"), ("all", scripts)]
    assert len(rows) == 4
    for seed, drawn in rows:
        assert len(drawn) >= 60
        good = drawn[drawn["problem"].isna()]
        off = (good["predicted"] / good["measured"] - 1).abs()
        assert ((good["predicted"] / good["measured"] - 1) - good["error"]).abs().max() < 1e-3
        inside = good["measured"].between(good["low"], good["high"]).sum()
        figures = [f"{off.median():.1%}", (off <= 0.1).sum(), f"{off.max():.0%}", inside]
        row = " | ".join(map(str, [seed, len(drawn), len(drawn) - len(good), *figures]))
        assert "| " + row.replace("%", " %") + " |" in text, row
