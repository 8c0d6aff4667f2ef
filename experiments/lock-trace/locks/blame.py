# SPDX-License-Identifier: MIT
"""Blame: who waited for whom. A wait is laid over the holds of its lock, so that each wait has its holders.

The paper looks at blocks, from a lock's being free to its being free again, and at who waited in them (sections 3 and
4); the kernel's lock:contention_begin knows the waiter alone. Here both sides of a block are known.
"""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import numpy.typing as npt
import pandas as pd

from .events import CONTEXTS, Indices

Times = npt.NDArray[np.float64]

#: A waits for B, who waits for C, and so on: chains are followed so far.
DEEPEST = 8
PAIR_COLUMNS = {
    "waiter": "int64",  # position in the table of acquisitions
    "holder": "int64",  # likewise
    "begin": "float64",  # when the one waited and the other held, cycles
    "end": "float64",
}
#: Columns of a waiter that say who and where he is, and those that say it of a holder.
SIDES = {"caller": "caller", "thread": "thread", "stack": "hold_stack"}
CHAIN_COLUMNS = {
    "chain": "int64",  # number of the chain
    "link": "int64",  # from 0: the first waiter and its holder
    **PAIR_COLUMNS,  # begin and end: when all links of the chain lasted
}


def blamed(taken: pd.DataFrame) -> pd.DataFrame:
    """A row per wait and hold of the same lock that overlap, PAIR_COLUMNS, by waiter and then by time.

    `taken`: acquisitions, with index 0 … n - 1. A wait has several holders where the lock went to others first, or
    where readers held it. Holds whose begin or end is not known are left out, and so is a thread's own.
    """
    begin, got, end = (taken[name].to_numpy(np.float64) for name in ("begin", "acquired", "end"))
    contended, abandoned = (taken[name].to_numpy(bool) for name in ("contended", "abandoned"))
    until = np.where(abandoned, end, got)
    waits = np.flatnonzero(contended & ~np.isnan(begin) & ~np.isnan(until))
    holds = np.flatnonzero(~abandoned & ~np.isnan(got) & ~np.isnan(end))
    lock = taken.groupby(["lock", "generation"], sort=False).ngroup().to_numpy(np.int64)
    parts = [
        overlaps(begin, until, waits[lock[waits] == one], got, end, holds[lock[holds] == one])
        for one in np.unique(lock[waits])
    ]
    waiter, holder = (np.concatenate([np.empty(0, np.int64), *(part[i] for part in parts)]) for i in (0, 1))
    others = waiter != holder
    waiter, holder = waiter[others], holder[others]
    pairs = pd.DataFrame(
        {
            "waiter": waiter,
            "holder": holder,
            "begin": np.maximum(begin[waiter], got[holder]),
            "end": np.minimum(until[waiter], end[holder]),
        }
    ).astype(PAIR_COLUMNS)
    return pairs.sort_values(["waiter", "begin", "holder"], kind="stable", ignore_index=True)


def overlaps(
    begin: Times, end: Times, rows: Indices, others_begin: Times, others_end: Times, others: Indices
) -> tuple[Indices, Indices]:
    """Which of `rows` overlap with which of `others`, for longer than nothing; both are indices of spans."""
    order = others[np.argsort(others_begin[others], kind="stable")]
    reached = np.maximum.accumulate(others_end[order])
    first = np.searchsorted(reached, begin[rows], side="right")
    count = np.maximum(np.searchsorted(others_begin[order], end[rows], side="left") - first, 0)
    one = np.repeat(rows, count)
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    other = order[np.repeat(first, count) + within]
    meet = np.minimum(end[one], others_end[other]) > np.maximum(begin[one], others_begin[other])
    return np.asarray(one[meet], np.int64), np.asarray(other[meet], np.int64)


