# SPDX-License-Identifier: MIT
"""The paper's first example: what "hello world" costs the thread that prints it, by six events."""

from __future__ import annotations

from harness.measure.declared import KEY, Table, fact, number, string
from harness.measure.raw import Answer, read_answer

from .onetrial import OneTrial
from .run import COUNTER, Bench


class Counted(Answer):
    """What an event of the thread stood at before and after."""

    name: str
    begin: int
    end: int


class Refused(Answer):
    """An event that cannot be had, and why."""

    name: str
    reason: str


class Hello(Answer):
    """hello.json. `cycles` of the clock between the readings' begins; `words`: what the program's own tag rose by."""

    refused: tuple[Refused, ...] = ()
    trusted: bool
    cycles: int
    words: int
    events: tuple[Counted, ...] = ()


HELLO_TABLES = [
    Table(
        "hello",
        "one event over the printing of a line, in the thread that prints it",
        (
            *KEY,
            string("event", "its name"),
            number("counted", "count", "what it counted; NaN: it cannot be had"),
            string("reason", "why it cannot be had; null: it can"),
        ),
    )
]
HELLO_METRICS = [
    fact("hello_events", "count", "higher", "of the six events of the paper's first example, those that can be had"),
    fact("hello_instructions", "instructions", "neither", "what they say of the line that is printed"),
]
HELLO_LOST = tuple(metric.name for metric in HELLO_METRICS)


def decode_hello(bench: Bench) -> None:
    """hello.json into its table."""
    with bench.part("hello"):
        told = read_answer(bench.folder / "hello.json", Hello)
        counted = [{"event": one.name, "counted": one.end - one.begin} for one in told.events]
        refused = [{"event": one.name, "reason": one.reason} for one in told.refused]
        bench.put("hello", [*counted, *refused])


def measure_hello(one: OneTrial) -> None:
    """The metrics of this workload."""
    rows = one.rows("hello")
    if rows.empty:
        return
    one.put("hello_events", float(rows["counted"].notna().sum()))
    row = one.row("hello", event=COUNTER)
    if row:
        one.put("hello_instructions", row["counted"], row["reason"])
