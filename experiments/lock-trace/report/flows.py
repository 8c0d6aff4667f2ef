# SPDX-License-Identifier: MIT
"""Waits and holds on a time line with an arrow from each holder to who waited for it, for https://ui.perfetto.dev: the
JSON trace event format, of which arrows are flow events.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

#: Pairs of a wait and a hold that a file has at most: browsers show so many.
MOST = 20_000


def write_flows(named: pd.DataFrame, pairs: pd.DataFrame, cycles_per_second: float, path: Path) -> int:
    """Write the longest pairs, MOST at most, with the waits and holds they are of; how many pairs these are.

    `named`: the acquisitions, with class, caller and thread.
    """
    spent = (pairs["end"] - pairs["begin"]).to_numpy()
    shown = pairs.iloc[np.sort(np.argsort(-spent, kind="stable")[:MOST])]
    with path.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
        events = _events(named, shown, cycles_per_second)
        file.write(",\n".join(json.dumps(event, ensure_ascii=False) for event in events))
        file.write("\n]}\n")
    return len(shown)


def _events(named: pd.DataFrame, pairs: pd.DataFrame, cycles_per_second: float) -> Iterator[dict[str, Any]]:
    begin, got, end = (named[name].to_numpy(np.float64) for name in ("begin", "acquired", "end"))
    until = np.where(named["abandoned"].to_numpy(bool), end, got)
    thread, caller, lock = (named[name].tolist() for name in ("thread", "caller", "class"))
    waiters, holders = (np.unique(pairs[name].to_numpy()) for name in ("waiter", "holder"))
    if not len(pairs):
        return
    zero = min(begin[waiters].min(), got[holders].min())
    track = {name: i + 1 for i, name in enumerate(sorted({thread[i] for i in [*waiters, *holders]}))}

    def at(cycles: float) -> float:
        return round(float(cycles - zero) / cycles_per_second * 1e6, 3)

    for name, tid in track.items():
        yield {"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "args": {"name": name}}
    for rows, word, first, last in ((waiters, "waits for", begin, until), (holders, "holds", got, end)):
        for i in rows.tolist():
            yield {
                "ph": "X", "cat": word, "name": f"{word} {lock[i]}", "pid": 1, "tid": track[thread[i]],
                "ts": at(first[i]), "dur": round(float(last[i] - first[i]) / cycles_per_second * 1e6, 3),
                "args": {"at": caller[i]},
            }  # fmt: skip
    columns = (pairs[name].tolist() for name in ("waiter", "holder", "begin", "end"))
    for number, (waiter, holder, since, to) in enumerate(zip(*columns, strict=True)):
        arrow = {"cat": "blame", "name": "held", "id": number, "pid": 1}
        # From the middle of the time in which both lasted, so that both ends are inside their slices.
        moment = at((since + to) / 2)
        yield arrow | {"ph": "s", "tid": track[thread[holder]], "ts": moment}
        yield arrow | {"ph": "f", "bp": "e", "tid": track[thread[waiter]], "ts": moment}
