# SPDX-License-Identifier: MIT
"""Which of the store's things go, and why: pure functions of what it holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from harness.artefacts.holdings import Holding


@dataclass(frozen=True)
class Decision:
    """One thing of the store, whether it goes, and why or why not."""

    holding: Holding
    goes: bool
    why: str


def decide(
    held: Sequence[Holding],
    needed: Mapping[tuple[str, str], str],
    in_use: Collection[str],
    *,
    below: int | None = None,
) -> list[Decision]:
    """A decision for each thing that has a key, least recently used first.

    What goes is in no use (`in_use`: KIND/KEY) and needed by nobody (`needed`: by kind and key, the reason). With
    `below`, it goes until the whole store takes at most that many bytes: what nobody needs first, then the rest.
    """
    keyed = [one for one in held if one.key]
    order = sorted(keyed, key=lambda one: ((one.kind, one.key) in needed, one.used, one.kind, one.key))
    total = sum(one.size for one in held)
    decisions = []
    for one in order:
        reason = needed.get((one.kind, one.key))
        if f"{one.kind}/{one.key}" in in_use:
            decisions.append(Decision(one, goes=False, why="in use"))
        elif reason is not None and below is None:
            decisions.append(Decision(one, goes=False, why=reason))
        elif below is not None and total <= below:
            decisions.append(Decision(one, goes=False, why="the store is small enough"))
        else:
            total -= one.size
            decisions.append(Decision(one, goes=True, why=reason or "nothing needs it"))
    return decisions
