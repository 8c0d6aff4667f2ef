# SPDX-License-Identifier: MIT
"""The access model: what the traces of one arm say of the programs, in their own time: without what the tracer took.

A trace is read in pieces, once for all tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from harness.measure.raw import Trial
from harness.measure.rows import TableRows

from .dwells import cost_of, programs_of
from .trace.accessmap import AccessMap
from .trace.pages import PageTable
from .trace.program import Program
from .trace.records import Trace
from .trace.reuse import ReuseDistances
from .trace.streams import Streams
from .trace.tables import Table, fill
from .trace.transitions import Transitions
from .trace.visits import visit_table, visits
from .trace.workingset import WorkingSet, WorkingSetCurve

#: Name of the part, as the table problems has it.
MODEL = "access model"
INTERVALS = 200
TOP = 200
SHOWN_VISITS = 20_000


def decode_model(rows: TableRows, trials: Sequence[Trial]) -> None:
    """The tables of `declared.MODEL`; map and visits of each workload's first trial."""
    shown: set[str] = set()
    for trial in trials:
        for workload in programs_of(trial):
            with rows.part(trial, MODEL, workload):
                program = Program(Trace(trial.path / workload / "trace"), cost_of(trial))
                frames = model_tables(program, first=workload not in shown)
                for name, frame in frames.items():
                    rows.put(name, frame, trial, workload)
                shown.add(workload)


def model_tables(program: Program, *, first: bool) -> dict[str, pd.DataFrame]:
    """The tables of one program by name; `first`: with map and visits."""
    step = max(1, program.lasted // INTERVALS + 1)
    tables: dict[str, Table] = {
        "pages": PageTable(),
        "curve": WorkingSetCurve(),
        "workingset": WorkingSet(step, INTERVALS, [step, 10 * step]),
        "reuse": ReuseDistances(),
    }
    streams, transitions, cells = Streams(), Transitions(), AccessMap(step, INTERVALS)
    fill(program.since_exec(), [*tables.values(), streams, transitions, cells])
    frames = {name: table.frame() for name, table in tables.items()}
    frames |= {"kinds": streams.kinds(), "advice": streams.advice(), "streams": streams.frame().head(TOP)}
    frames["transitions"] = transitions.frame(TOP)
    if first:
        frames |= {"map": cells.frame(), "visits": visit_table(visits(program.since_exec()), SHOWN_VISITS)}
    return frames
