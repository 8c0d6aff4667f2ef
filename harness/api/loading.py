# SPDX-License-Identifier: MIT
"""Finished sets as pandas tables. Nothing of a set is executed, and nothing in it is changed."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import pandas as pd

from harness.errors import UsageError
from harness.measure.claims import ClaimResult
from harness.measure.comparison import Compared
from harness.paths import RESULTS
from harness.report.columns import column_frame, metric_frame
from harness.report.compared import compared_sets
from harness.sets.listing import describe, find_set, set_paths
from harness.sets.manifest import Manifest
from harness.sets.resultset import ResultSet

SET_COLUMNS = ("id", "experiment", "created", "profile", "trials", "failed", "verdicts", "broken", "path")
COMPARED_COLUMNS = (
    *("arm_a", "arm_b", "metric", "unit", "a", "b", "trials_a", "trials_b"),
    *("kind", "effect", "low", "high", "outcome", "note"),
)


class Results:
    """One finished set. Tables are read when they are first asked for; a damaged file is a RunError that names it."""

    def __init__(self, path: Path) -> None:
        self._set = ResultSet(path)

    def __repr__(self) -> str:
        return f"<Results {self.manifest.experiment.name}/{self.manifest.id}>"

    @property
    def path(self) -> Path:
        """The set's folder."""
        return self._set.path

    @property
    def manifest(self) -> Manifest:
        """Where it all comes from: docs/file-formats.md."""
        return self._set.manifest

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """Long form: arm, trial (int64), metric, value (float64, NaN: absent), unit, reason (why absent)."""
        return self._set.metrics

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """What the experiment decoded from the raw files, by name; `meanings` says what their columns are."""
        return self._set.tables

    @cached_property
    def claims(self) -> pd.DataFrame:
        """One row per claim or finding, `id` as the index: verdict, expected, measured, low, high, unit, reason, ….

        `low` and `high` bound the 95 % interval, NaN where there is none.
        """
        rows = []
        for claim in self._set.claims:
            low, high = claim.interval or (float("nan"), float("nan"))
            rows.append({**claim.model_dump(exclude={"interval"}), "low": low, "high": high})
        names = [name for name in ClaimResult.model_fields if name != "interval"]
        return pd.DataFrame(rows, columns=[*names, "low", "high"]).set_index("id")

    @cached_property
    def trials(self) -> pd.DataFrame:
        """One row per trial in the order of the plan, failed ones too: arm, trial, status, reason, seed, ….

        A parameter NAME of an arm is the column `params.NAME`.
        """
        rows = [trial.model_dump(mode="json") for trial in self.manifest.trials]
        frame = pd.json_normalize(rows).rename(columns={"repetition": "trial"})
        first = ["arm", "trial", "status", "reason", "seed", "kernel", "clock", "fidelity"]
        return frame.reindex(columns=[*first, *(name for name in frame.columns if name not in first)])

    def values(self, metric: str) -> pd.DataFrame:
        """One metric: a row per trial, a column per arm; UsageError when there is no such metric."""
        rows = self.metrics[self.metrics["metric"] == metric]
        if rows.empty:
            known = ", ".join(dict.fromkeys(self.metrics["metric"]))
            raise UsageError(f"no metric {metric!r} (known: {known})", where=str(self.path))
        return rows.pivot(index="trial", columns="arm", values="value")

    def raw(self, arm: str, trial: int = 0) -> Path:
        """The folder of what came out of the guest; UsageError when there is no such trial."""
        for record in self._set.trials:
            if (record.arm, record.repetition) == (arm, trial):
                return record.path
        raise UsageError(f"no trial {arm} {trial}", where=str(self.path))

    @cached_property
    def meanings(self) -> dict[str, pd.DataFrame]:
        """What the columns of each table mean, by its name, and under `metrics` what the metrics do."""
        declared = {table.name: column_frame(table) for table in self._set.declared_tables}
        return {**declared, "metrics": metric_frame(self._set.declared_metrics)}


def load(name: str | Path, results: str | Path = RESULTS) -> Results:
    """The set that `name` means: a path, `EXPERIMENT/ID`, a unique prefix of an ID, or `latest`.

    UsageError when none or several fit.
    """
    return Results(find_set(Path(results).expanduser(), str(name)))


def sets(experiment: str | None = None, results: str | Path = RESULTS) -> pd.DataFrame:
    """All finished sets, newest first: SET_COLUMNS; `verdicts` is a dict of counts, `broken` why one cannot be read."""
    rows = []
    for path in set_paths(Path(results).expanduser(), experiment):
        one = describe(path)
        place = (path.name, path.parent.name, one.created, one.profile, one.trials, one.failed)
        rows.append((*place, dict(one.verdicts), one.broken, path))
    return pd.DataFrame(rows, columns=list(SET_COLUMNS))


def compare(
    a: Results,
    b: Results,
    arms: tuple[str, str] | None = None,
    *,
    over: str | None = None,
    force: bool = False,
) -> pd.DataFrame:
    """How b differs from a, a row per arm and metric: COMPARED_COLUMNS, as `./inv compare` has them.

    `a` and `b` are medians, `effect` their ratio or difference (`kind`), NaN where there is none. `low` and `high` are
    the bounds of its 95 % interval, or where the outcome is `differs`, of the pairs of equal seeds. UsageError as the
    command's.
    """
    _, _, _, rows = compared_sets(a.path, b.path, arms, force, over)
    return pd.DataFrame([_row(row) for row in rows], columns=list(COMPARED_COLUMNS))


def _row(row: Compared) -> tuple[object, ...]:
    effect = row.effect
    told = (effect.kind, effect.value, effect.low, effect.high) if effect else (None, *[float("nan")] * 3)
    return (*row.arms, row.metric, row.unit, row.a, row.b, *row.trials, *told, row.outcome, row.note)
