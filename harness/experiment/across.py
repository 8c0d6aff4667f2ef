# SPDX-License-Identifier: MIT
"""What a claim may say of the arms of a matrix together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat, model_validator

from harness.experiment.scalar import Parameter, Scalar, Value, same, text_of
from harness.yamlfile import Strict, about, misfit

Kind = Literal["ratio", "slope", "order", "equal"]
KINDS: tuple[Kind, ...] = ("ratio", "slope", "order", "equal")
Scale = Literal["linear", "log-log"]


class Across(Strict):
    """A comparison over one dimension, in each combination of the others that `where` leaves; one of the first four."""

    ratio: Annotated[
        dict[Parameter, tuple[Scalar, Scalar]] | None,
        about(
            "the metric where the dimension has the first value, over that of the second; null: another one is given",
            "the dimension's",
        ),
    ] = Field(default=None, min_length=1, max_length=1)
    slope: Annotated[
        Parameter | None,
        about("of the least-squares line of the metric over this dimension; null: another one is given"),
    ] = None
    order: Annotated[
        dict[Parameter, list[Scalar]] | None,
        about(
            "values of a dimension in the order in which the metric grows; null: another one is given",
            "the dimension's",
        ),
    ] = Field(default=None, min_length=1, max_length=1)
    equal: Annotated[
        Parameter | None, about("the metric is the same for all values of it; null: another one is given")
    ] = None
    scale: Annotated[Scale | None, about("of a slope: linear, or that of logarithm over logarithm; null: no slope")] = (
        None
    )
    within: Annotated[
        FiniteFloat, about("of equal: the largest relative difference that counts as none; 0: the same number", "1")
    ] = Field(default=0.0, ge=0)
    where: Annotated[
        dict[Parameter, Scalar | list[Scalar]],
        about("values of other dimensions: only arms that have them take part", "the dimension's"),
    ] = {}

    @model_validator(mode="after")
    def _one(self) -> Across:
        if sum(getattr(self, kind) is not None for kind in KINDS) != 1:
            raise ValueError(f"give exactly one of {', '.join(KINDS)}")
        if (self.scale is None) != (self.slope is None):
            raise ValueError("a slope needs scale: linear or log-log" if self.slope else "scale goes with slope only")
        if self.within and self.equal is None:
            raise ValueError("within goes with equal only")
        if self.order is not None and len(self.values) < 2:
            raise misfit(("order", self.over), "needs two values or more")
        for index, value in enumerate(self.values):
            if value in self.values[:index]:
                raise misfit((self.kind, self.over), f"{text_of(value)} is given twice")
        if self.over in self.where:
            raise misfit(("where", self.over), f"{self.over} is what is compared")
        return self

    @property
    def kind(self) -> Kind:
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def over(self) -> str:
        """The dimension that is compared."""
        given = getattr(self, self.kind)
        return given if isinstance(given, str) else str(next(iter(given)))

    @property
    def values(self) -> list[Value]:
        """Those that it names: two of a ratio, all of an order; none where it takes all that there are."""
        given = getattr(self, self.kind)
        return [] if isinstance(given, str) else list(next(iter(given.values())))

    def misfit(self, group: str, places: Sequence[Mapping[str, Value]]) -> tuple[str, str] | None:
        """Field and message where the matrix `group` has no arm, by their places in it, that this is about."""
        wanted = {name: value if isinstance(value, list) else [value] for name, value in self.where.items()}
        named = [(self.kind, self.over, self.values), *(("where", name, values) for name, values in wanted.items())]
        for field, name, values in named:
            if name not in places[0]:
                return field, f"{name} is no dimension of {group} (known: {', '.join(places[0])})"
            for value in values:
                if not any(same(value, place[name]) for place in places):
                    return field, f"{group} has no arm whose {name} is {text_of(value)}"
        if self.slope and any(isinstance(place[self.slope], bool | str) for place in places):
            return "slope", f"{self.slope} has values that are no numbers"
        return None

    def __str__(self) -> str:
        if self.ratio is not None:
            first, second = map(text_of, self.values)
            return f"{self.over} {first} / {second}"
        if self.order is not None:
            return f"{self.over}: " + " < ".join(map(text_of, self.values))
        if self.slope is not None:
            return f"slope over {self.over}, {self.scale}"
        return f"equal for every {self.over}" + (f", within {100 * self.within:g} %" if self.within else "")
