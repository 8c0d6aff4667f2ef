# SPDX-License-Identifier: MIT
"""From raw files to tables, metrics, claims, documents and figures on disk: what a run does once, and a check again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pandas as pd

from harness.errors import KreproError
from harness.experiment.claim import Claim
from harness.measure.analysis import contained
from harness.measure.claims import ClaimResult, judge
from harness.measure.trials import TRIALS
from harness.sets.resultset import Writer, read_metrics, read_tables, shown_in
from harness.sets.shown import Shown
from harness.trial.model import TrialRecord


@dataclass
class Analysed:
    """What an analysis made of the good trials of a run; `failures`: of what comes after the verdicts."""

    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    metrics: pd.DataFrame = field(default_factory=pd.DataFrame)
    claims: list[ClaimResult] = field(default_factory=list)
    shown: Shown = field(default_factory=Shown)
    failures: list[KreproError] = field(default_factory=list)


class Hooks(Protocol):
    """An analysis, wherever it is executed (`harness.analysis.here`, or `contained`). `path`: its analysis.py."""

    path: Path

    def measure(self, good: Sequence[TrialRecord], claims: Sequence[Claim], writer: Writer) -> None:
        """Write tables and metrics of these trials; what goes wrong is raised."""

    def show(self, claims: Sequence[ClaimResult], writer: Writer) -> list[KreproError]:
        """Write what shows the tables, metrics and verdicts that were just made; what went wrong with that."""


def analyse(
    hooks: Hooks, claims: Sequence[Claim], trials: Sequence[TrialRecord], writer: Writer, *, part: str = ""
) -> Analysed:
    """Write all that follows from the good ones of a run's `trials` (at least one) into the set that is being written.

    Tables and metrics are given on as they come back from their files: so every later reader of the set, who has only
    these, gets the same. Whatever goes wrong is an error of the analysis, unless it is the host's (OSError). In tables
    or metrics it is raised; in what shows them it costs that only. Verdicts are judged here, whatever it thinks of
    them. `part`: what part of its plan the set is; then no claim gets a verdict (`withheld`).
    """
    hooks.measure([trial for trial in trials if trial.status == "ok"], claims, writer)
    with contained(hooks.path, "metrics()"):
        tables, metrics = read_tables(writer.path), read_metrics(writer.path)
        made = Analysed(tables, metrics, withheld(judge(claims, metrics, tables[TRIALS.name], trials), part))
        writer.write_claims(made.claims)
    made.failures = hooks.show(made.claims, writer)
    made.shown = shown_in(writer.path)
    return made


def withheld(claims: Sequence[ClaimResult], part: str) -> list[ClaimResult]:
    """Of a part of a plan, what was measured without verdicts: a part must not be taken for the whole."""
    if not part:
        return list(claims)
    why = f"the set has {part}; ./inv merge judges the union"
    return [claim.model_copy(update={"verdict": "not-measurable", "reason": why}) for claim in claims]
