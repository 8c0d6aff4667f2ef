# SPDX-License-Identifier: MIT
"""Whether the device is right, by itself and the kernel: the workload `exact`, from its file to its metrics.

A timer's interrupt knows who was interrupted, idle included, where no program could look. Nothing of it depends on time
or on the host, if the guest has one CPU.
"""

from __future__ import annotations

from harness.measure.declared import KEY, Table, count, fact
from harness.measure.raw import Answer, read_answer

from .onetrial import OneTrial
from .run import Bench


class Exact(Answer):
    """exact.json: numbers of interrupts by whom they found, of these those that the line named wrongly, and switches as
    the lines and as /proc/stat count them.
    """

    threads: int
    threads_wrong: int
    idle: int
    idle_wrong: int
    slot_switches: int
    kernel_switches: int


EXACT_TABLES = [
    Table(
        "exact",
        "one time in which the device compared its lines with the threads that a timer interrupted",
        (
            *KEY,
            count("threads", "interrupts of threads"),
            count("threads_wrong", "of these, with another thread in the line"),
            count("idle", "interrupts of the idle task"),
            count("idle_wrong", "of these, with another task in the line"),
            count("slot_switches", "switches meanwhile, as the lines count them"),
            count("kernel_switches", "the same, as /proc/stat counts them"),
        ),
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
        bench.put("exact", read_answer(bench.folder / "exact.json", Exact).model_dump())


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
