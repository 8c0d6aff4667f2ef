# SPDX-License-Identifier: MIT
"""/proc/interrupts into tables, and the difference of two snapshots.

The format is that of show_interrupts() in kernel/irq/proc.c and arch_show_interrupts() in
arch/x86/kernel/irq.c: numbered lines first, then named per-CPU rows (NMI, LOC, ...) and whole-system rows
(ERR, MIS) that have a single figure whatever the number of CPUs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.errors import RunError

Counts = npt.NDArray[np.int64]

_ROW = re.compile(r"\s*(?P<irq>[A-Za-z0-9]+):(?P<rest>.*)")
# chip, then optionally the hardware line ("2-edge", "524288-edge", "0"), the trigger, and the actions.
_CHIP = re.compile(
    r"\s*(?P<chip>\S+)(?:\s+(?P<hwirq>\d+)(?=\s|-|$))?\s*(?:-?(?P<flow>edge|level|fasteoi|Edge|Level)\b)?"
    r"(?:-\S+)?(?:\s+(?P<actions>\S.*?))?\s*"
)
_WRAP = 1 << 32  # kstat_irqs and the irq_cpustat_t fields are unsigned int


@dataclass(frozen=True)
class InterruptTable:
    """One /proc/interrupts, or a difference of two; n rows, c CPUs.

    irq     (n,)    as printed: "0", "14", "LOC", "ERR"
    chip    (n,)    "XT-PIC", "IO-APIC", ...; "" on named rows
    hwirq   (n,)    hardware line as printed, or ""
    actions (n,)    names of the actions on that line; several when the line is shared; () on named rows
    label   (n,)    description of a named row ("Local timer interrupts"), or ""
    cpus    (c,)    "CPU0", ...
    count   (n, c)  int64, interrupts since boot (or between the snapshots); whole-system rows use column 0
    """

    irq: tuple[str, ...]
    chip: tuple[str, ...]
    hwirq: tuple[str, ...]
    actions: tuple[tuple[str, ...], ...]
    label: tuple[str, ...]
    cpus: tuple[str, ...]
    count: Counts

    @property
    def total(self) -> Counts:
        """Interrupts per row over all CPUs; (n,) int64."""
        return np.asarray(self.count.sum(axis=1), dtype=np.int64)

    def rows_of(self, action: str) -> npt.NDArray[np.intp]:
        """Rows on which an action of that name is installed (a driver may own several lines); (0..,) intp."""
        return np.flatnonzero([action in names for names in self.actions])

    def count_of(self, irq: str) -> int:
        """Interrupts of one row over all CPUs; 0 when there is no such row."""
        return int(self.total[self.irq.index(irq)]) if irq in self.irq else 0

    def frame(self) -> pd.DataFrame:
        """Long form: irq, chip, hwirq, actions (", " between), label, cpu, count (int64, interrupts)."""
        n, c = self.count.shape
        return pd.DataFrame(
            {
                "irq": np.repeat(self.irq, c),
                "chip": np.repeat(self.chip, c),
                "hwirq": np.repeat(self.hwirq, c),
                "actions": np.repeat([", ".join(names) for names in self.actions], c),
                "label": np.repeat(self.label, c),
                "cpu": np.tile(self.cpus, n),
                "count": self.count.reshape(-1),
            }
        )


def parse_interrupts(text: str, *, where: str = "/proc/interrupts") -> InterruptTable:
    """Parse the text of /proc/interrupts; KreproError when it is empty or a row does not fit its header."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise RunError("interrupt table is empty", where=where)
    cpus = tuple(lines[0].split())
    if not cpus or not all(re.fullmatch(r"CPU\d+", cpu) for cpu in cpus):
        raise RunError(f"interrupt table does not begin with a row of CPUs: {lines[0][:60]!r}", where=where)

    fields: list[tuple[str, str, str, tuple[str, ...], str]] = []
    counts: list[list[int]] = []
    for number, line in enumerate(lines[1:], start=2):
        row = _ROW.fullmatch(line)
        numbers, text_after = _split_counts(row["rest"], len(cpus)) if row else ([], "")
        # ERR and MIS print one figure for the whole system; every other row prints one per CPU.
        whole = row is not None and not row["irq"].isdigit() and len(numbers) == 1
        if row is None or not (len(numbers) == len(cpus) or whole):
            raise RunError(f"not a row of an interrupt table: {line[:60]!r}", where=f"{where}:{number}")
        if row["irq"].isdigit():
            chip = _CHIP.fullmatch(text_after)
            part = chip.groupdict() if chip else {}
            names = tuple(name.strip() for name in (part.get("actions") or "").split(",") if name.strip())
            fields.append((row["irq"], part.get("chip") or "", part.get("hwirq") or "", names, ""))
        else:
            fields.append((row["irq"], "", "", (), text_after.strip()))
        counts.append(numbers + [0] * (len(cpus) - len(numbers)))
    irq, chips, hwirq, actions, label = zip(*fields, strict=True) if fields else ((), (), (), (), ())
    if len(set(irq)) != len(irq):
        raise RunError("interrupt table has the same row twice", where=where)
    count = np.array(counts, dtype=np.int64).reshape(len(fields), len(cpus))
    return InterruptTable(irq, chips, hwirq, actions, label, cpus, count)


def read_interrupts(path: Path) -> InterruptTable:
    """Parse a saved /proc/interrupts; KreproError when it is missing or does not parse."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RunError(f"interrupt table cannot be read: {error.strerror}", where=str(path)) from error
    return parse_interrupts(text, where=str(path))


def delta(before: InterruptTable, after: InterruptTable, *, where: str | None = None) -> InterruptTable:
    """Interrupts between two snapshots: the rows of `after`, counts modulo 2**32.

    A line that `before` lacks counts from 0 (lines appear with their first action). KreproError when the CPUs
    differ, a row of `before` is gone, or it lacks a named row, since then the difference is unknown: these are the
    last rows, and the same in every table of one kernel.
    """
    if before.cpus != after.cpus:
        raise RunError(f"CPUs changed between the snapshots: {before.cpus} became {after.cpus}", where=where)
    gone = [irq for irq in before.irq if irq not in after.irq]
    if gone:
        raise RunError(f"interrupt rows vanished between the snapshots: {', '.join(gone)}", where=where)
    if missing := [irq for irq in after.irq if not irq.isdigit() and irq not in before.irq]:
        raise RunError(f"the first snapshot is cut short: it has no rows {', '.join(missing)}", where=where)
    base = np.zeros_like(after.count)
    if before.irq:
        base[[after.irq.index(irq) for irq in before.irq]] = before.count
    return replace(after, count=(after.count - base) % _WRAP)


def _split_counts(rest: str, most: int) -> tuple[list[int], str]:
    """Leading integers of a row, at most one per CPU, and the text after them; what fits no 64 bits is no count."""
    match = re.match(rf"(?:\s*\d{{1,18}}(?=\s|$)){{0,{most}}}", rest)
    taken = match.group(0) if match else ""
    return [int(number) for number in taken.split()], rest[len(taken) :]
