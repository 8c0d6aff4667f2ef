# SPDX-License-Identifier: MIT
"""Programs with advice from their traces followed, beside the same without: the arms resumed* and short*.

said.py has the arm whose programs are only traced.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable
from typing import Annotated, Any

import pandas as pd

from harness.measure.raw import Answer, Trial, read_answer, read_bytes
from harness.measure.rows import MetricRows, TableRows
from harness.yamlfile import about

Values = dict[str, Any]

#: The method of these arms, and the part of a trial, as the table problems has it.
METHOD, ADVISED = "advised", "advised program"
#: Kinds of advice, the parameter of an arm: none; all memory fetched ahead, which needs no trace.
NONE, EVERYTHING = "none", "everything"


class Run(Answer):
    """What the guest's program `advised` says; times and faults from where the command went on, or began."""

    elapsed_ns: int
    major_faults: Annotated[int, about("page faults that read swap space")]
    paged_out: Annotated[int, about("pages that it had in swap space when it went on; 0: it was not put aside")]
    fetched: Annotated[int, about("pages that were asked for ahead")]
    exit_status: Annotated[int, about("the program's, as a shell has it", "1")]


def decode_advised(rows: TableRows, trial: Trial) -> None:
    """The table advised of one trial."""
    for workload in trial.workloads:
        with rows.part(trial, ADVISED, workload):
            folder = trial.path / workload
            run = read_answer(folder / "advised.json", Run)
            row = {
                "advice": str(trial.params.get("advice", "")),
                "seconds": run.elapsed_ns / 1e9,
                **run.as_columns(),
                "output": hashlib.sha256(read_bytes(folder / "stdout")).hexdigest(),
            }
            rows.put("advised", row, trial, workload)


#: Metrics of one program: beside the same one with which advice, and how.
_BESIDE: dict[str, tuple[str, Callable[[Values, Values], float]]] = {
    "speedup": (NONE, lambda own, other: other["seconds"] / own["seconds"]),
    # Where no fault is left, as many times fewer as with one.
    "fewer_faults": (NONE, lambda own, other: other["major_faults"] / max(1, own["major_faults"])),
    "same_output": (NONE, lambda own, other: float(own["output"] == other["output"])),
    "speedup_over_everything": (EVERYTHING, lambda own, other: other["seconds"] / own["seconds"]),
}
#: Metrics over all programs of a trial: of which of these, and how.
_OVER_ALL: dict[str, tuple[str, Callable[[list[float]], float]]] = {
    "speedup_median": ("speedup", statistics.median),
    "speedup_least": ("speedup", min),
    "fewer_faults_median": ("fewer_faults", statistics.median),
    "same_output": ("same_output", min),
    "speedup_over_everything_median": ("speedup_over_everything", statistics.median),
}


def put_advised(tables: dict[str, pd.DataFrame], rows: MetricRows) -> None:
    """Speed-ups and fewer faults of each program with advice, and over a trial's programs; absent where one is."""
    every = _records(tables["advised"])
    runs = {(row["advice"], row["trial"], row["workload"]): row for row in every}
    problems = _records(tables["problems"][tables["problems"]["part"] == ADVISED])
    without = {row["arm"] for row in every if row["advice"] == NONE}
    trials = dict.fromkeys((row["arm"], row["trial"]) for row in [*every, *problems])
    for arm, trial in trials:
        if arm in without:
            continue
        own = [row for row in every if (row["arm"], row["trial"]) == (arm, trial)]
        lacks = next((row["reason"] for row in problems if (row["arm"], row["trial"]) == (arm, trial)), None)
        for name, (advice, _) in _BESIDE.items():
            programs = {row["workload"] for row in every if row["advice"] == advice}
            if any(row["workload"] in programs and row["advice"] != advice for row in own):
                _put_beside(rows, (arm, trial), name, own, runs, lacks)


def _put_beside(
    rows: MetricRows,
    at: tuple[str, int],
    name: str,
    own: list[Values],
    runs: dict[tuple[str, int, str], Values],
    lacks: str | None,
) -> None:
    advice, value = _BESIDE[name]
    values = []
    for row in own:
        other = runs.get((advice, at[1], row["workload"]))
        if other is None:
            lacks = none = f"{row['workload']} did not run with advice {advice} in this repetition"
            rows.put(*at, f"{name}.{row['workload']}", None, reason=none)
        else:
            values.append(value(row, other))
            rows.put(*at, f"{name}.{row['workload']}", values[-1])
    for over, (of, how) in _OVER_ALL.items():
        if of == name:
            rows.put(*at, over, how(values) if values and lacks is None else None, reason=lacks)


def _records(table: pd.DataFrame) -> list[Values]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
