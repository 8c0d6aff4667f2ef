# SPDX-License-Identifier: MIT
"""docs/reliability.md and the README say what the tests of faults say."""

from __future__ import annotations

from tests.reliability_page import PAGE, README, page, readme


def test_the_page_is_that_of_the_tests():
    assert PAGE.read_text() == page(), "python -m tests.reliability_page writes it"
    assert page().count("\n| ") > 30


def test_the_readme_counts_them():
    assert README.read_text() == readme(), "python -m tests.reliability_page writes it"
    told = readme().split("## When something fails")[1].split("## ")[0]
    counts = [int(line.split(" | ")[-2]) for line in told.splitlines() if line.startswith("| ") and "where" not in line]
    assert sum(counts) == page().count("\n| ") - 2, "all but the two heads"
