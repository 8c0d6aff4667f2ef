# SPDX-License-Identifier: MIT
"""docs/reliability.md says what the tests of faults say."""

from __future__ import annotations

from tests.reliability_page import PAGE, page, summary


def test_the_page_is_that_of_the_tests():
    assert PAGE.read_text() == page(), "python -m tests.reliability_page writes it"
    assert page().count("\n| ") > 30


def test_its_summary_counts_them():
    rows = summary().splitlines()
    assert sum(int(row.split(" | ")[-2]) for row in rows) == page().count("\n| ") - len(rows) - 3, "all but the heads"
