# SPDX-License-Identifier: MIT
"""The terminal table of a comparison, and the lines below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from harness.measure.comparison import Compared
from harness.measure.statistics import CONFIDENCE, Effect
from harness.report.terminal import number

STYLES = {"differs": "bold", "distinguishable": "bold", "cannot tell": "yellow", "absent": "dim"}
#: What an effect is, for a heading that holds for both kinds.
EFFECT = "B / A or B − A"


def comparison_table(
    rows: Sequence[Compared],
    title: str = "B against A",
    places: Mapping[tuple[str, str], Mapping[str, str]] | None = None,
) -> Table:
    """Arm by arm and metric by metric: medians, effect with its interval, outcome; see `worth_showing`.

    `places`: per pair of arms, by name, what is shown in their place: the dimensions that they share.
    """
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    heads = list(dict.fromkeys(name for place in places.values() for name in place)) if places else ["arm"]
    for name in heads:
        table.add_column(name, overflow="fold", no_wrap=True)
    for name in ("metric", "unit", "A", "B", "n", EFFECT, "outcome"):
        right = name in {"A", "B", "n", EFFECT}
        table.add_column(name, justify="right" if right else "left", overflow="fold", no_wrap=name == "metric")
    for row in rows:
        outcome = Text(row.outcome, style=STYLES.get(row.outcome, ""))
        if row.note:
            outcome.append(f": {row.note}", style="dim")
        arm = row.arms[0] if row.arms[0] == row.arms[1] else " → ".join(row.arms)
        names = [places[row.arms].get(name, "—") for name in heads] if places else [arm]
        count = str(row.trials[0]) if row.trials[0] == row.trials[1] else f"{row.trials[0]}, {row.trials[1]}"
        cells = (*names, row.metric, row.unit, number(row.a), number(row.b), count, effect_text(row.effect))
        table.add_row(*(Text(str(cell)) for cell in cells), outcome)  # a plain str would be read as markup
    return table


def worth_showing(rows: Sequence[Compared]) -> list[Compared]:
    """All but those that are identical or absent on both sides: they are only counted."""
    return [row for row in rows if row.outcome != "identical" and any(row.trials)]


def effect_text(effect: Effect | None) -> str:
    """`× 1.05 [1.03, 1.08]` or `+ 3 [1, 5]`; a dash where there is none."""
    if effect is None:
        return "—"
    sign = "×" if effect.kind == "ratio" else "−" if effect.value < 0 else "+"
    size = f"{effect.value:.5g}" if effect.kind == "ratio" else number(abs(effect.value))
    text = number if effect.kind == "difference" else "{:.5g}".format
    low, high = text(effect.low), text(effect.high)
    return f"{sign} {size} [{low}, {high}]" if effect.interval_known and low != high else f"{sign} {size}"


def comparison_lines(rows: Sequence[Compared]) -> list[str]:
    """How many metrics came out how, and how many of those told apart chance alone would give."""
    counts = Counter(row.outcome for row in rows)
    words = [f"{count} {outcome}" for outcome, count in counts.most_common()]
    lines = [f"{len(rows)} metrics: {', '.join(words)}"]
    tested = sum(row.effect is not None and row.effect.interval_known and not row.exact for row in rows)
    if counts["distinguishable"]:
        chance = (1 - CONFIDENCE) * tested
        lines.append(f"of {tested} intervals at 95 %, about {chance:.1f} leave out no effect by chance alone")
    if counts["differs"]:
        lines.append(
            "what differs does so exactly, seed by seed; its bounds are the least and the largest of the pairs"
        )
    return lines
