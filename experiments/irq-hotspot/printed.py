# SPDX-License-Identifier: MIT
"""What the paper prints for N = 4: both of its tables, as far as the known copy can be read; and ours beside.

Facts of Yang and Lu (2004), sections 3.3 and 4. The third column is ticks per byte of function, whatever the paper
calls it: a count over it is the function's size. Its kernel, machine and load are others, so only the kind of function
can be compared, not the size of a count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .report import mean_counts

Tables = Mapping[str, pd.DataFrame]
PAPER_N = 4


@dataclass(frozen=True)
class Printed:
    """A row of the paper. `today` is the function of the same job in 6.1, None where there is none of its own.

    `note` says why there is none, or why it may have no count. `asked`: workload mixed has the kernel do that job, and
    ticks can land in the function that does it.
    """

    function: str
    count: int
    third: float
    today: str | None
    note: str = ""
    asked: bool = False

    @property
    def size(self) -> int:
        """Bytes, by the second and the third column: the whole number whose quotient is printed so."""
        return round(self.count / self.third)

    @property
    def metric(self) -> str:
        """The row's name as a part of the name of a metric."""
        return self.function.strip("_").replace(" ", "_")


_STEP = "the paper prints step=4 too"
BEFORE = (
    Printed("_stext", 4, 0.0625, "startup_32", _STEP),
    Printed("default_idle", 1456, 22.75, "default_idle", asked=True),
    Printed("system_call", 51, 0.85, "entry_INT80_32", "runs with interrupts off today"),
    Printed("so_page_fault", 131, 0.1026, "exc_page_fault", "so in the copy; do_page_fault is meant", asked=True),
    Printed("schedule", 60, 0.0872, "__schedule", "mostly runs with interrupts off", asked=True),
    Printed("vm_set_pte", 1205, 10.7589, None, "in no 2.4 map at hand; set_pte is inlined today"),
    Printed("vm_pte_clear", 228, 3.5625, None, "in no 2.4 map at hand; inlined today"),
    Printed("zap_page_range", 118, 0.3512, "unmap_page_range", "does its work today", asked=True),
    Printed("_rdtsc_delay", 655, 20.4688, "delay_tsc", "no load here delays"),
)
AFTER = (
    Printed("__stext", 4, 0.0625, "startup_32", _STEP),
    Printed("handle_IRQ_event", 14, 0.125, "__handle_irq_event_percpu", "runs with interrupts off today"),
    Printed("set_rtc_mmss", 11568, 30.125, "mach_set_cmos_time", "no handler; called every 11 minutes"),
    Printed("bust_spinlocks", 183, 1.9062, "bust_spinlocks", "no handler; called in an oops"),
    Printed("schedule", 224, 0.3256, "__schedule", "mostly runs with interrupts off", asked=True),
    Printed("vm_pte_set_wrprotect", 1140, 35.625, None, "in no 2.4 map at hand; inlined today"),
    Printed("unexpected intr", 2117, 12.0284, None, "no handler; IDE driver, gone today"),
)
#: Functions of this run that a printed table is missing, most counts first.
_MORE = 3
#: The arm, by the half of the paper that it stands for, and the workload that does what the rows tell of.
ARMS = {"before": "tick-mixed", "after": "irq-entry-mixed"}
WORKLOAD = "mixed"


def in_papers_form(tables: Tables) -> dict[str, pd.DataFrame]:
    """Both tables in the paper's form, ours beside, row by row, by title."""
    return {
        f"Before the fix: the paper, and workload {WORKLOAD} in arm {ARMS['before']}": _table(tables, BEFORE, "before"),
        f"After the fix: the paper, and workload {WORKLOAD} in arm {ARMS['after']}": _table(tables, AFTER, "after"),
    }


def _table(tables: Tables, printed: tuple[Printed, ...], half: str) -> pd.DataFrame:
    """The paper's rows in its order, then the functions with most counts here that have none; ours are means."""
    arm = ARMS[half]
    counts, per_byte = mean_counts(tables, WORKLOAD), mean_counts(tables, WORKLOAD, "ticks_per_byte")
    ran = arm in counts.columns
    own = counts[arm].round(1).to_dict() if ran else {}
    third = per_byte[arm].round(4).to_dict() if ran else {}
    rows = [
        {
            "count": float(row.count),
            "function": row.function,
            "per byte": f"{row.third:.4f}",  # as the paper prints it
            "bytes": float(row.size),
            "here": own.get(row.today, 0.0) if ran and row.today else np.nan,
            "here/B": third.get(row.today, 0.0) if ran and row.today else np.nan,
            "today": (row.today or "(none)") if ran else f"{arm} did not run",
        }
        for row in printed
    ]
    taken = {row.today for row in printed}
    more = sorted((name for name in own if name not in taken and own[name] > 0), key=lambda name: (-own[name], name))
    rows += [
        {"function": "(not in the paper's)", "here": own[name], "here/B": third[name], "today": name}
        for name in more[:_MORE]
    ]
    return pd.DataFrame(rows)


def notes() -> pd.DataFrame:
    """What is to be known of rows: why nothing stands for one today, or why what does may have no count."""
    return pd.DataFrame(
        [
            {"function": row.function, "table": half, "note": row.note}
            for half, printed in (("before", BEFORE), ("after", AFTER))
            for row in printed
            if row.note
        ]
    )


def blocks(buffers: pd.DataFrame) -> pd.DataFrame:
    """By N: 2^N blocks of TLen/2^N bytes, as section 3.3 has it, and what the buffer has."""
    first = buffers.drop_duplicates("step").sort_values("step")
    n = np.log2(first["step"]).astype("int64")
    return pd.DataFrame(
        {
            "N": n,
            "blocks, paper": first["step"],
            "bytes, paper": (first["step"] * first["counters"] / 2**n).round().astype("int64"),
            "blocks here": first["counters"],
            "bytes here": first["step"],
        }
    ).reset_index(drop=True)
