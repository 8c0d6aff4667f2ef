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
    """A row of the paper, and the function of the same job in 6.1; `today` is None where there is none of its own."""

    function: str
    count: int
    third: float
    today: str | None
    note: str = ""

    @property
    def size(self) -> int:
        """Bytes, by the second and the third column."""
        return round(self.count / self.third)


BEFORE = (
    Printed("_stext", 4, 0.0625, "startup_32", "4 is also the step: read as a count?"),
    Printed("default_idle", 1456, 22.75, "default_idle"),
    Printed("system_call", 51, 0.85, "entry_INT80_32"),
    Printed("so_page_fault", 131, 0.1026, "exc_page_fault", "so in the copy; do_page_fault is meant"),
    Printed("schedule", 60, 0.0872, "__schedule", "688 bytes in both tables"),
    Printed("vm_set_pte", 1205, 10.7589, None, "inlined today"),
    Printed("vm_pte_clear", 228, 3.5625, None, "inlined today"),
    Printed("zap_page_range", 118, 0.3512, "unmap_page_range", "unmap_page_range does its work today"),
    Printed("_rdtsc_delay", 655, 20.4688, "delay_tsc"),
)
AFTER = (
    Printed("__stext", 4, 0.0625, "startup_32", "4 is also the step: read as a count?"),
    Printed("handle_IRQ_event", 14, 0.125, "__handle_irq_event_percpu"),
    Printed("set_rtc_mmss", 11568, 30.125, "mach_set_cmos_time", "no handler; timer_interrupt stands near it in 2.4"),
    Printed("bust_spinlocks", 183, 1.9062, "bust_spinlocks"),
    Printed("schedule", 224, 0.3256, "__schedule", "688 bytes in both tables"),
    Printed("vm_pte_set_wrprotect", 1140, 35.625, None, "inlined today"),
    Printed("unexpected intr", 2117, 12.0284, None, "no handler; ide_intr stands next to it in 2.4"),
)
#: Functions of this run that a printed table is missing, most counts first.
_MORE = 3
_WORKLOAD = "idle"


def beside(tables: Tables) -> dict[str, pd.DataFrame]:
    """The paper's tables with ours beside them, row by row, by title; then what they say of themselves."""
    made = {
        "Before the fix: workload idle in arm tick": _table(tables, BEFORE, "tick"),
        "After the fix: workload idle in arm irq-entry": _table(tables, AFTER, "irq-entry"),
        "The paper's rows: bytes are its count over its third column": _notes(),
        "What the paper says of N, for this kernel": _blocks(tables["buffers"]),
    }
    return {title: frame for title, frame in made.items() if not frame.empty}


def _table(tables: Tables, printed: tuple[Printed, ...], arm: str) -> pd.DataFrame:
    """The paper's rows in its order, then the functions with most counts here that have none; ours are means."""
    counts, per_byte = mean_counts(tables, _WORKLOAD), mean_counts(tables, _WORKLOAD, "ticks_per_byte")
    ran = arm in counts.columns
    own = counts[arm].round(1).to_dict() if ran else {}
    third = per_byte[arm].round(4).to_dict() if ran else {}
    rows = [
        {
            "function": row.function,
            "paper": float(row.count),
            "paper/B": row.third,
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


def _notes() -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"table": table, "function": row.function, "bytes": float(row.size), "note": row.note}
            for table, printed in (("before", BEFORE), ("after", AFTER))
            for row in printed
        ]
    )


def _blocks(buffers: pd.DataFrame) -> pd.DataFrame:
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
