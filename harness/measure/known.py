# SPDX-License-Identifier: MIT
"""Verdicts against what is known of their claims: the one rule for exit codes, reports, JUnit and the nightly job.

As pytest's strict xfail: a claim without `known` must hold, and one that comes out otherwise than known, in either
direction, is news. What could not be measured this time is told and counted; it is no failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from harness.measure.claims import ClaimResult
from harness.measure.verdict import Verdict


class Judged(Protocol):
    """A claim as it is declared, or as it was judged."""

    @property
    def kind(self) -> str: ...

    @property
    def known(self) -> Verdict | None: ...


def expected(claim: Judged) -> Verdict:
    """The verdict that the claim is recorded with, or that it holds."""
    return claim.known or ("reproduced" if claim.kind == "paper" else "confirmed")


def is_news(claim: ClaimResult) -> bool:
    """Whether it was judged otherwise than known."""
    return claim.verdict not in ("not-measurable", expected(claim))


def is_untold(claim: ClaimResult) -> bool:
    """Whether it could not be measured, where a verdict is known."""
    return claim.verdict == "not-measurable" != expected(claim)


def news(claims: Iterable[ClaimResult]) -> list[ClaimResult]:
    """Those judged otherwise than known, in their order."""
    return [claim for claim in claims if is_news(claim)]


def untold(claims: Iterable[ClaimResult]) -> list[ClaimResult]:
    """Those that could not be measured though a verdict is known, in their order."""
    return [claim for claim in claims if is_untold(claim)]


def news_lines(claims: Sequence[ClaimResult]) -> list[str]:
    """What is news, a line each: the claim, its verdict, what is known of it, and the figure."""
    lines = []
    for claim in news(claims):
        figure = f": {claim.measured:.6g} where {claim.expected} is expected" if claim.measured is not None else ""
        because = f" ({claim.reason})" if claim.reason else ""
        lines.append(f"{claim.id} is {claim.verdict}, known as {expected(claim)}{figure}{because}")
    return lines
