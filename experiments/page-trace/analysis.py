# SPDX-License-Identifier: MIT
"""Li, Wang and Wang (2009): the order of pages that a program touches, by a second page table.

Pure functions of a result set's raw folders and tables. declared.py says what tables and metrics there are;
programs.py, cases.py, advised.py, said.py and model.py decode; hand.py has what a person counted; measures.py
measures; shown.py and figures.py show.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from harness.measure.raw import Trial
from harness.measure.rows import TableRows

from .advised import METHOD, decode_advised
from .cases import decode_known, decode_lackey, decode_neighbour
from .declared import TABLES
from .declared_metrics import METRICS
from .dwells import decode_dwells
from .figures import draw as figures
from .measures import measure as metrics
from .model import decode_model
from .programs import decode_programs
from .said import TRACED, decode_said
from .shown import beside_the_paper as paper
from .shown import summaries as summary
from .trace.timeline import page_slices

__all__ = ["METRICS", "TABLES", "figures", "metrics", "paper", "summary", "tables", "timeline"]
#: The arm whose traces tell of the programs.
EXACT = "traced"


def tables(trials: Sequence[Trial]) -> dict[str, pd.DataFrame]:
    """Decode every program of every trial."""
    rows = TableRows(TABLES)
    for trial in trials:
        decode_programs(rows, trial)
        if trial.params.get("method") == "known":
            decode_known(rows, trial)
        if trial.params.get("method") == "lackey-known":
            decode_lackey(rows, trial)
        if trial.params.get("method") == "neighbour":
            decode_neighbour(rows, trial)
        if trial.params.get("method") == METHOD:
            if trial.params.get("advice") == TRACED:
                decode_said(rows, trial)
            else:
                decode_advised(rows, trial)
    decode_dwells(rows, trials)
    decode_model(rows, [trial for trial in trials if trial.arm == EXACT])
    return rows.frames()


def timeline(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Page visits of each program's first trial, one track per region of memory."""
    programs = tables["visits"].groupby("workload", sort=False)
    parts = [page_slices(visits, str(workload)) for workload, visits in programs]
    return pd.concat(parts, ignore_index=True) if parts else page_slices(pd.DataFrame(), "")
