# SPDX-License-Identifier: MIT
"""Claims on other versions of Linux than the kernels' own: the model of `versions.yaml`, beside `experiment.yaml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationInfo, model_validator

from harness.experiment.claim import Claim
from harness.packages.choice import Name
from harness.yamlfile import Misfit, Strict, about, raise_misfits

VERSIONS = "versions.yaml"

Version = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+$")]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Otherwise(Strict):
    """A claim that is known with another verdict in a version."""

    known: Annotated[
        Literal["contradicted", "refuted", "not-measurable", "holds"], about("the verdict; holds: it does there")
    ]
    because: Annotated[Text, about("what differs there, or that nobody knows")]


class Elsewhere(Strict):
    """The versions in which the quick profile was run: what came out otherwise than in the kernels' own."""

    versions: Annotated[
        dict[Version, dict[Name, Otherwise]], about("claims by version, as `--kernel` names it; empty: all as known")
    ] = Field(min_length=1)

    @model_validator(mode="after")
    def _of_claims(self, info: ValidationInfo) -> Elsewhere:
        """The context may have the experiment's `claims`: then errors stand where versions.yaml has them."""
        if (claims := (info.context or {}).get("claims")) is not None:
            raise_misfits(self.misfits({claim.id: claim for claim in claims}))
        return self

    def misfits(self, claims: Mapping[str, Claim]) -> Iterator[Misfit]:
        """Ids that no claim has, and verdicts that a claim is known with anyway, or that its kind never has."""
        for version, of in self.versions.items():
            for id_, otherwise in of.items():
                claim, place = claims.get(id_), ("versions", version, id_)
                if claim is None:
                    yield place, f"there is no claim {id_} in experiment.yaml"
                elif otherwise.known == (claim.known or "holds"):
                    yield (*place, "known"), f"{id_} is known as {otherwise.known} in every version"
                elif otherwise.known == ("refuted" if claim.kind == "paper" else "contradicted"):
                    yield (*place, "known"), f"a claim of kind {claim.kind} is never {otherwise.known}"

    def in_version(self, claims: Sequence[Claim], version: str) -> list[Claim]:
        """The claims with what is known of them in this version."""
        other = self.versions.get(version, {})
        return [_known(claim, other[claim.id]) if claim.id in other else claim for claim in claims]


def _known(claim: Claim, otherwise: Otherwise) -> Claim:
    return claim.model_copy(update={"known": None if otherwise.known == "holds" else otherwise.known})
