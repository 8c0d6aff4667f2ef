# SPDX-License-Identifier: MIT
"""Advice in words: which memory to fetch ahead, keep, place or pack, by what the program's visits were like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .names import Place
from .spaces import PAGE_BITS

#: An instruction, or a page, with a smaller share of all visits gets no advice.
LEAST_SHARE = 0.02
LEAST_VISITS = 64
#: An instruction walks when so many of its moves are of one distance, or of two beside each other.
REGULAR = 0.75
#: It stays when so many of its visits are to the page of its last one.
STAYS = 0.5
#: Memory of fewer pages is in reach anyhow: a first-level TLB has about so many entries.
FEW_PAGES = 32
#: What has this share of the visits is the hot part.
HOT = 0.9
#: A region is passed through when its pages are in use, in the median, for at most this share of the time.
BRIEF = 0.05
#: And eight tenths of its pages come into use over at least this share of it.
SLOWLY = 0.2
#: A walk that comes by its pages so many times could do at once what it does there.
AGAIN = 2
#: Pairs of pages in turn, as a share of all changes.
IN_TURN = 0.05


@dataclass(frozen=True)
class Advice:
    """One piece: `kind` is a word, `share` that of the visits that it is about."""

    kind: str
    subject: str
    text: str
    share: float


@dataclass(frozen=True)
class Habit:
    """How one place in the code visits one memory. `stride` in pages: the mean of its moves, where they are regular."""

    place: Place
    memory: str
    visits: int
    pages: int
    writes: bool
    kind: str  # stays, walks, jumps
    stride: float
    regular: float
    steps: float


def habits(
    visits: pd.DataFrame, strides: pd.DataFrame, places: Mapping[int, Place], named: Callable[[int], str]
) -> list[Habit]:
    """Of each place and the memory that it visits most; those with most visits first.

    `visits` and `strides` as `Instructions` has them; `named` says what memory a page belongs to.
    """
    if visits.empty:
        return []
    total = int(visits["visits"].sum())
    visits = visits.assign(memory=[named(int(page)) for page in visits["page"]])
    found = []
    by_stride = dict(iter(strides.groupby("ip", sort=False)))
    for key, rows in visits.groupby("ip", sort=False):
        ip = int(str(key))
        count = int(rows["visits"].sum())
        if count < max(LEAST_VISITS, LEAST_SHARE * total) or ip == 0:
            continue
        of_memory = rows.groupby("memory", sort=False)["visits"].sum()
        memory = str(of_memory.idxmax())
        there = rows[rows["memory"] == memory]
        kind, stride, regular, steps = _moves(by_stride.get(key))
        found.append(
            Habit(places[ip], memory, count, len(there), bool(there["writes"].any()), kind, stride, regular, steps)
        )
    return sorted(found, key=lambda habit: -habit.visits)


def _moves(strides: pd.DataFrame | None) -> tuple[str, float, float, float]:
    """Kind, mean stride of the regular moves, their share of all moves, and how many come in a row."""
    if strides is None or strides.empty:
        return "stays", 0.0, 0.0, 0.0
    count = strides.set_index("stride")["visits"]
    moves = count[count.index != 0]
    if moves.sum() < (1 - STAYS) * count.sum():
        return "stays", 0.0, 0.0, 0.0
    best, most = 0, 0
    # A distance that is no whole number of pages makes moves of two lengths.
    for stride in moves.sort_values(ascending=False, kind="stable").index[:8]:
        both = int(moves[stride]) + int(moves.get(stride + (1 if stride > 0 else -1), 0))
        if both > most:
            best, most = int(stride), both
    other = best + (1 if best > 0 else -1)
    mean = (best * int(moves[best]) + other * int(moves.get(other, 0))) / most
    regular = most / int(moves.sum())
    if regular < REGULAR:
        return "jumps", 0.0, regular, 0.0
    return "walks", mean, regular, most / max(1, int(moves.sum()) - most)


def advise_habits(found: list[Habit], total: int) -> list[Advice]:
    """What to do about walks and jumps; of instructions in one place with one memory, one piece, about all of them."""
    advice = []
    shares: dict[tuple[str, str, str], float] = {}
    for habit in found:
        key = (habit.kind, habit.memory, habit.place.text)
        shares[key] = shares.get(key, 0.0) + habit.visits / total
    for habit in found:
        where = habit.place.text
        share = shares.pop((habit.kind, habit.memory, where), None)
        if share is None:
            continue
        if habit.kind == "walks" and abs(habit.stride) < 1.5:
            if habit.visits >= AGAIN * habit.pages and habit.pages > FEW_PAGES:
                text = (
                    f"{where} walks {habit.memory} page by page, {_number(habit.visits / habit.pages)} times over all "
                    f"{_number(habit.pages)} pages. Where memory is short, each time reads all of it again. Exchange "
                    "its loops, or work in blocks, so that a page's work is done at once."
                )
                advice.append(Advice("order", habit.memory, text, share))
            way = "upwards" if habit.stride > 0 else "downwards"
            text = (
                f"{where} walks {habit.memory} page by page, {way}: {habit.regular:.0%} of its moves go to the next "
                "page. Prefetch ahead of it: madvise(MADV_SEQUENTIAL), or MADV_WILLNEED some pages before."
            )
            advice.append(Advice("prefetch", habit.memory, text, share))
        elif habit.kind == "walks":
            text = (
                f"{where} walks {habit.memory} by column: {_number(abs(habit.stride))} pages apart, "
                f"{_number(habit.steps)} steps in a row, over {_number(habit.pages)} pages. "
                "Exchange its loops, or store it the other way round: one visit a page, not one an element."
            )
            advice.append(Advice("order", habit.memory, text, share))
        elif habit.kind == "jumps" and habit.pages > FEW_PAGES:
            text = (
                f"{where} jumps about in {habit.memory}: {_number(habit.pages)} pages in no order. Nothing can be "
                f"fetched ahead. Keep all of it in memory ({_size(habit.pages)}), in huge pages (MADV_HUGEPAGE)."
            )
            advice.append(Advice("keep", habit.memory, text, share))
    return advice


def advise_hot(pages: pd.DataFrame, libraries: int, named: Callable[[int], str]) -> list[Advice]:
    """The few pages that have most visits. `pages`: page, visits; without those of `libraries`, so many."""
    total = int(pages["visits"].sum())
    ordered = pages.sort_values("visits", ascending=False, kind="stable")
    hot = int(np.searchsorted(ordered["visits"].cumsum().to_numpy(), HOT * total)) + 1 if total else 0
    if not hot or hot > len(pages) / 2:
        return []
    where = pd.Series([named(int(page)) for page in ordered["page"].head(hot)])
    counts = where.value_counts(sort=False).sort_values(ascending=False, kind="stable")
    told = ", ".join(f"{name} {_number(count)}" for name, count in counts.head(4).items())
    apart = f" (the {_number(libraries)} of libraries left out)" if libraries else ""
    text = (
        f"{_number(hot)} of {_number(len(pages))} pages{apart} have {HOT:.0%} of the visits ({told}). Where memory is "
        f"short, keep these: mlock(), or memory.min of at least {_size(hot)} for its cgroup."
    )
    return [Advice("keep", str(counts.index[0]), text, HOT)]


def advise_passed(pages: pd.DataFrame, named: Callable[[int], str], span_ns: int) -> list[Advice]:
    """Memory that is gone through as time passes, and not needed again. `pages`: page, visits, first_ns, last_ns."""
    total = int(pages["visits"].sum())
    lasted = (pages["last_ns"] - pages["first_ns"]).to_numpy() / max(1, span_ns)
    frame = pages.assign(memory=[named(int(page)) for page in pages["page"]], lasted=lasted)
    advice = []
    for memory, rows in frame.groupby("memory", sort=False):
        begun = rows["first_ns"].quantile(0.9) - rows["first_ns"].quantile(0.1)
        if len(rows) > FEW_PAGES and begun >= SLOWLY * span_ns and float(rows["lasted"].median()) <= BRIEF:
            text = (
                f"{memory} is gone through once: half of its {_number(len(rows))} pages are in use for "
                f"{float(rows['lasted'].median()):.1%} of the time or less. They need not stay: MADV_COLD or "
                "MADV_DONTNEED behind the work; read ahead before it."
            )
            advice.append(Advice("drop", str(memory), text, int(rows["visits"].sum()) / total))
    return advice


def advise_pairs(pairs: pd.DataFrame, total: int, objects: Mapping[int, str]) -> list[Advice]:
    """Objects on two pages that are used in turn. `pairs`: page, next, count; `total`: all changes of page."""
    both: dict[tuple[int, int], float] = {}
    for page, following, count in pairs[["page", "next", "count"]].itertuples(index=False):
        key = (min(int(page), int(following)), max(int(page), int(following)))
        both[key] = both.get(key, 0.0) + int(count) / max(1, total)
    advice = []
    for (one, other), share in sorted(both.items(), key=lambda item: -item[1]):
        a, b = objects.get(one), objects.get(other)
        if a is not None and b is not None and a != b and share >= IN_TURN:
            text = (
                f"{a} and {b} lie on two pages that are used in turn: {share:.0%} of all changes of page. Pack them in "
                "one struct or section, so that they share a page."
            )
            advice.append(Advice("pack", f"{a}, {b}", text, share))
    return advice


def advise_threads(sharing: pd.DataFrame, named: Callable[[int], str]) -> list[Advice]:
    """Memory that threads share and write, and memory of one thread alone. `sharing` as `Sharing` has it."""
    if sharing.empty or sharing["tid"].nunique() < 2:
        return []
    total = int(sharing["visits"].sum())
    # Programs beside each other share nothing by themselves.
    space = sharing["page"].to_numpy(dtype=np.uint64) >> np.uint64(PAGE_BITS)
    active = sharing.groupby([space, sharing["tid"]])["visits"].sum()
    several = active[active >= LEAST_SHARE * total].groupby(level=0).size()
    sharing = sharing[np.isin(space, several.index[several > 1])]
    by_page = sharing.groupby("page").agg(
        threads=("tid", "nunique"), visits=("visits", "sum"), writes=("writes", "sum"), changes=("changes", "first")
    )
    by_page["memory"] = [named(int(page)) for page in by_page.index]
    advice = []
    shared = by_page[(by_page["threads"] > 1) & (by_page["writes"] > 0)]
    for memory, rows in shared.groupby("memory", sort=False):
        share = int(rows["visits"].sum()) / total
        if share < LEAST_SHARE:
            continue
        text = (
            f"{memory}: {_pages(len(rows))} with writes, shared by up to {int(rows['threads'].max())} threads, changed "
            f"hands {_number(int(rows['changes'].sum()))} times. If they use different parts, give each pages of its "
            "own; else place them where the thread that uses them most runs."
        )
        advice.append(Advice("place", str(memory), text, share))
    alone = sharing[sharing["page"].isin(by_page.index[by_page["threads"] == 1])]
    alone = alone.assign(memory=[named(int(page)) for page in alone["page"]])
    for (where, tid), rows in alone.groupby(["memory", "tid"], sort=False):
        share = int(rows["visits"].sum()) / total
        if share >= LEAST_SHARE and len(rows) > FEW_PAGES:
            text = (
                f"{_pages(len(rows))} of {where} are thread {tid}'s alone. Place them on its node: let it touch them "
                "first, or bind them with mbind()."
            )
            advice.append(Advice("place", str(where), text, share))
    return advice


def together(*parts: list[Advice]) -> list[Advice]:
    """All, those about most visits first; of those with one kind and text, one."""
    every = {(one.kind, one.text): one for part in parts for one in part}
    return sorted(every.values(), key=lambda one: -one.share)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _pages(count: int) -> str:
    return f"{count:,} page{'s' if count != 1 else ''}"


def _size(pages: int) -> str:
    kib = pages * 4
    return f"{kib:,} KiB" if kib < 10240 else f"{kib / 1024:,.0f} MiB"