def chains(taken: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Chains of two links and more, a row per link, CHAIN_COLUMNS: while the first waited for a holder, that one waited
    for another lock, whose holder is the next link. Each goes on as far as somebody waits, at most DEEPEST links.

    `pairs`: of `blamed(taken)`. A chain that comes back to a thread of its own ends there.
    """
    code, _ = pd.factorize(np.array(threads(taken), dtype=object))
    waiter, holder = pairs["waiter"].to_numpy(), pairs["holder"].to_numpy()
    begin, end = pairs["begin"].to_numpy(np.float64), pairs["end"].to_numpy(np.float64)
    by_thread = {int(one): np.flatnonzero(code[waiter] == one) for one in np.unique(code[waiter])}
    rows: list[tuple[int, int, int, int, float, float]] = []
    number = 0
    stack: list[tuple[list[int], float, float]] = [([i], begin[i], end[i]) for i in range(len(pairs) - 1, -1, -1)]
    while stack:
        links, since, until = stack.pop()
        last = int(code[holder[links[-1]]])
        seen = {int(code[waiter[i]]) for i in links}
        waits = by_thread.get(last, np.empty(0, np.int64)) if last not in seen and len(links) < DEEPEST else ()
        deeper = [
            ([*links, int(j)], max(since, begin[j]), min(until, end[j]))
            for j in waits
            if min(until, end[j]) > max(since, begin[j])
        ]
        if deeper:
            stack.extend(reversed(deeper))
            continue
        if len(links) > 1:
            rows += [(number, k, int(waiter[i]), int(holder[i]), since, until) for k, i in enumerate(links)]
            number += 1
    frame = pd.DataFrame(rows, columns=list(CHAIN_COLUMNS))
    return frame.astype(CHAIN_COLUMNS)


def threads(taken: pd.DataFrame) -> list[str]:
    """Who each acquisition is of: `pid 12`, `cpu 1 idle`, with its context where that is none of a task."""
    columns = (taken[name].tolist() for name in ("pid", "cpu", "context"))
    return [
        (f"pid {pid}" if pid else f"cpu {cpu} idle") + (f" {CONTEXTS[context]}" if context else "")
        for pid, cpu, context in zip(*columns, strict=True)
    ]


def blame_table(named: pd.DataFrame, pairs: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Sums of `pairs` by the lock and by who waited for whom, most time first.

    `named`: the acquisitions with what `key` names. Columns: those of `key` of the waiter; then those of SIDES, of the
    holder, with `holder_` before them; waits, holds (different ones), blamed_total,
    blamed_max, hold_total (of these holds, whole), all in cycles.
    """
    sides = [name for name in key if name in SIDES]
    waiter = named[key].take(pairs["waiter"].to_numpy()).reset_index(drop=True)
    holder = named.take(pairs["holder"].to_numpy()).reset_index(drop=True)
    table = waiter.assign(**{f"holder_{name}": holder[SIDES[name]] for name in sides})
    by = list(table.columns)
    table = table.assign(
        waiter=pairs["waiter"], holder=pairs["holder"], spent=pairs["end"] - pairs["begin"],
        held=holder["end"] - holder["acquired"],
    )  # fmt: skip
    sums = table.groupby(by, as_index=False, sort=False).agg(
        waits=("waiter", "nunique"), holds=("holder", "nunique"),
        blamed_total=("spent", "sum"), blamed_max=("spent", "max"),
    )  # fmt: skip
    once = (
        table.drop_duplicates([*by, "holder"]).groupby(by, as_index=False, sort=False).agg(hold_total=("held", "sum"))
    )
    sums = sums.merge(once, on=by, how="left", validate="1:1")
    return sums.sort_values(["blamed_total", *by], ascending=[False, *[True] * len(by)], ignore_index=True)


def stacks(named: pd.DataFrame, pairs: pd.DataFrame, linked: pd.DataFrame) -> pd.DataFrame:
    """For a flame graph: `stack` (who waits outermost; then who called him, where for which lock, who holds it, and who
    called that one, or for whom he waits) and `weight`, cycles. Time in a chain is its last link's, and no more its
    first one's.

    `named`: the acquisitions with class, type, caller, thread; `wait_callers` and `hold_callers` if there are stacks;
    `linked`: of `chains`.
    """
    who, where, what, kind = (named[name].tolist() for name in ("thread", "caller", "class", "type"))
    nobody: list[tuple[str, ...]] = [()] * len(named)
    waiting, holding = (named[name].tolist() if name in named else nobody for name in ("wait_callers", "hold_callers"))
    weights: defaultdict[str, float] = defaultdict(float)
    pair_rows = pairs.itertuples(index=False, name=None)
    whole: dict[tuple[int, int], float] = {(waiter, holder): end - begin for waiter, holder, begin, end in pair_rows}

    def frames(waiter: int, holder: int) -> list[str]:
        return [
            f"{where[waiter]} waits for {what[waiter]} ({kind[waiter]})",
            f"{where[holder]} holds it ({who[holder]})",
        ]

    def put(links: list[tuple[int, int]], weight: float) -> None:
        (first, _), (_, last) = links[0], links[-1]
        # The holder's stack lies on the waiter's, upside down: who called him stands above.
        words = [who[first], *reversed(waiting[first]), *(word for link in links for word in frames(*link))]
        weights[";".join(word.replace(";", ",") for word in [*words, *holding[last]])] += weight

    rows = linked.itertuples(index=False, name=None)
    for _, links in itertools.groupby(rows, key=lambda row: row[0]):
        of_chain = [(waiter, holder, end - begin) for _, _, waiter, holder, begin, end in links]
        waiter, holder, spent = of_chain[0]
        put([(a, b) for a, b, _ in of_chain], spent)
        whole[waiter, holder] -= spent
    for pair, rest in whole.items():
        if rest > 0:
            put([pair], rest)
    return pd.DataFrame({"stack": list(weights), "weight": np.array(list(weights.values()), np.float64)})
