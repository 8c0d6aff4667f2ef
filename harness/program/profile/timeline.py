# SPDX-License-Identifier: MIT
"""A profile for https://ui.perfetto.dev: each thread's tree of calls as slices in slices, as long as its instructions.

A profile knows how much, not when: a nanosecond of the file is an instruction, and what has most instructions comes
first. What is left of a slice behind those in it is the function's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from harness.measure.traceevents import (
    MOST_DEPTH,
    TIME_LINE,
    Event,
    process_name,
    thread_name,
    time_slice,
    write_events,
)
from harness.program.profile.calls import Call, Thread

#: Paths that are told one by one: browsers show so many slices.
MOST = 20_000
UNIT = "1 ns is 1 instruction"
#: In place of several paths below one, and of those that lie too deep.
SMALLER, DEEPER = "(smaller)", "(deeper)"
OURS, OTHERS = 1, 2


def write_timeline(threads: Sequence[Thread], out: Path, most: int = MOST) -> list[str]:
    """Write TIME_LINE into `out`; what the terminal shows of it."""
    executed = [thread for thread in threads if thread.call.total]
    slices = list(laid_out(executed, most))
    write_events([*_names(executed), *slices], out / TIME_LINE)
    lines = [f"{TIME_LINE} has no times: {UNIT}, and what has most comes first."]
    left = sum(event["args"].get("paths", 0) for event in slices)
    if left:
        lines.append(f"Of its paths of calls {left:,} are told as sums, {SMALLER} or {DEEPER}.")
    return lines


def _names(threads: Sequence[Thread]) -> Iterator[Event]:
    yield process_name(OURS, f"the program: {UNIT}")
    if not all(thread.ours for thread in threads):
        yield process_name(OTHERS, f"others meanwhile: {UNIT}")
    for thread in threads:
        yield thread_name(_process(thread), thread.number, thread.call.label)


def laid_out(threads: Sequence[Thread], most: int = MOST, depth: int = MOST_DEPTH) -> Iterator[Event]:
    """The slices, each in front of those in it: threads, the `most` largest of their paths or fewer, sums of others.

    `paths`: how many of them a sum stands for.
    """
    least = _least([thread.call for thread in threads], most)
    for thread in threads:
        stack: list[tuple[Call, int, int, int]] = [(thread.call, 0, 1, 0)]
        while stack:
            call, begin, level, paths = stack.pop()
            args: dict[str, object] = {"paths": paths} if paths else {"own": call.own, "calls": call.calls}
            if call.place is not None:
                args["file"] = call.place.file
            yield time_slice(call.label, _process(thread), thread.number, begin, call.total, args=args)
            inside = []
            for below, stands_for in _below(call, least, level + 1 < depth):
                inside.append((below, begin, level + 1, stands_for))
                begin += below.total
            stack += reversed(inside)


def _below(call: Call, least: int, one_by_one: bool) -> list[tuple[Call, int]]:
    """What lies in a call, the largest first, and a sum of what is not told; and for how many paths each stands."""
    every = [below for below in call.sorted() if below.total]
    told = [below for below in every if one_by_one and below.total >= least]
    rest = sum(below.total for below in every[len(told) :])
    found = [(below, 0) for below in told]
    if rest:
        paths = sum(1 for below in every[len(told) :] for _ in _paths(below))
        found.append((Call(SMALLER if one_by_one else DEEPER, own=rest, total=rest), paths))
    return found


def _paths(root: Call) -> Iterator[Call]:
    """A call and all below it in which anything was executed."""
    stack = [root]
    while stack:
        call = stack.pop()
        yield call
        stack += [below for below in call.below.values() if below.total]


def _least(roots: Sequence[Call], most: int) -> int:
    """The least instructions of a path that is told, so that these are `most` or fewer."""
    totals = np.sort([call.total for root in roots for call in _paths(root)])
    return max(1, int(totals[-most - 1]) + 1) if totals.size > most else 1


def _process(thread: Thread) -> int:
    return OURS if thread.ours else OTHERS
