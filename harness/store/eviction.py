# SPDX-License-Identifier: MIT
"""Which of the store's things go, and why: pure functions of what it holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from harness.build.holdings import Holding

DAY_S = 86400.0


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
    now: float,
    *,
    older_than_days: float = 0,
    below: int | None = None,
    also_needed: bool = False,
) -> list[Decision]:
    """A decision for each thing that has a key, least recently used first.

    What goes was used last before `older_than_days` days; is in no use (`in_use`: KIND/KEY); and is needed by nobody
    (`needed`: by kind and key, the reason), unless `also_needed`. With `below`, only until the whole store takes at
    most that many bytes, what nobody needs first. `now`: seconds since 1970.
    """
    keyed = [one for one in held if one.key]
    order = sorted(keyed, key=lambda one: ((one.kind, one.key) in needed, one.used, one.kind, one.key))
    total = sum(one.size for one in held)
    decisions = []
    for one in order:
        reason = needed.get((one.kind, one.key))
        if f"{one.kind}/{one.key}" in in_use:
            decisions.append(Decision(one, goes=False, why="in use"))
        elif reason is not None and not also_needed:
            decisions.append(Decision(one, goes=False, why=reason))
        elif now - one.used < older_than_days * DAY_S:
            decisions.append(Decision(one, goes=False, why=f"used in the last {older_than_days:g} days"))
        elif below is not None and total <= below:
            decisions.append(Decision(one, goes=False, why="the store is small enough"))
        else:
            total -= one.size
            decisions.append(Decision(one, goes=True, why=reason or "nothing needs it"))
    return decisions
