# SPDX-License-Identifier: MIT
"""The page of claims, which `./inv docs` makes: each claim and finding, where its bound comes from, what turns it."""

from __future__ import annotations

from harness.experiment.claim import Claim
from harness.experiment.model import experiment_names, load_experiment
from harness.measure.known import expected
from harness.paths import EXPERIMENTS
from tests.golden import records
from tests.mutation import mutations

HEAD = """\
# Claims and findings

Made by `./inv docs` from the experiments and their tests.

A *claim* is the paper's, a *finding* is ours. The bound is written with where it comes from. What was chosen after data
had been seen says so. *Turned by* is the mutation that turns the verdict: a test makes it (`tests/mutations/`), so no
claim here is one that cannot fail. It also names the claims whose verdicts change with it.

*Tables alone*: the mutation edits decoded tables. It shows that the metric and the bound can tell, and nothing of the
decoder. *On a copy*: the committed trials have no trial of the arm. The mutation is of another arm's trial under its
name, or of rows that the test makes.

*Known* is the verdict that the claim is recorded with; one that comes out otherwise is news.
"""


def claims_page() -> str:
    """The whole page."""
    return HEAD + "".join(_experiment(name) for name in experiment_names())


def _experiment(name: str) -> str:
    experiment = load_experiment(EXPERIMENTS / name)
    tried = {record.arm for record in records(name)}
    rows = [
        f"| `{claim.id}` | {_kind(claim)} | {_says(claim)} | {_bound(claim)} | {_because(claim)} | "
        f"{_turned(name, claim, tried)} | {expected(claim)} |"
        for claim in experiment.claims
    ]
    columns = ("claim", "whose", "says", "bound", "because", "turned by", "known")
    table = "\n".join([f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *rows])
    paper = experiment.paper
    return f"\n## {name}\n\n{', '.join(paper.authors)}: *{paper.title}* ({paper.year}).\n\n{table}\n"


def _kind(claim: Claim) -> str:
    if claim.kind == "paper":
        return f"paper, § {claim.section}" if claim.section else "paper"
    return f"finding, refutes `{claim.refutes}`" if claim.refutes else "finding"


def _says(claim: Claim) -> str:
    return _cell(". ".join(text.rstrip(".") for text in (claim.paper, claim.statement) if text))


def _bound(claim: Claim) -> str:
    expected = " ".join(str(part) for part in (claim.across, claim.expect) if part is not None)
    if claim.not_here is not None:
        return f"not measured here: {_cell(claim.not_here)}"
    return f"`{claim.metric}` {_cell(expected)}" if claim.metric else "by the finding that refutes it"


def _because(claim: Claim) -> str:
    return _cell(claim.because or "—") + (f" **After data:** {_cell(claim.after_data)}" if claim.after_data else "")


def _turned(name: str, claim: Claim, tried: set[str]) -> str:
    """The first mutation that turns the claim, one of raw files where there is one."""
    turning = sorted((one for one in mutations(name) if claim.id in one.claims), key=lambda one: one.kind != "raw")
    if not turning:
        return "nothing: it is not judged"
    one = turning[0]
    marks = ["*Tables alone.*"] if one.kind == "tables" else []
    marks += ["*On a copy.*"] if claim.metric and claim.arm not in tried else []
    marks += [f"Also changes {', '.join(f'`{other}`' for other in one.also)}."] if one.also else []
    return _cell(" ".join([one.sentence, *marks]))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
