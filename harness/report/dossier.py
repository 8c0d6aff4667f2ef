# SPDX-License-Identifier: MIT
"""What a reader is told first: what the paper says, what of it holds, what does not, what could not be told here."""

from __future__ import annotations

from collections.abc import Sequence

from harness.experiment.model import Paper
from harness.measure.claims import ClaimResult
from harness.measure.verdict import Verdict

#: Headings for claims of the paper, in the order in which they are told.
_TOLD: tuple[tuple[Verdict, str], ...] = (
    ("reproduced", "Holds here"),
    ("contradicted", "Does not hold"),
    ("not-measurable", "Not measurable here"),
)


def dossier(paper: Paper, claims: Sequence[ClaimResult]) -> list[tuple[str, str]]:
    """Heading and text of each sentence; none of a kind that is empty."""
    own = [claim for claim in claims if claim.kind == "paper"]
    sentences = [("The paper says", " ".join(paper.says.split()))] if paper.says else []
    for verdict, heading in _TOLD:
        names = [claim.id for claim in own if claim.verdict == verdict]
        if names:
            sentences.append((heading, f"{len(names)} of {len(own)} claims of the paper: {', '.join(names)}"))
    findings = [claim for claim in claims if claim.kind == "finding"]
    if findings:
        sentences.append(("Findings of ours", _findings(findings)))
    after = [claim.id for claim in claims if claim.after_data]
    if after:
        sentences.append(("Chosen after data had been seen", f"metric or bound of {', '.join(after)}"))
    return sentences


def _findings(findings: Sequence[ClaimResult]) -> str:
    parts = [f"{sum(claim.verdict == 'confirmed' for claim in findings)} of {len(findings)} confirmed"]
    for verdict, word in (("refuted", "refuted"), ("not-measurable", "not measurable")):
        names = [claim.id for claim in findings if claim.verdict == verdict]
        if names:
            parts.append(f"{word}: {', '.join(names)}")
    return "; ".join(parts)
