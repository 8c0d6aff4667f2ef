# SPDX-License-Identifier: MIT
"""The paper read sentence by sentence: the model of `paper.yaml`, which lies beside `experiment.yaml`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field, StringConstraints, ValidationInfo, model_validator

from harness.experiment.claim import Claim
from harness.packages.choice import Name
from harness.yamlfile import Misfit, Strict, about, raise_misfits

PAPER = "paper.yaml"
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Sentence(Strict):
    """One sentence of the paper that can be checked, with the claims that judge it, or why none can."""

    section: Annotated[Text, about("as the copy that was read prints it")]
    says: Annotated[Text, about("what it says: a few of its words, or close to them")]
    claims: Annotated[list[Name], about("ids of the claims and findings that judge it")] = []
    left: Annotated[Text | None, about("what of it they do not judge, and why; null: nothing")] = None
    not_judged: Annotated[Text | None, about("why none can judge it; null: some do")] = None

    @model_validator(mode="after")
    def _told_once(self) -> Sentence:
        if bool(self.claims) == (self.not_judged is not None):
            raise ValueError("claims and not_judged: give one of them")
        if self.left is not None and not self.claims:
            raise ValueError("left: only a sentence that claims judge has it")
        return self


class Reading(Strict):
    """All such sentences, in the paper's order."""

    copy_read: Annotated[Text, about("what was read, and what of the paper it lacks")]
    sentences: Annotated[list[Sentence], about("in the paper's order")] = Field(min_length=1)

    @model_validator(mode="after")
    def _judged(self, info: ValidationInfo) -> Reading:
        """The context may have the experiment's `claims`: then errors stand where paper.yaml has them."""
        if (claims := (info.context or {}).get("claims")) is not None:
            raise_misfits(self.misfits(claims))
        return self

    @property
    def counted(self) -> str:
        """How many sentences are judged, in words."""
        some = [sentence for sentence in self.sentences if sentence.claims]
        part = sum(sentence.left is not None for sentence in some)
        every = len(self.sentences)
        return f"{every} sentences: {len(some) - part} judged, {part} in part, {every - len(some)} not"

    def misfits(self, claims: Sequence[Claim]) -> Iterator[Misfit]:
        """Ids that no claim has, and claims of the paper that no sentence names."""
        known = {claim.id for claim in claims}
        for index, sentence in enumerate(self.sentences):
            for place, name in enumerate(sentence.claims):
                if name not in known:
                    yield ("sentences", index, "claims", place), f"there is no claim {name} in experiment.yaml"
        named = {name for sentence in self.sentences for name in sentence.claims}
        if lost := [claim.id for claim in claims if claim.kind == "paper" and claim.id not in named]:
            yield ("sentences",), f"none names {', '.join(lost)}, of kind paper in experiment.yaml"
