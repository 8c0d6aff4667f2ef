# SPDX-License-Identifier: MIT
"""Yang & Lu (2004): kernel hot spots by tick sampling, and interrupt handlers as its blind spot.

The hooks; each job has a file beside this one. Numbers in brackets, "fault 3", are those of this folder's README.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from harness.measure.raw import Trial

from .declared import TABLES
from .declared_metrics import METRICS
from .decoding import decode_trials
from .figures import draw
from .forensics import beside
from .metrics import measure
from .report import summarise
from .stacks import weighted

__all__ = ["METRICS", "TABLES", "figures", "metrics", "paper", "profiles", "summary", "tables"]


def tables(trials: Sequence[Trial]) -> dict[str, pd.DataFrame]:
    """Decode every workload of every trial."""
    return decode_trials(trials)


def metrics(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """One value per trial and name."""
    return measure(tables)


def figures(tables: dict[str, pd.DataFrame], metrics: pd.DataFrame) -> dict[str, Figure]:
    """One figure per name; those for which there is data."""
    return draw(tables, metrics)


def paper(tables: dict[str, pd.DataFrame], metrics: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The paper's two tables in its form, ours beside; what they say of its text; its arithmetic of N."""
    return beside(tables, metrics)


def summary(tables: dict[str, pd.DataFrame], metrics: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Small tables for people."""
    return summarise(tables, metrics)


def profiles(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Weighted stacks for speedscope and the like."""
    return weighted(tables)
