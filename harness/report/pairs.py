# SPDX-License-Identifier: MIT
"""Which arms of two sets stand against each other when one dimension of a matrix is compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.errors import UsageError
from harness.experiment.matrix import is_meant
from harness.experiment.model import Arm
from harness.experiment.scalar import Value, same, text_of


@dataclass(frozen=True)
class Opposed:
    """Pairs of arms, the first of A, the second of B; to each what both have in common, by dimension."""

    title: str
    pairs: Mapping[tuple[str, str], Mapping[str, str]]


def opposed_arms(a: Mapping[str, Arm], b: Mapping[str, Arm], over: str) -> Opposed:
    """The pairs that `over` (`DIMENSION` or `DIMENSION=FIRST,SECOND`) means; UsageError when there are none."""
    name, _, text = over.partition("=")
    left, right = _values(a, name), _values(b, name)
    if not left or not right:
        known = ", ".join(dict.fromkeys(key for arm in (*a.values(), *b.values()) for key in arm.dimensions))
        raise UsageError(f"--set {name}: no arm has this dimension", hint=f"known: {known or 'there is none'}")
    first, second = _chosen(name, text, left, right)
    pairs = {
        (one, other): {"arm": str(here.group), **{key: text_of(value) for key, value in _rest(here, name).items()}}
        for one, here in a.items()
        for other, there in b.items()
        if _has(here, name, first)
        and _has(there, name, second)
        and here.group == there.group
        and _rest(here, name) == _rest(there, name)
    }
    if not pairs:
        raise UsageError(f"--set {over}: no arm of A and none of B differ in {name} alone")
    if len({place["arm"] for place in pairs.values()}) == 1 and all(len(place) > 1 for place in pairs.values()):
        pairs = {pair: {key: text for key, text in place.items() if key != "arm"} for pair, place in pairs.items()}
    return Opposed(f"B, {name} {text_of(second)}, against A, {name} {text_of(first)}", pairs)


def _values(arms: Mapping[str, Arm], name: str) -> list[Value]:
    left: list[Value] = []
    for arm in arms.values():
        value = arm.dimensions.get(name)
        if value is not None and not any(same(value, other) for other in left):
            left.append(value)
    return left


def _chosen(name: str, text: str, left: Sequence[Value], right: Sequence[Value]) -> tuple[Value, Value]:
    known = ", ".join(dict.fromkeys(map(text_of, (*left, *right))))
    words = [word for word in text.split(",") if word]
    if not text:
        if len(left) == len(right) == 1:
            return left[0], right[0]
        if len(left) == 2 and all(same(*pair) for pair in zip(left, right, strict=False)) and len(right) == 2:
            return left[0], left[1]
    if len(words) != 2:
        raise UsageError(f"--set {name}: say which two: {name}=FIRST,SECOND", hint=f"there are {known}")
    found = []
    for word, values in zip(words, (left, right), strict=True):
        value = next((value for value in values if is_meant(value, word)), None)
        if value is None:
            raise UsageError(f"--set {name}: no arm has {word}", hint=f"there are {known}")
        found.append(value)
    return found[0], found[1]


def _has(arm: Arm, name: str, value: Value) -> bool:
    return name in arm.dimensions and same(arm.dimensions[name], value)


def _rest(arm: Arm, name: str) -> dict[str, Value]:
    return {key: value for key, value in arm.dimensions.items() if key != name}
