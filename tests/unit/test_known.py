# SPDX-License-Identifier: MIT
"""The one rule: what is news, what is told only, and the exit code of either."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import exit_code
from harness.measure.claims import ClaimResult
from harness.measure.known import expected, is_news, is_untold, news, news_lines


def claim(kind: str, known: str | None, verdict: str, **fields: Any) -> ClaimResult:
    blank: dict[str, Any] = {name: None for name, field in ClaimResult.model_fields.items() if field.is_required()}
    given = {"id": "c", "kind": kind, "known": known, "verdict": verdict, "expected": "at most 1", "trials": 1}
    return ClaimResult.model_validate(blank | given | fields)


@pytest.mark.parametrize(
    ("kind", "known", "verdict", "told"),
    [
        ("paper", None, "reproduced", ""),
        ("paper", None, "contradicted", "news"),
        ("paper", None, "not-measurable", "untold"),
        ("paper", "contradicted", "contradicted", ""),
        ("paper", "contradicted", "reproduced", "news"),
        ("paper", "contradicted", "not-measurable", "untold"),
        ("paper", "not-measurable", "not-measurable", ""),
        ("paper", "not-measurable", "reproduced", "news"),
        ("paper", "not-measurable", "contradicted", "news"),
        ("finding", None, "confirmed", ""),
        ("finding", None, "refuted", "news"),
        ("finding", "refuted", "refuted", ""),
        ("finding", "refuted", "confirmed", "news"),
        ("finding", "refuted", "not-measurable", "untold"),
    ],
)
def test_a_verdict_against_what_is_known(kind, known, verdict, told):
    judged = claim(kind, known, verdict)
    assert (is_news(judged), is_untold(judged)) == (told == "news", told == "untold")
    assert exit_code(news=bool(news([judged]))) == (told == "news")


def test_a_line_of_news_says_what_was_known_and_the_figure():
    judged = claim("paper", "contradicted", "reproduced", measured=0.5)
    assert expected(judged) == "contradicted"
    assert news_lines([judged]) == ["c is reproduced, known as contradicted: 0.5 where at most 1 is expected"]
