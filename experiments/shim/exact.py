# SPDX-License-Identifier: MIT
"""Whether the device is right, by itself and the kernel: the workload `exact`, from its file to its metrics.

A timer's interrupt knows who was interrupted, idle included, where no program could look. Nothing of it depends on time
or on the host, if the guest has one CPU.
"""

from __future__ import annotations

from typing import Annotated

from harness.measure.declared import KEY, Table, columns_of, fact
from harness.measure.raw import Answer, read_answer
from harness.yamlfile import about

from .onetrial import OneTrial
from .run import Bench


class Exact(Answer):
    """exact.json."""

    threads: Annotated[int, about("interrupts of threads")]
    threads_wrong: Annotated[int, about("of these, with another thread in the line")]
    idle: Annotated[int, about("interrupts of the idle task")]
    idle_wrong: Annotated[int, about("of these, with another task in the line")]
    slot_switches: Annotated[int, about("switches meanwhile, as the lines count them")]
    kernel_switches: Annotated[int, about("the same, as /proc/stat counts them")]


EXACT_TABLES = [
    Table(
        "exact",
        "one time in which the device compared its lines with the threads that a timer interrupted",
        (*KEY, *columns_of(Exact)),
    )
]
EXACT_METRICS = [
    fact("interrupts_of_threads", "count", "neither", "interrupts of threads, compared with the line"),
    fact("interrupts_of_idle", "count", "neither", "interrupts of the idle task, compared with the line"),
    fact("interrupted_wrong", "count", "lower", "interrupts of threads with another thread in the line"),
    fact("interrupted_idle_wrong", "count", "lower", "interrupts of the idle task with another task in the line"),
    fact("switches_miscounted", "count", "lower", "switches as the lines count them, less /proc/stat's, without sign"),
]
EXACT_LOST = tuple(metric.name for metric in EXACT_METRICS)


def decode_exact(bench: Bench) -> None:
    """exact.json into its table."""
    with bench.part("exact"):
        bench.put("exact", read_answer(bench.folder / "exact.json", Exact).as_columns())


def measure_exact(one: OneTrial) -> None:
    """The metrics of this workload."""
    row = one.row("exact")
    if not row:
        return
    one.put("interrupts_of_threads", row["threads"])
    one.put("interrupts_of_idle", row["idle"])
    one.put("interrupted_wrong", row["threads_wrong"] if row["threads"] else None, "no thread was interrupted")
    one.put("interrupted_idle_wrong", row["idle_wrong"] if row["idle"] else None, "the idle task was not interrupted")
    one.put("switches_miscounted", abs(row["slot_switches"] - row["kernel_switches"]))
