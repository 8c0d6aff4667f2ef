# SPDX-License-Identifier: MIT
"""The paper's printed tables as evidence: what they say of its faults and of its names, and what this run adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from .linux24 import LIST, RED_HAT, TAKEN_AT, Place
from .printed import AFTER, ARMS, BEFORE, Printed, blocks, in_papers_form, notes
from .profile.misread import READINGS

Tables = Mapping[str, pd.DataFrame]
_NOT_HERE = "did not run"
_ROWS = (*BEFORE, *AFTER)
NAMES, NEXTS, NEITHERS = "name", "next", "neither"


def beside(tables: Tables, metrics: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The paper's tables in its form with ours beside; then what they say of themselves, by title."""
    made = {
        **in_papers_form(tables),
        "Of the paper's rows": notes(),
        "Faults of the text, by the paper's own numbers and here": _faults(metrics),
        "Whose size is it: bytes by the paper, and in kernels of its time": _sizes(),
        "Are the names one off: what each displacement would make of the paper's tables": _displacements(),
        f"Our buffers read one off: {' and '.join(ARMS.values())}": _readings(tables["misread"]),
        "What the paper says of N, for this kernel": blocks(tables["buffers"]),
    }
    return {title: frame for title, frame in made.items() if not frame.empty}


def _faults(metrics: pd.DataFrame) -> pd.DataFrame:
    """A row per fault or premise of the text: evidence in the paper, evidence of this run (medians), a verdict."""
    tick, entry = ARMS["before"], ARMS["after"]

    def here(words: str, metric: str, arm: str) -> str:
        chosen = metrics[(metrics["metric"] == metric) & (metrics["arm"] == arm)]["value"].dropna()
        return words.format(float(chosen.median())) if len(chosen) else f"{arm} {_NOT_HERE}"

    rows = [
        (
            "index RPos/m",
            f"functions of {min(row.size for row in _ROWS)} bytes have rows: 16 blocks cannot tell them apart",
            here("{:.1%} of the indexes lie beyond 16 counters", "printed_outside.mixed", tick),
            "contradicted by its own tables; RPos/Len is right",
        ),
        (
            "index restarts at 0",
            f"functions of 64 bytes have {_counts_of(64)} before; the code gives equal lengths equal counts",
            here("{:.0%} of the ticks are in wrong functions", "printed_error.mixed", tick),
            "contradicted: its tables were not made with it",
        ),
        (
            "third column is a share",
            f"above 1 in {sum(row.third > 1 for row in _ROWS)} of {len(_ROWS)} rows; schedule has 688 bytes twice",
            here("{:.1f} for the idle function", "idle_per_byte", tick),
            "contradicted: it is ticks per byte of function",
        ),
        (
            "step=4 shows N=4",
            "_stext has 4 in both tables",
            here("the step is {:.0f} at N=4", "step_bytes", tick),
            "contradicted; N was 2, or a program printed N: open",
        ),
        (
            "no CS test in do_hot_spot",
            "an address of user mode has no counter, and no row shows such counts",
            here("{:.0%} of the interrupted addresses are in user mode", "user_interrupted", entry),
            "a fault of the listing; whether of the kernel: open",
        ),
        (
            "100 Hz",
            "11568 entries of the timer's handler are 116 s",
            here("{:.1f} Hz", "tick_hz", tick),
            "holds",
        ),
        (
            "kernel mode only",
            "no row for user mode; so the rows are parts of kernel time, of what total is not told",
            here("{:.0%} of the timer's interrupts took a sample", "sampled_ticks", tick),
            "holds, and is not a fault",
        ),
        (
            "no handler in its second table",
            "set_rtc_mmss, bust_spinlocks, unexpected intr are none",
            here("timer_interrupt: {:g} entry per interrupt", "entries_per_interrupt.timer", entry),
            "their counts are those of the functions after them (next table)",
        ),
        (
            "default_idle should double",
            "1456 before, no row after",
            here("{:.2f} times the counts of before", "idle_doubling", entry),
            "another load, or rows left out: open",
        ),
        (
            "one load for both tables",
            "delays 655, vm_set_pte 1205, default_idle 1456 before, no row after; schedule 60 and 224",
            "",
            "open: the rows do not allow to compare before with after",
        ),
    ]
    return pd.DataFrame(rows, columns=["fault or premise", "in the paper", "here", "verdict"])


