# SPDX-License-Identifier: MIT
"""What an experiment claims: the model of one entry of `claims`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from harness.experiment.across import Across
from harness.experiment.expect import Expect
from harness.packages.choice import Name
from harness.yamlfile import Strict, about


def _with_its_figure(text: str) -> str:
    if text.count("{}") + text.count("{%}") != 1:
        raise ValueError("write {} (or {%}, in percent) once, where the measured value stands")
    return text


#: As long as a terminal's line has room for, with the figure and what was expected.
Headline = Annotated[str, StringConstraints(max_length=54), AfterValidator(_with_its_figure)]


class Claim(Strict):
    """One checkable statement. A `paper` claim is the paper's; a `finding` is ours about the paper's method."""

    id: Annotated[Name, about("unique in the experiment")]
    kind: Annotated[Literal["paper", "finding"], about("whose claim it is")] = "paper"
    section: Annotated[str | None, about("of the paper; null: not from one section")] = None
    source: Annotated[str | None, about("of what the claim is known; null: from the paper")] = None
    paper: Annotated[str | None, about("what the paper says, in our words; null: nothing")] = None
    statement: Annotated[str | None, about("what is checked; null: what the paper says")] = None
    headline: Annotated[
        Headline | None,
        about(
            "what is so by the figure, true whatever the verdict; {} is the measured value, {%} that in percent; null: "
            "not among what is told first"
        ),
    ] = None
    metric: Annotated[
        Annotated[str, StringConstraints(pattern=r"^[^/\s]+/[^/\s]+$")] | None,
        about("METRIC/ARM; null: told by the findings that refute it"),
    ] = None
    across: Annotated[
        Across | None, about("what is compared of a matrix, which is then named as ARM; null: one arm's metric is told")
    ] = None
    expect: Annotated[Expect | None, about("what must hold; null: there is no metric, or across says it all")] = None
    because: Annotated[
        str | None,
        about("where the bound comes from: the paper's number, a derivation, what can be resolved; null: no bound"),
    ] = None
    after_data: Annotated[
        str | None,
        about("what of metric or bound was chosen after data had been seen, and what it was before; null: nothing"),
    ] = None
    refutes: Annotated[
        str | None, about("of a finding: the claim of the paper that it refutes if confirmed; null: none")
    ] = None
    least_trials: Annotated[
        int | None, about("with fewer it is not judged; null: 5 for a bound by the host's clock, else 1", "trials")
    ] = Field(default=None, ge=1)
    known: Annotated[
        Literal["contradicted", "refuted", "not-measurable"] | None,
        about("the verdict that the claim is recorded with; null: it must hold"),
    ] = None
    controls: Annotated[
        list[str],
        about("of a finding: claims whose negative control it is; they are not measurable unless it is confirmed"),
    ] = []

    @model_validator(mode="after")
    def _whole(self) -> Claim:
        if self.across is not None:
            self._comparison(self.across)
        elif (self.metric is None) != (self.expect is None):
            raise ValueError("metric and expect: give both or neither")
        if self.metric is None and self.kind == "finding":
            raise ValueError("a finding needs metric and expect")
        if self.metric is not None and not (self.because or "").strip():
            raise ValueError("because is missing: say where the bound comes from")
        if self.refutes is not None and self.kind == "paper":
            raise ValueError("refutes: only a finding refutes a claim")
        if self.least_trials is not None and (self.metric is None or self.across is not None):
            raise ValueError("least_trials: only a claim about one arm's metric has it")
        if self.controls and (self.kind == "paper" or self.metric is None):
            raise ValueError("controls: only a finding is a negative control")
        if self.headline is not None and self.metric is None:
            raise ValueError("headline: there is no figure without a metric")
        if self.known == ("refuted" if self.kind == "paper" else "contradicted"):
            raise ValueError(f"known: a claim of kind {self.kind} is never {self.known}")
        return self

    def _comparison(self, across: Across) -> None:
        if self.metric is None:
            raise ValueError("across: metric is missing")
        if (across.kind in ("ratio", "slope")) != (self.expect is not None):
            wanted = "needs expect" if self.expect is None else "says what is expected: leave out expect"
            raise ValueError(f"across: {across.kind} {wanted}")

    @property
    def arm(self) -> str | None:
        return self.metric.split("/", 1)[1] if self.metric is not None else None

    @property
    def metric_name(self) -> str | None:
        return self.metric.split("/", 1)[0] if self.metric is not None else None
