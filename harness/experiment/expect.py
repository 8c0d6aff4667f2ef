# SPDX-License-Identifier: MIT
"""What a claim expects of its metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import FiniteFloat, model_validator

from harness.machine.spec import Clock
from harness.yamlfile import Strict, about

#: With fewer, the bootstrap of a median is no 95 % interval: it covers 52 % at 2 trials, 74 % at 3, 94 % at 5.
MIN_TRIALS = 5


class Expect(Strict):
    """What a claim expects of its metric: exactly one of the four.

    `equals` must hold in every trial; bounds must hold for the whole 95 % interval.
    """

    equals: Annotated[FiniteFloat | None, about("null: another one is given", "the metric's")] = None
    between: Annotated[tuple[FiniteFloat, FiniteFloat] | None, about("null: another one is given", "the metric's")] = (
        None
    )
    at_least: Annotated[FiniteFloat | None, about("null: another one is given", "the metric's")] = None
    at_most: Annotated[FiniteFloat | None, about("null: another one is given", "the metric's")] = None

    @model_validator(mode="after")
    def _one(self) -> Expect:
        given = [name for name, value in self if value is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of equals, between, at_least, at_most")
        if self.between is not None and self.between[0] > self.between[1]:
            raise ValueError("between: the lower bound comes first")
        return self

    def __str__(self) -> str:
        return self._told(_plain)

    @property
    def percent(self) -> str:
        """As it is told of a share."""
        return self._told(lambda value: _plain(100 * value)) + " %"

    @property
    def of_six_digits(self) -> str:
        """As it was told once, and stored in older sets."""
        return self._told("{:g}".format)

    def _told(self, text: Callable[[float], str]) -> str:
        if self.equals is not None:
            return f"= {text(self.equals)}"
        if self.between is not None:
            return f"{text(self.between[0])} … {text(self.between[1])}"
        if self.at_least is not None:
            return f"≥ {text(self.at_least)}"
        assert self.at_most is not None
        return f"≤ {text(self.at_most)}"


def _plain(value: float) -> str:
    """A bound as it was written: a count whole, however large."""
    return f"{int(value)}" if abs(value) < 1e15 and value == int(value) else f"{value:.15g}"


def least(expect: Expect | None, clock: Clock | None) -> int | None:
    """How many trials a claim takes that does not say: an interval, for a bound on what is another value in each.

    None: it is judged from the first on. Under the virtual clock a value is exact; that something never happens is
    refuted by one trial; and a matrix, which has no `clock` here, has rules of its own.
    """
    return MIN_TRIALS if clock == "wall" and expect is not None and expect.equals is None else None
