# SPDX-License-Identifier: MIT
"""The page of faults says what the tests of faults say."""

from __future__ import annotations

from tests.reliability_page import page, summary


def test_the_page_has_a_row_for_each_fault():
    assert page().count("\n| ") > 30


def test_its_summary_counts_them():
    rows = summary().splitlines()
    assert sum(int(row.split(" | ")[-2]) for row in rows) == page().count("\n| ") - len(rows) - 3, "all but the heads"
