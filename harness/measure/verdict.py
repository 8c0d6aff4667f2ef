# SPDX-License-Identifier: MIT
"""The words of a verdict, apart from what decides it: a list of sets needs the words only."""

from __future__ import annotations

from typing import Literal, get_args

#: A claim of the paper is reproduced or contradicted, a finding of ours is confirmed or refuted.
Verdict = Literal["reproduced", "contradicted", "confirmed", "refuted", "not-measurable"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
#: A sign beside the word, so that a verdict can be told without its colour.
SIGNS: dict[Verdict, str] = {
    "reproduced": "✓",
    "contradicted": "✗",
    "confirmed": "✓",
    "refuted": "✗",
    "not-measurable": "?",
}
HOLDS: frozenset[Verdict] = frozenset({"reproduced", "confirmed"})
