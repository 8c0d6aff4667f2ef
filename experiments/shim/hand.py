# SPDX-License-Identifier: MIT
"""Switches that can be counted on paper, and perf's own count beside the slots': the workload `hand`.

One CPU, under the virtual clock. A nap is a switch to the idle task and one back; a byte handed over by a pipe is a
switch to who reads it; who yields where nobody else wants the CPU goes on. What else runs meanwhile, a kernel thread
now and then, comes on top and is seen in all counts.
"""

from __future__ import annotations

from typing import Annotated

from harness.measure.declared import KEY, Table, columns_of, fact, string
from harness.measure.raw import Answer, read_answer
from harness.yamlfile import about

from .onetrial import OneTrial
from .run import Bench


class Counted(Answer):
    """Switches of one part, by who counts them."""

    by_hand: Annotated[int | None, about("switches by what the program does; NaN: nobody knows")]
    slot: Annotated[int, about("switches as the lines count them")]
    kernel: Annotated[int, about("the same, as /proc/stat counts them")]
    perf: Annotated[int, about("the same, by perf's context-switches")]


class Hand(Answer):
    """hand.json: parts of ppidhand.c."""

    sleeps: Counted
    turns: Counted
    alone: Counted
    outside: Counted


HAND_TABLES = [
    Table(
        "by_hand",
        "switches of one part of a program, counted on paper, by the slots, by the kernel and by perf",
        (*KEY, string("part", "sleeps, turns, alone; outside: Debian's dd into dd"), *columns_of(Counted)),
    )
]
HAND_METRICS = [
    fact("by_hand_missing", "count", "lower", "switches counted on paper that the lines do not count"),
    fact("by_hand_more_share", "1", "lower", "switches that the lines count and paper does not, of those on paper"),
    fact("perf_difference", "count", "lower", "switches as the lines count them, less perf's, without sign"),
]
HAND_LOST = tuple(metric.name for metric in HAND_METRICS)


def decode_hand(bench: Bench) -> None:
    """hand.json into its table."""
    with bench.part("hand"):
        told = read_answer(bench.folder / "hand.json", Hand)
        parts = {name: getattr(told, name) for name in Hand.model_fields}
        bench.put("by_hand", [{"part": name, **counted.as_columns()} for name, counted in parts.items()])


def measure_hand(one: OneTrial) -> None:
    """The metrics of this workload."""
    rows = one.rows("by_hand")
    if not len(rows):
        return
    known = rows[rows["by_hand"].notna()]
    more = known["slot"] - known["by_hand"]
    one.put("by_hand_missing", float(-more.clip(upper=0).sum()))
    one.put("by_hand_more_share", float(more.clip(lower=0).sum() / known["by_hand"].sum()))
    one.put("perf_difference", float((rows["slot"] - rows["perf"]).abs().sum()))
