# SPDX-License-Identifier: MIT
"""What was waited for while a program still runs: from the kernel's own sums, which know places but no holders."""

from __future__ import annotations

import re

import pandas as pd

from harness.errors import RunError
from harness.measure.raw import tsv

from ..locks.classes import lock_classes, symbol_of
from ..locks.events import TYPES
from ..locks.kerneltables import LOCK_COLUMNS, SITE_COLUMNS
from .program import TOLD, time

WHERE = "the guest's stream"
KEY = ["class", "type", "place"]
SUMS = ["contended", "wait_total"]
_HEAD = re.compile(r"(\d+\.\d+) .*\n.*\"?tsc_khz\"?: (\d+).*\n(entry\t(?:.*\n)*)(lock\t(?:.*\n?)*)")


def meanwhile(part: str, before: str | None) -> list[str]:
    """Lines about one part, less what the one `before` had: the sum, and the worst places.

    A part is a line of /proc/uptime, one with tsc_khz, and the kernel's tables of locks and of places. RunError when
    one is damaged.
    """
    seconds, khz, sums = _read(part)
    if before is not None:
        earlier, _, had = _read(before)
        sums = sums.sub(had.reindex(sums.index, fill_value=0))
        seconds_since = seconds - earlier
    else:
        seconds_since = seconds
    sums = sums[sums["contended"] > 0].sort_values(["wait_total", "contended"], ascending=False, kind="stable")
    waited = time(sums["wait_total"].sum() * 1e6 / khz)
    since = f"in {seconds_since:.3g} s" if before is not None else "so far"
    lines = [f"{seconds:.1f} s: {sums['contended'].sum():,} waits {since}, {waited} in all"]
    for row in sums.head(TOLD).reset_index().to_dict("records"):
        spent = time(row["wait_total"] * 1e6 / khz)
        lines.append(f"{spent:>9}  {row['contended']:,} waits for {row['class']} ({row['type']}): {row['place']}")
    return lines


def _read(part: str) -> tuple[float, int, pd.DataFrame]:
    match = _HEAD.fullmatch(part)
    if match is None:
        raise RunError("is no part of what was waited for", where=WHERE)
    locks = tsv(match[3].splitlines(), LOCK_COLUMNS, WHERE)
    sites = tsv(match[4].splitlines(), SITE_COLUMNS, WHERE)
    names = dict(zip(locks["address"].tolist(), lock_classes(locks).tolist(), strict=True))
    named = sites.assign(
        **{"class": [names.get(lock, f"{lock:#x}") for lock in sites["lock"].tolist()]},
        type=[TYPES[kind] if kind < len(TYPES) else "?" for kind in sites["type"].tolist()],
        place=[symbol_of(text) for text in sites["symbol"].tolist()],
    )
    return float(match[1]), max(int(match[2]), 1), named.groupby(KEY)[SUMS].sum()