def _counts_of(size: int) -> str:
    return ", ".join(str(row.count) for row in BEFORE if row.size == size)


def whose(row: Printed, place: Place) -> str:
    """Whose bytes the row's quotient is: the named function's, those of the function after it, or neither's."""
    if row.size == place.size:
        return NAMES
    return NEXTS if row.size == place.following_size else NEITHERS


def _sizes() -> pd.DataFrame:
    """The paper's quotients against a kernel of its time: a shift of the names against the sizes would show here."""
    rows: list[dict[str, Any]] = []
    for row in _ROWS:
        place, other = RED_HAT.get(row.function), LIST.get(row.function)
        rows.append(
            {
                "function": row.function,
                "bytes": float(row.size),
                "2.4.10": other.size if other else np.nan,
                "2.4.18": place.size if place else np.nan,
                "next in 2.4.18": place.following if place else "(not in it)",
                "its": place.following_size if place else np.nan,
                "whose": whose(row, place) if place else "",
            }
        )
    return pd.DataFrame(rows)


def _displacements() -> pd.DataFrame:
    """Each displacement of counts against names: what it would make of both tables, had a kernel 2.4.18 run.

    An entry is a handler's first byte, so that any displacement moves it. A tick that was held back is taken `TAKEN_AT`
    bytes into a function, so that it moves from the next byte on.
    """
    idle, fault, event = (TAKEN_AT[name] for name in ("default_idle", "do_page_fault", "handle_IRQ_event"))
    named = [whose(row, RED_HAT[row.function]) for row in _ROWS if row.function in RED_HAT]
    sizes = f"{named.count(NAMES)} of {len(named)} sizes are exactly the name's, {named.count(NEXTS)} the next one's"
    rows = [
        ("names against sizes", sizes, "as before", "excluded"),
        (
            "counts one counter early: 16 bytes, or 4",
            f"none: default_idle is left {idle} bytes in",
            f"timer_interrupt, ide_intr; not do_page_fault, which is left {fault} bytes in",
            "two of three rows",
        ),
        (
            f"counts {fault + 1} to {event} bytes early",
            "default_idle would lose its name",
            "all three, and handle_IRQ_event keeps its name",
            "not in both tables, and no off-by-one",
        ),
        (
            "counts one function early",
            "default_idle would be poll_idle, _rdtsc_delay __loop_delay",
            "all three; handle_IRQ_event would be disable_irq, schedule __wake_up",
            "fits the second table, not the first",
        ),
        (
            "the step taken for a counter: one counter late",
            "_stext has the step; so has it in the second table",
            "handlers keep their names",
            "explains _stext alone",
        ),
    ]
    return pd.DataFrame(rows, columns=["displacement", "first table", "second table", "verdict"])


def _readings(misread: pd.DataFrame) -> pd.DataFrame:
    """Means over trials, per reading: before the fix what is on top, after it under which names entries come out."""
    rows = misread[misread["arm"].isin(ARMS.values())]
    if rows.empty:
        return pd.DataFrame()
    made = []
    for reading, words in READINGS.items():
        before, after = (rows[(rows["arm"] == arm) & (rows["reading"] == reading)] for arm in ARMS.values())
        entries = after["entries"].sum()
        made.append(
            {
                "reading": words,
                "_stext": before["first_count"].mean(),
                "top before": _most(before),
                "top after": _most(after),
                "entries, own name": after["entries_own"].sum() / entries if entries else np.nan,
                "name before": after["entries_before"].sum() / entries if entries else np.nan,
            }
        )
    return pd.DataFrame(made).round(3)


def _most(rows: pd.DataFrame) -> str:
    """The function that is on top in most trials."""
    return str(rows["top_function"].mode().iloc[0]) if len(rows) else _NOT_HERE
