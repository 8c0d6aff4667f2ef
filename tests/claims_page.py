# SPDX-License-Identifier: MIT
"""The page of claims, which `./inv docs` makes: each claim and finding, where its bound comes from, what turns it."""

from __future__ import annotations

from harness.experiment.claim import Claim
from harness.experiment.model import experiment_names, load_experiment
from harness.experiment.reading import Reading, Sentence
from harness.measure.known import expected
from harness.paths import EXPERIMENTS
from tests.mutation import mutations

HEAD = """\
# Claims and findings

Made by `./inv docs` from the experiments and their tests.

A *claim* is the paper's, a *finding* is ours. The bound is written with where it comes from. What was chosen after data
had been seen says so. *Turned by* is the mutation of raw files that turns the verdict: a test makes it
(`tests/mutations/`), with decoder, metric and bound. It also names the claims whose verdicts change with it.

*On a made trial*: the committed trials do not tell the claim. The test first makes one that does: of a copy, of a part,
or of numbers written by hand, and it says why. That shows that decoder and bound can tell, nothing of the instrument.

Below each table, *the paper, sentence by sentence*: what can be checked, and what judges it, or why nothing does.

*Known* is the verdict that the claim is recorded with; one that comes out otherwise is news.
"""


def claims_page() -> str:
    """The whole page."""
    return HEAD + "".join(_experiment(name) for name in experiment_names())


def _experiment(name: str) -> str:
    experiment = load_experiment(EXPERIMENTS / name)
    rows = [
        f"| `{claim.id}` | {_kind(claim)} | {_says(claim)} | {_bound(claim)} | {_because(claim)} | "
        f"{_turned(name, claim)} | {expected(claim)} |"
        for claim in experiment.claims
    ]
    columns = ("claim", "whose", "says", "bound", "because", "turned by", "known")
    table = "\n".join([f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *rows])
    paper = experiment.paper
    head = f"\n## {name}\n\n{', '.join(paper.authors)}: *{paper.title}* ({paper.year}).\n\n{table}\n"
    return head + (_sentences(experiment.reading) if experiment.reading else "")


def _sentences(reading: Reading) -> str:
    """What the paper says, sentence by sentence, with what judges it."""
    rows = [f"| {one.section} | {_cell(one.says)} | {_judged_by(one)} |" for one in reading.sentences]
    head = f"\n### The paper, sentence by sentence\n\n{reading.counted}. Read: {_cell(reading.copy_read)}.\n\n"
    return head + "\n".join(["| where | the paper says | judged by |", "|---|---|---|", *rows, ""])


def _judged_by(sentence: Sentence) -> str:
    judges = ", ".join(f"`{name}`" for name in sentence.claims)
    why = sentence.left or sentence.not_judged
    return ". ".join(part for part in (judges, why and f"Not judged: {_cell(why)}") if part)


def _kind(claim: Claim) -> str:
    if claim.kind == "paper":
        return f"paper, § {claim.section}" if claim.section else "paper"
    return f"finding, refutes `{claim.refutes}`" if claim.refutes else "finding"


def _says(claim: Claim) -> str:
    return _cell(". ".join(text.rstrip(".") for text in (claim.paper, claim.statement) if text))


def _bound(claim: Claim) -> str:
    expected = " ".join(str(part) for part in (claim.across, claim.expect) if part is not None)
    return f"`{claim.metric}` {_cell(expected)}" if claim.metric else "by the finding that refutes it"


def _because(claim: Claim) -> str:
    return _cell(claim.because or "—") + (f" **After data:** {_cell(claim.after_data)}" if claim.after_data else "")


def _turned(name: str, claim: Claim) -> str:
    """The first mutation that turns the claim, one of committed trials where there is one."""
    turning = sorted((one for one in mutations(name) if claim.id in one.claims), key=lambda one: one.before is not None)
    if not turning:
        return "nothing: it is not judged"
    one = turning[0]
    marks = [f"*On a made trial:* {one.why}."] if one.before else []
    marks += [f"Also changes {', '.join(f'`{other}`' for other in one.also)}."] if one.also else []
    return _cell(" ".join([one.sentence, *marks]))


def turned_on_real_trials() -> tuple[int, int]:
    """How many claims are turned by a change of committed trials alone, and of how many that are judged."""
    real = every = 0
    for name in experiment_names():
        judged = {claim.id for claim in load_experiment(EXPERIMENTS / name).claims}
        every += len(judged)
        real += len(judged & {claim for one in mutations(name) if one.before is None for claim in one.claims})
    return real, every


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
