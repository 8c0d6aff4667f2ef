# SPDX-License-Identifier: MIT
"""Names and values of parameters and dimensions."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, StringConstraints

from harness.guest.job import render

Value = bool | int | float | str
Parameter = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]


def _scalar(value: object) -> object:
    if not isinstance(value, Value):
        raise ValueError(f"must be one word, number or on/off, got {type(value).__name__}")
    return value


Scalar = Annotated[Value, BeforeValidator(_scalar)]


def same(left: Value, right: Value) -> bool:
    """Whether both are one value: 1 and 1.0 are, 1 and true are not."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def text_of(value: Value) -> str:
    """A value as a guest gets it."""
    return render(value)
