# SPDX-License-Identifier: MIT
"""What the counters that the slot publishes are worth: the workload `counters`, from its file to its metrics."""

from __future__ import annotations

from typing import Annotated

from harness.measure.declared import KEY, Table, columns_of, count, fact, number
from harness.measure.raw import Answer, read_answer
from harness.yamlfile import about

from .onetrial import OneTrial
from .run import Bench

SLOT, OWN = "slot", "observer"


class Check(Answer):
    """A known loop of the target, by one counter."""

    what: Annotated[str, about("known loop, or crowded: with more events than the CPU has counters")]
    source: Annotated[
        str, about("slot: published at the switch; call: read by a system call; observer: of its own thread")
    ]
    expected: Annotated[int, about("instructions of the loop")]
    counted: Annotated[int, about("instructions that were counted")]
    reason: Annotated[str | None, about("why the counter is refused; null: it is used")] = None


class Event(Answer):
    """One event of several that share the PMU: its count, ns that it wanted to count, and ns that it did."""

    count: int
    enabled: int
    running: int


class Crowded(Answer):
    """What the slot published of the known loop then, and the others' events."""

    expected: int
    counted: int
    reason: str | None = None
    events: tuple[Event, ...] = ()


class Published(Answer):
    """counters.json; instructions are of half a second each."""

    cpu: int
    checks: tuple[Check, ...]
    busy: Annotated[int, about("of the CPU, as published, while the target computed")]
    idle: Annotated[int, about("of the CPU, as published, while it slept")]
    observer_of_idle: Annotated[int, about("of an event of the observer's thread, while it looked at an idle target")]
    crowded: Crowded


PUBLISHED_TABLES = [
    Table(
        "published",
        "one count of a known loop of the target's, by one counter",
        (*KEY, *columns_of(Check)),
    ),
    Table(
        "half_seconds",
        "instructions in half a second each",
        (*KEY, *columns_of(Published)),
    ),
    Table(
        "crowd",
        "one of the events that share the PMU",
        (
            *KEY,
            count("event", "its number"),
            count("count", "what it counted"),
            number("share", "1", "share of its time in which it had a counter; NaN: it had no time"),
        ),
    ),
]
PUBLISHED_METRICS = [
    fact("pmu_published_error", "1", "lower", "published instructions over those of a known loop, less 1, no sign"),
    fact("pmu_idle_share", "1", "lower", "published instructions of an idle CPU, over those of a busy one"),
    fact("pmu_own_refused", "1", "higher", "whether a counter of the observer's own thread is refused"),
    fact("pmu_own_of_idle_share", "1", "neither", "what it counts of an idle target, over what a busy CPU executes"),
    fact("pmu_crowded_refused", "1", "higher", "whether the published counter is refused where events share the PMU"),
]
PUBLISHED_LOST = tuple(metric.name for metric in PUBLISHED_METRICS)


def decode_published(bench: Bench) -> None:
    """counters.json into its tables."""
    with bench.part("counters"):
        told = read_answer(bench.folder / "counters.json", Published)
        crowded = {"what": "crowded", "source": SLOT, **told.crowded.model_dump(exclude={"events"})}
        bench.put("published", [*(check.as_columns() for check in told.checks), crowded])
        bench.put("half_seconds", told.as_columns())
        bench.put(
            "crowd",
            [
                {"event": i, "count": event.count, "share": event.running / event.enabled if event.enabled else None}
                for i, event in enumerate(told.crowded.events)
            ],
        )


def measure_published(one: OneTrial) -> None:
    """The metrics of this workload."""
    slot = one.row("published", what="known loop", source=SLOT)
    own = one.row("published", what="known loop", source=OWN)
    crowded = one.row("published", what="crowded")
    half = one.row("half_seconds")
    if not (slot and own and crowded and half):
        return
    refused = slot["reason"]
    why = f"the published counter is refused: {refused}"
    one.put("pmu_published_error", None if refused else abs(slot["counted"] / slot["expected"] - 1), why)
    busy = half["busy"] if not refused and half["busy"] else None
    none = why if refused else "nothing was counted while the target computed"
    one.put("pmu_idle_share", busy and half["idle"] / busy, none)
    one.put("pmu_own_of_idle_share", busy and half["observer_of_idle"] / busy, none)
    one.put("pmu_own_refused", own["reason"] is not None)
    one.put("pmu_crowded_refused", None if refused else crowded["reason"] is not None, why)
