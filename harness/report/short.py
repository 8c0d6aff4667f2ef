# SPDX-License-Identifier: MIT
"""What a reader is told first of a set: what is news, what holds and what does not by its figure, what is not told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.experiment.claim import Claim
from harness.experiment.model import Experiment
from harness.measure.claims import ClaimResult
from harness.measure.known import news, news_lines, untold
from harness.measure.verdict import Verdict
from harness.report.terminal import measured
from harness.sets.shown import Shown, ShownTable

#: Of one verdict, and of the news, that many are told; the others are counted.
MOST_TOLD, MOST_NEWS = 6, 4


@dataclass(frozen=True)
class Sentence:
    """What is so by a claim's figure, which is beside a text that does not have it in it.

    `figure` and `expected` are empty where there is none.
    """

    claim: ClaimResult
    text: str
    figure: str
    expected: str


@dataclass(frozen=True)
class Group:
    """The claims of one kind and verdict: those that are told, and how many are not."""

    heading: str
    sentences: list[Sentence]
    more: int


@dataclass(frozen=True)
class Short:
    """`news`: a heading and its lines, or that there is none; `rest`: lines on what the groups leave out."""

    says: str
    is_news: bool
    news: list[str]
    groups: list[Group]
    rest: list[str]


#: Kind and verdict of each group, and its heading.
_GROUPS: tuple[tuple[str, Verdict, str], ...] = (
    ("paper", "reproduced", "Holds here"),
    ("paper", "contradicted", "Does not hold"),
    ("finding", "confirmed", "Found by us"),
    ("finding", "refuted", "Not found"),
)


def short(experiment: Experiment, claims: Sequence[ClaimResult]) -> Short:
    """What is told first of these verdicts, which are those of the experiment's claims."""
    declared = {claim.id: claim for claim in experiment.claims}
    groups = [_group(kind, verdict, heading, claims, declared) for kind, verdict, heading in _GROUPS]
    return Short(
        says=" ".join((experiment.paper.says or "").split()),
        is_news=bool(news(claims)),
        news=_news(claims),
        groups=[group for group in groups if group is not None],
        rest=_rest(claims),
    )


def first_table(experiment: Experiment, shown: Shown) -> ShownTable | None:
    """The table that experiment.yaml names, else the first there is; None where there is none."""
    tables = [*shown.paper, *shown.summary]
    named = [table for table in tables if experiment.paper.table and table.title.startswith(experiment.paper.table)]
    return next(iter([*named, *tables]), None)


def _news(claims: Sequence[ClaimResult]) -> list[str]:
    judged = [claim for claim in claims if claim.verdict != "not-measurable"]
    lines = news_lines(claims)
    if not lines:
        return [f"All {_counted(len(judged), 'verdict')} are as known"] if judged else []
    names = ", ".join(claim.id for claim in news(claims)[:MOST_NEWS])
    more = [f"and {len(lines) - MOST_NEWS} more"] if len(lines) > MOST_NEWS else []
    told = f"News: {' '.join([names, *more])}: {len(lines)} of {_counted(len(judged), 'verdict')} other than known"
    return [told, *lines[:MOST_NEWS], *more]


def _group(
    kind: str, verdict: Verdict, heading: str, claims: Sequence[ClaimResult], declared: dict[str, Claim]
) -> Group | None:
    """None without such claims, and of findings without one that has a headline: `_rest` counts them."""
    own = [claim for claim in claims if claim.kind == kind]
    such = [claim for claim in own if claim.verdict == verdict]
    first = [claim for claim in such if claim.id in declared and declared[claim.id].headline]
    if not first and (kind == "finding" or not such):
        return None
    told = (first or such)[:MOST_TOLD]
    what = "claims of the paper" if kind == "paper" else "findings"
    return Group(
        f"{heading}: {len(such)} of {len(own)} {what}",
        [_sentence(claim, declared.get(claim.id)) for claim in told],
        len(such) - len(told) if kind == "paper" else 0,  # all findings are counted below
    )


def _sentence(result: ClaimResult, claim: Claim | None) -> Sentence:
    if claim is None or claim.headline is None or result.measured is None:
        words = " ".join((result.statement or result.paper or result.id).split())
        return Sentence(result, words, measured(result) if result.metric else "", result.expected)
    share = "{%}" in claim.headline
    plain = result.model_copy(update={"interval": None})
    if share:
        plain = plain.model_copy(update={"measured": 100 * result.measured, "unit": "%"})
    expected = claim.expect.percent if share and claim.expect is not None else result.expected
    return Sentence(result, claim.headline.replace("{%}", "{}").replace("{}", measured(plain)), "", expected)


def _rest(claims: Sequence[ClaimResult]) -> list[str]:
    lines = []
    findings = [claim for claim in claims if claim.kind == "finding"]
    if findings:
        refuted = sum(claim.verdict == "refuted" for claim in findings)
        counts = [f"{sum(claim.verdict == 'confirmed' for claim in findings)} of {len(findings)} confirmed"]
        counts += [f"{refuted} refuted"] if refuted else []
        lines.append(f"Findings of ours: {', '.join(counts)}")
    open_ = [claim for claim in claims if claim.verdict == "not-measurable"]
    if open_:
        known = len(untold(claims))
        of_known = f" ({known} with a known verdict)" if known else ""
        lines.append(f"Not measured in this run: {_kinds(open_)}{of_known}")
    return lines


def _kinds(claims: Sequence[ClaimResult]) -> str:
    papers = sum(claim.kind == "paper" for claim in claims)
    counts = [_counted(papers, "claim")] if papers else []
    return ", ".join(counts + ([_counted(len(claims) - papers, "finding")] if papers < len(claims) else []))


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
