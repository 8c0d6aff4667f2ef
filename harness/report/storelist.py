# SPDX-License-Identifier: MIT
"""What the store holds, and what of it would go, as plain lines of at most 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from harness.artefacts.holdings import Decision, Holding


def size(count: float) -> str:
    """Bytes, with three digits at most before the unit."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def age(seconds: float) -> str:
    """For how long something lies, in its largest unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return "now"


COLUMNS = 80
KEY_DIGITS = 12


def kind_lines(held: Sequence[Holding], now: float) -> list[str]:
    """One line per kind, largest first, and the total: how many, bytes, when the oldest was made, when one was used."""
    kinds = [list(group) for _, group in groupby(sorted(held, key=lambda one: one.kind), key=lambda one: one.kind)]
    sums = [_sum(group[0].kind, group) for group in kinds]
    rows = [("kind", "things", "size", "oldest", "used")]
    for one, things in [*sorted(sums, key=lambda pair: -pair[0].size), _sum("all", held)]:
        rows.append((one.kind, things or "", size(one.size), age(now - one.made), age(now - one.used)))
    return _aligned(rows, left=1)


def holding_lines(held: Sequence[Holding], now: float) -> list[str]:
    """One line per thing, the largest first, and their total."""
    rows: list[tuple[str, ...]] = [("kind", "key", "size", "made", "used", "name")]
    for one in sorted(held, key=lambda one: -one.size):
        rows.append(_row(one, now))
    total = f"{len(held)} things, {size(sum(one.size for one in held))}"
    return [*_aligned(rows, left=2), total]


def decision_lines(decisions: Sequence[Decision], now: float) -> list[str]:
    """One line per thing that goes, with the reason."""
    rows: list[tuple[str, ...]] = [("kind", "key", "size", "made", "used", "why")]
    for one in decisions:
        if one.goes:
            rows.append((*_row(one.holding, now)[:5], one.why))
    return _aligned(rows, left=2) if len(rows) > 1 else []


def kept_lines(decisions: Sequence[Decision]) -> list[str]:
    """How much stays, by the reason, the largest first."""
    kept: dict[str, list[Holding]] = {}
    for one in decisions:
        if not one.goes:
            kept.setdefault(one.why, []).append(one.holding)
    sizes = {why: sum(one.size for one in group) for why, group in kept.items()}
    return [
        _cut(f"stays: {size(sizes[why])} ({len(kept[why])}): {why}")
        for why in sorted(kept, key=lambda why: -sizes[why])
    ]


def _row(one: Holding, now: float) -> tuple[str, ...]:
    return (one.kind, one.key[:KEY_DIGITS], size(one.size), age(now - one.made), age(now - one.used), one.name)


def _sum(kind: str, held: Sequence[Holding]) -> tuple[Holding, str]:
    things = sum(bool(one.key) for one in held)
    made, used = min((one.made for one in held), default=0.0), max((one.used for one in held), default=0.0)
    return Holding(kind, "", "", sum(one.size for one in held), made, used), str(things) if things else ""


def _aligned(rows: Sequence[tuple[str, ...]], left: int) -> list[str]:
    """Rows in columns: the first `left` and a last one of text begin on one line, numbers end on one."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    text = len(rows[0]) - 1 if len(rows[0]) > 5 else -1
    lines = []
    for row in rows:
        words = [
            word.ljust(width) if column < left or column == text else word.rjust(width)
            for column, (word, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(_cut("  ".join(words).rstrip()))
    return lines


def _cut(line: str) -> str:
    return line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…"
